"""The door to Prefect, with flows/ and servers/: deployments, automations, states and names of flow runs."""

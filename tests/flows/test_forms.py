"""What a user reads in Prefect's forms: every parameter of every deployment, down to each value of params.yaml."""

import yaml
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema

from tests.flows.helpers import REPOSITORY

TYPES = {"type", "anyOf", "allOf", "oneOf", "enum", "const", "$ref"}


def deployments():
    files = (REPOSITORY / "prefect.yaml", REPOSITORY / "infra/stages.yaml")
    return [one for path in files for one in yaml.safe_load(path.read_text())["deployments"]]


def incomplete(schema, name):
    """The fields of a form that have no type or no description."""
    sections = {name: schema, **schema.get("definitions", {})}
    return [
        f"{section}.{field}"
        for section, content in sections.items()
        for field, what in content.get("properties", {}).items()
        if not what.get("description") or not TYPES & set(what)
    ]


def test_every_field_of_every_form_has_a_type_and_says_what_to_fill_in():
    for entrypoint in sorted({one["entrypoint"] for one in deployments()}):
        schema = parameter_schema(load_flow_from_entrypoint(entrypoint)).model_dump_for_openapi()
        assert schema["properties"], entrypoint
        assert incomplete(schema, entrypoint) == []


def test_a_field_without_a_description_or_a_type_is_found():
    def flow(told: int, untold: int, untyped=None) -> None:
        """Do something.

        Args:
            told: What it is.
            untyped: What it is.
        """

    assert incomplete(parameter_schema(flow).model_dump_for_openapi(), "flow") == ["flow.untold", "flow.untyped"]


def test_every_deployment_says_what_it_does_and_has_tags_and_a_decision_on_concurrent_runs():
    for one in deployments():
        assert one["description"], one["entrypoint"]
        assert one["tags"], one["entrypoint"]
        assert "concurrency_limit" in one, one["entrypoint"]

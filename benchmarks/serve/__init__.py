"""How much of what a candidate can answer in process its server delivers over HTTP."""

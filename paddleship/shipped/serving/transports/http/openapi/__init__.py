"""The OpenAPI document of a served model: what it takes and answers, from its inputs and outputs."""

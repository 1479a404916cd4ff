"""The OpenAPI document of a server with its model: every path, and the schemas of what this very model takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from paddleship import __version__
from paddleship.shipped.serving.transports.http import deadlines, statuses
from paddleship.shipped.serving.transports.http.inference import JsonModel
from paddleship.shipped.serving.transports.http.openapi import schemas

_ERROR = {"$ref": "#/components/responses/Error"}
_JSON = "application/json"
_COMPUTING = sorted({*statuses.STATUSES.values(), HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_TIMEOUT = {
    "name": deadlines.HEADER,
    "in": "header",
    "description": "Milliseconds until nobody wants the answer any more; then it is not computed (504).",
    "schema": {"type": "integer", "minimum": 1},
}


def of(model: JsonModel, *, wants_token: bool) -> dict[str, Any]:
    """OpenAPI 3.1. `wants_token`: the server answers only clients with a token."""
    served = model.model
    schema = {
        "Row": schemas.row(served),
        "Reply": schemas.reply(served),
        "Request": schemas.request(served),
        "Response": schemas.response(served),
        "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    }
    if served.raw_inputs:
        schema["RawRequest"] = schemas.raw_request(served)
    components: dict[str, Any] = {
        "schemas": schema,
        "responses": {"Error": {"description": "Why there is no answer.", "content": {_JSON: {"schema": _schema("Error")}}}},
    }
    description = (
        f"Candidate {served.candidate.name} with the digest {served.candidate.digest}. A request has 1 to {model.limits.max_batch} rows."
    )
    found = {
        "openapi": "3.1.0",
        "info": {
            "title": served.candidate.model,
            "version": served.version,
            "summary": f"Served by paddleship {__version__}",
            "description": description,
        },
        "servers": [{"url": "."}],
        "paths": _paths(model),
        "components": components,
    }
    if wants_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _paths(model: JsonModel) -> dict[str, Any]:
    name, version = model.model.candidate.model, model.model.version
    asked = {"oneOf": [_schema("Request"), _schema("RawRequest")]} if model.model.raw_inputs else _schema("Request")
    infer = _computing("infer", "Ask in the Open Inference Protocol v2", {_JSON: {"schema": asked}}, _schema("Response"))
    paths = {
        "/predict": {
            "post": _computing(
                "predict", "Ask with rows, and get the decision for each", _bodies_of_rows(model), _one_or_several("Reply", model)
            )
        },
        f"/v2/models/{name}/infer": {"post": infer},
        f"/v2/models/{name}": {"get": _read("metadata", "Inputs and outputs, version and limits")},
        f"/v2/models/{name}/ready": {"get": _read("modelReady", "Whether the model answers", HTTPStatus.SERVICE_UNAVAILABLE)},
        "/v2": {"get": _read("server", "Name and version of the server")},
        "/v2/health/live": {"get": _read("live", "Whether the server listens") | {"security": []}},
        "/v2/health/ready": {
            "get": _read("ready", "Whether the model is loaded and answers", HTTPStatus.SERVICE_UNAVAILABLE) | {"security": []}
        },
        "/metrics": {"get": _read("metrics", "What the server counts, for Prometheus", media="text/plain")},
    }
    versioned = {"post": infer | {"operationId": "inferVersion", "summary": "The same, only if this is the version"}}
    return paths | {f"/v2/models/{name}/versions/{version}/infer": versioned}


def _bodies_of_rows(model: JsonModel) -> dict[str, Any]:
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}} if model.limits.raw else {}
    return {_JSON: {"schema": _one_or_several("Row", model)}} | file


def _one_or_several(name: str, model: JsonModel) -> dict[str, Any]:
    several = {"type": "array", "items": _schema(name), "minItems": 1, "maxItems": model.limits.max_batch}
    return {"oneOf": [_schema(name), several]}


def _computing(name: str, summary: str, bodies: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """An operation that waits for the model."""
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [_TIMEOUT],
        "requestBody": {"required": True, "content": bodies},
        "responses": _responses({"schema": answer}, _JSON, _COMPUTING),
    }


def _read(name: str, summary: str, *failures: HTTPStatus, media: str = _JSON) -> dict[str, Any]:
    content = {"schema": {"type": "object" if media == _JSON else "string"}}
    return {"operationId": name, "summary": summary, "responses": _responses(content, media, failures)}


def _responses(content: Mapping[str, Any], media: str, failures: Sequence[HTTPStatus]) -> dict[str, Any]:
    good = {"description": "The answer.", "content": {media: content}}
    failed = {str(int(status)): _ERROR | {"description": status.phrase} for status in failures}
    return {"200": good, **failed, "default": _ERROR}


def _schema(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}

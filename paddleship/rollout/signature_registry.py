"""Signatures in an image registry, where cosign puts them: a manifest whose tag is the digest of the image."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from paddleship.errors import Unavailable
from paddleship.promotion import signatures
from paddleship.reports.verdict import Check

_MANIFEST, _CONFIG = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json"
_TIMEOUT_S = 30
_PAYLOAD, _ANNOTATION = "application/vnd.dev.cosign.simplesigning.v1+json", "dev.cosignproject.cosign/signature"


def push(reference: str, key: Any) -> str:
    """Sign an image, NAME@sha256:…, and push the signature beside it. Returns the name of the signature. Raises Unavailable."""
    text, name = signatures.payload(reference), _name(reference)
    layer = {**_described(text, _PAYLOAD), "annotations": {_ANNOTATION: signatures.sign(key, text)}}
    config = json.dumps({"architecture": "", "config": {}, "os": "", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode()
    with _registry(reference) as registry, tempfile.TemporaryDirectory() as scratch:
        container = registry.get_container(name)
        file = Path(scratch) / "blob"
        for content in (text, config):
            file.write_bytes(content)
            registry.upload_blob(str(file), container, _described(content, "")).raise_for_status()
        earlier = [one for one in _layers(registry, name) if one["digest"] != layer["digest"] or one["annotations"] != layer["annotations"]]
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": _described(config, _CONFIG), "layers": [*earlier, layer]}
        registry.upload_manifest(manifest, container).raise_for_status()
    return name


def check(reference: str | None, key: Any) -> Check:
    """Whether an image in a registry is signed by the key of promote.verify_key. Raises Unavailable."""
    return judge(["no registry has the image"] if reference is None else _faults(reference, key))


def judge(faults: Sequence[str | None]) -> Check:
    """Whether one of the signatures of an image has no fault."""
    return Check(
        name="image_signature",
        measured="signed" if None in faults else "; ".join(dict.fromkeys(map(str, faults))) or "not signed",
        limit="signed by promote.verify_key",
        passed=None in faults,
        advice="if you trust the image, sign it with `paddleship sign`",
    )


def _faults(reference: str, key: Any) -> list[str | None]:
    """The fault of each signature of an image; None for a good one."""
    digest, found = reference.partition("@")[2], []
    with _registry(reference) as registry:
        for layer in _layers(registry, _name(reference)):
            blob = registry.get_blob(_name(reference), layer["digest"])
            blob.raise_for_status()
            found.append(signatures.fault(key, blob.content, layer["annotations"].get(_ANNOTATION, ""), digest=digest))
    return found


def _layers(registry: Any, name: str) -> list[dict[str, Any]]:
    """The signatures that a registry has under a name."""
    container = registry.get_container(name)
    response = registry.do_request(f"{registry.prefix}://{container.manifest_url()}", "GET", headers={"Accept": _MANIFEST})
    if response.status_code == HTTPStatus.NOT_FOUND:
        return []
    response.raise_for_status()
    return [{"annotations": {}, **layer} for layer in response.json()["layers"] if layer.get("mediaType") == _PAYLOAD]


@contextmanager
def _registry(reference: str) -> Iterator[Any]:
    """A client of the registry that has an image; without TLS on loopback, as Docker. Raises Unavailable if it fails."""
    from requests.exceptions import RequestException

    host = reference.partition("/")[0]
    try:
        yield _client(host, _name(reference))
    except (RequestException, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:160]
        raise Unavailable(
            f"the signature of {reference} can be neither read nor written ({reason}): see that {host} answers, log in with "
            f"`docker login {host}` if it wants a user, then run the same command"
        ) from None


def _client(host: str, name: str) -> Any:
    """A client with the credentials of `docker login`, for the kind of authentication that the registry asks for."""
    import requests
    from oras.provider import Registry

    insecure = _is_loopback(host)
    answer = requests.get(f"{'http' if insecure else 'https'}://{host}/v2/", timeout=_TIMEOUT_S)
    basic = answer.headers.get("Www-Authenticate", "").lower().startswith("basic")
    registry = Registry(hostname=host, insecure=insecure, auth_backend="basic" if basic else "token")
    registry.do_request = partial(Registry.do_request.__wrapped__, registry)  # once: its repetitions of a failed request take two minutes
    folder = os.environ.get("DOCKER_CONFIG")
    registry.auth.load_configs(registry.get_container(name), configs=[f"{folder}/config.json"] if folder else [])
    if basic and not hasattr(registry.auth, "_basic_auth"):
        raise ValueError("it wants a user")
    return registry


def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"


def _name(reference: str) -> str:
    """The name under which cosign looks for signatures of an image."""
    name, _, digest = reference.partition("@")
    return f"{name}:{digest.replace(':', '-')}.sig"


def _described(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "size": len(content), "digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}

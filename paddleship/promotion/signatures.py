"""Signatures of images in the form of cosign: a key signs a text that names the digest of an image in a registry."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput

_TYPE = "cosign container image signature"
_MAKE = "make one with `openssl ecparam -name prime256v1 -genkey -noout -out sign.pem`"
_PUBLIC = "make it with `openssl ec -in sign.pem -pubout -out verify.pem`"


def private_key(path: Path, passphrase: str | None = None) -> Any:
    """The key to sign with, in PEM. Raises BadInput."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), passphrase.encode() if passphrase else None)
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"the key {str(path)!r} cannot be used ({_reason(error)}): {_MAKE}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInput(f"the key {str(path)!r} is no key of an elliptic curve, which ECDSA needs: {_MAKE}")
    return key


def public_key(path: Path) -> Any:
    """The key of promote.verify_key, in PEM. Raises BadInput."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"promote.verify_key {str(path)!r} is no public key in PEM ({_reason(error)}): {_PUBLIC}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise BadInput(f"promote.verify_key {str(path)!r} is no key of an elliptic curve, which ECDSA needs: {_PUBLIC}")
    return key


def payload(reference: str) -> bytes:
    """The text that is signed for an image, NAME@sha256:…."""
    name, _, digest = reference.partition("@")
    critical = {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": digest}, "type": _TYPE}
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def sign(key: Any, text: bytes) -> str:
    """The signature in base64."""
    return base64.b64encode(key.sign(text, _algorithm())).decode()


def fault(key: Any, text: bytes, signature: str, *, digest: str) -> str | None:
    """Why this is no signature of an image with that digest by that key; None if it is one."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(signature, validate=True), text, _algorithm())
    except (InvalidSignature, binascii.Error):
        return "signed by another key"
    try:
        critical = json.loads(text)["critical"]
        signed, kind = critical["image"]["docker-manifest-digest"], critical["type"]
    except (ValueError, KeyError, TypeError):
        return "what is signed names no image"
    if kind != _TYPE or signed != digest:
        return f"signed for {str(signed)[:19]}"
    return None


def _algorithm() -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.ECDSA(hashes.SHA256())


def _reason(error: Exception) -> str:
    return error.strerror or "" if isinstance(error, OSError) else " ".join(str(error).split())[:120]

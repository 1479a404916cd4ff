"""Sign the accepted image of a model version in the registry that promotions push to."""

from __future__ import annotations

from pathlib import Path

from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.errors import BadInput
from paddleship.promotion import signatures
from paddleship.rollout import image_registry, signature_registry
from paddleship.tracking.champion import Registry


def sign(params: Params, registry: Registry, version: str, key_file: Path, *, passphrase: str | None) -> str:
    """Push the image, unless it is there, and its signature; record the image by digest, so that `promote` takes the one that is signed.

    Returns a message. Raises BadInput, Unavailable.
    """
    key = signatures.private_key(key_file, passphrase)
    if params.promote.registry is None:
        raise BadInput("promote.registry is null, and signatures are kept in a registry: set it to HOST[:PORT][/PATH]")
    shipped = registry.version(version)
    if not image_registry.holds(params.promote.registry, shipped):
        with image.engine() as client:
            reference = image_registry.push(client, params.promote.registry, shipped)
        shipped = shipped.model_copy(update={"reference": reference})
        registry.set_reference(shipped)
    name = signature_registry.push(str(shipped.reference), key)
    return f"version {shipped.version} of {shipped.model} is signed: {shipped.reference}, signature {name}"

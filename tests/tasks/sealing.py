"""Seal outs that a test changed, as an adversary would who knows the format."""

import json

from paddleship.custody import seals


def sealed_again(folder, changes=None, **inputs):
    """Seal an out that was changed, as its stage would; `changes` are values of the seal, `inputs` are digests by stage."""
    values = {name: value for name, value in json.loads((folder / seals.FILE).read_text()).items() if name != "sha256"}
    values["inputs"] |= inputs
    values["params"] |= (changes or {}).pop("params", {})
    seals.Seal(**values | {"files": seals.contents(folder)} | (changes or {})).write(folder)


def measured_again(checkout):
    """Seal a proof that was changed, and the benchmark as if it had read that proof."""
    sealed_again(checkout / "models/parity")
    sealed_again(checkout / "models/benchmark", verify=seals.read(checkout / "models/parity", "verify").digest)


def proved_again(checkout):
    """Seal candidates and proof that were changed, as if verify had read and written them so."""
    sealed_again(checkout / "models/candidates")
    sealed_again(checkout / "models/parity", optimize=seals.read(checkout / "models/candidates", "optimize").digest)

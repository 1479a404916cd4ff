"""Seal outs that a test changed, as an adversary would who knows the format."""

import json

from paddleship.custody import seals


def sealed_again(folder):
    """Seal an out that was changed, as its stage would."""
    values = json.loads((folder / seals.FILE).read_text())
    seals.Seal(**values | {"files": seals.contents(folder)}).write(folder)


def measured_again(checkout):
    """Seal a proof that was changed, and the benchmark as if it had read that proof."""
    sealed_again(checkout / "models/parity")
    folder = checkout / "models/benchmark"
    values = json.loads((folder / seals.FILE).read_text())
    values["inputs"]["verify"] = seals.read(checkout / "models/parity", "verify").digest
    (folder / seals.FILE).write_text(json.dumps(values))
    sealed_again(folder)


def proved_again(checkout):
    """Seal candidates and proof that were changed, as if verify had read and written them so."""
    sealed_again(checkout / "models/candidates")
    folder = checkout / "models/parity"
    values = json.loads((folder / seals.FILE).read_text())
    values["inputs"]["optimize"] = seals.read(checkout / "models/candidates", "optimize").digest
    (folder / seals.FILE).write_text(json.dumps(values))
    sealed_again(folder)

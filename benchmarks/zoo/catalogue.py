"""All specimens of the zoo, and the short selection with one for each kind of trap."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from benchmarks.zoo.specimen import Specimen

_MODULES = (
    "traps",
    "errors",
    "structures",
    "control_flow",
    "convolutions",
    "sequences",
    "runtimes",
    "repositories",
    "vision",
    "pictures",
    "ranking",
    "series",
)
SHORT = (
    "ForgottenTraining",
    "PlainListOfLayers",
    "GuardsAgainstEmpty",
    "IgnoredInput",
    "NotCalledSelf",
    "Gated",
    "GramMatrix",
    "MaskedMean",
)


def specimens() -> dict[str, Specimen]:
    """All specimens by name."""
    found = [specimen for module in _MODULES for specimen in import_module(f"benchmarks.zoo.{module}").SPECIMENS]
    return {specimen.name: specimen for specimen in found}


def choose(names: Sequence[str], *, short: bool = False) -> list[Specimen]:
    """The specimens of some names or modules (`traps`), the short selection, or all. Raises ValueError for an unknown name."""
    known = specimens()
    wanted = names or (SHORT if short else list(known))
    if strange := [name for name in wanted if name not in known and name not in _MODULES]:
        raise ValueError(f"the zoo has no {', '.join(strange)}: give names of models, or of {', '.join(_MODULES)}")
    return [item for name, item in known.items() if name in wanted or item.model.factory.split(":")[0].rpartition(".")[2] in wanted]

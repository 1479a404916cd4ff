"""What verify proved: the candidates that passed, the limits that they were judged by, and what was seen of rows and libraries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.custody import chain
from paddleship.custody.links import LINKS
from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json
from paddleship.shipped.computing.runtimes import registry

_PASSED, _LIMITS, _ROWS, _MAPPED = "passed.json", "limits.json", "rows.json", "mapped_libraries.json"


@dataclass(frozen=True)
class RowFacts:
    """Whether no answer to a row changed with the other rows of its batch, and whether rows of several sizes were padded to see that."""

    independent: bool
    padded: bool


@dataclass(frozen=True)
class MappedLibraries:
    """The optional libraries that a candidate had mapped after all cases, and the GPU of that machine; empty for one without a GPU."""

    files: frozenset[str]
    gpu: str


def write(folder: Path, passed: Mapping[str, Any], params: Params, rows: RowFacts) -> None:
    """Write the facts about each candidate that passed, the params that judged them, and what was seen of rows in a batch."""
    (folder / _ROWS).write_text(json.dumps(asdict(rows)) + "\n", encoding="utf-8")
    (folder / _PASSED).write_text(json.dumps(passed) + "\n", encoding="utf-8")
    (folder / _LIMITS).write_text(json.dumps(LINKS["verify"].values(params), indent=1) + "\n", encoding="utf-8")


def read(params: Params) -> dict[str, dict[str, Any]]:
    """The facts about each candidate that passed. Raises BadInput if others than the present params judged them."""
    folder = Path(params.paths.parity)
    passed: dict[str, dict[str, Any]] = read_json(folder / _PASSED, stage="verify")
    chain.compare("verify", "by limits.json, ", read_json(folder / _LIMITS, stage="verify"), LINKS["verify"].values(params))
    return passed


def row_facts(params: Params) -> RowFacts:
    """What verify saw of rows in a batch."""
    return RowFacts(**read_json(Path(params.paths.parity) / _ROWS, stage="verify"))


def write_mapped_libraries(folder: Path, mapped: Mapping[str, Sequence[str]], gpus: Sequence[str]) -> None:
    """Write the optional libraries that each candidate had mapped, and the names of the GPUs of this machine; nothing if there are none."""
    if mapped:
        facts = {"gpus": list(gpus), "candidates": {name: list(files) for name, files in mapped.items()}}
        (folder / _MAPPED).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def mapped_libraries(params: Params, candidate: Candidate) -> MappedLibraries:
    """What verify saw of the optional libraries of a candidate.

    Raises CandidateError if it saw none, or if it does not follow on which GPU that was.
    """
    path, advice = Path(params.paths.parity) / _MAPPED, "set package.unused_libraries: keep"
    facts = read_json(path, stage="verify") if path.exists() else {"gpus": [], "candidates": {}}
    files, gpus = frozenset(facts["candidates"].get(candidate.name, ())), sorted(set(facts["gpus"]))
    if not files:
        raise CandidateError(f"verify saw no library of {candidate.name!r} that its image could leave out: {advice}")
    on_gpu = registry.kind_of(candidate).gpu
    if on_gpu and len(gpus) != 1:
        raise CandidateError(
            f"verify saw the libraries of {candidate.name!r} on a machine with {' and '.join(gpus) or 'no known GPU'}, and another GPU may "
            f"need others: {advice}, or prove it on a machine with one model of GPU"
        )
    return MappedLibraries(files, gpus[0] if on_gpu else "")

"""Custody: each stage accepts only what the stage before it made, proved or chose, by digest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.config import catalogue
from paddleship.config.params import Params
from paddleship.data import dataset
from paddleship.errors import CandidateError
from paddleship.lineage import sources
from paddleship.model import building
from paddleship.shipped.common.candidate import Candidate
from paddleship.shipped.common.files import read_json, sha256, write_text
from paddleship.shipped.common.spec import TensorSpec

MADE = "made.json"  # in the candidates' folder: the digest that optimize recorded for each
_SHOWN = 80


def require(what: str, found: str, expected: str | None, *, by: str, again: str) -> None:
    """Raise CandidateError, with both digests, if they differ; `by` is the stage that recorded `expected`."""
    if found != expected:
        noted = f"{by} recorded none of that name" if expected is None else f"{by} recorded {expected[:12]}"
        raise CandidateError(
            f"{what} has the digest {found[:12]}, but {noted}: it was replaced or made again; run `paddleship run --again {again}`"
        )


def write_made(folder: Path, made: Iterable[str]) -> None:
    """Record the digests of the candidates `made` in `folder`."""
    digests = {name: Candidate.load(folder / name).digest for name in made}
    write_text(folder / MADE, json.dumps(digests, indent=1) + "\n")


def require_made(folder: Path, candidate: Candidate) -> None:
    """Raise CandidateError if optimize did not make this candidate in `folder`."""
    made: dict[str, str] = read_json(folder / MADE, stage="optimize")
    require(f"the candidate {candidate.name!r}", candidate.digest, made.get(candidate.name), by="optimize", again="optimize")


def require_proven(candidate: Candidate, proven: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise CandidateError if verify did not prove this candidate."""
    known = proven.get(candidate.name)
    if known is None:
        raise CandidateError(
            f"candidate {candidate.name!r} has not passed verify (those that have: {', '.join(proven)}): run `dvc repro verify`"
        )
    require(f"the candidate {candidate.name!r}", candidate.digest, known.get("digest"), by="verify", again="verify")


def require_consistent(candidate: Candidate, params: Params, *, name: str, inputs: Sequence[TensorSpec]) -> None:
    """Raise CandidateError if the candidate contradicts params, data, checkpoint or code.

    `name` determines its runtime and precision; `inputs` are those of the prepared data.
    """
    kind = catalogue.kinds()[name]
    claims: dict[str, tuple[Any, Any, str]] = {
        "name": (candidate.name, name, "the folder that it lies in"),
        "model": (candidate.model, params.name, "params.yaml"),
        "task": (candidate.task, params.data.task, "data.task"),
        "classes": (candidate.classes, tuple(params.data.classes), "data.classes"),
        "runtime": (candidate.runtime, kind.runtime, "its name"),
        "precision": (candidate.precision, kind.precision, "its name"),
        "inputs": (candidate.inputs, tuple(inputs), "the prepared data"),
        "dimensions": (candidate.dimensions, dataset.read_dimensions(Path(params.paths.prepared)), "the prepared data"),
        "max_batch": (candidate.max_batch, params.verify.max_batch, "verify.max_batch"),
        "weights": (candidate.weights_sha256, sha256(Path(params.paths.checkpoint) / building.WEIGHTS), "the checkpoint"),
        "code": (candidate.code_sha256, sources.code_sha256(params.code), "code.watch"),
        "library": (candidate.library_sha256, sources.library_sha256(), "this paddleship"),
    }
    for claim, (said, expected, source) in claims.items():
        if said != expected:
            raise CandidateError(
                f"the candidate {name!r} has {claim} {_show(said)}, but {source} says {_show(expected)}: run `dvc repro export optimize`"
            )


def _show(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"

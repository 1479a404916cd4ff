"""Candidates: the one in a folder, and whether it was proven and fits params, data, checkpoint and code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.config import catalogue
from paddleship.config.params import Params
from paddleship.config.sections import answer
from paddleship.custody import sources
from paddleship.custody.differing import show_both
from paddleship.data import dataset
from paddleship.errors import CandidateError
from paddleship.model import building
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.spec import TensorSpec


def require(what: str, digest: str, expected: str | None, *, by: str, again: str) -> None:
    """Raise CandidateError, with both digests, if they differ; `by` is the stage that recorded `expected`."""
    if digest != expected:
        noted = f"{by} recorded none of that name" if expected is None else f"{by} recorded {expected[:12]}"
        raise CandidateError(
            f"{what} has the digest {digest[:12]}, but {noted}: it was replaced or made again; run `paddleship run --again {again}`"
        )


def load(params: Params, name: str) -> Candidate:
    """The candidate in the folder of that name. Raises CandidateError if it holds another candidate, or a changed file."""
    read(params, name)
    return Candidate.load(Path(params.paths.candidates) / name)


def read(params: Params, name: str) -> Candidate:
    """As `load`, without checking its files."""
    folder = Path(params.paths.candidates) / name
    candidate = Candidate.read(folder)
    if candidate.name != name:
        raise CandidateError(
            f"{str(folder)!r} holds the candidate {candidate.name!r}, not {name!r}: it was replaced; run `paddleship run --again optimize`"
        )
    return candidate


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
        "answer": (candidate.answer, answer.stored(params.answer), "answer"),
        "classes": (candidate.classes, tuple(params.data.class_names), "data.classes"),
        "runtime": (candidate.runtime, kind.runtime, "its name"),
        "precision": (candidate.precision, kind.precision, "its name"),
        "inputs": (candidate.inputs, tuple(inputs), "the prepared data"),
        "dimensions": (candidate.dimensions, dataset.read_dimensions(Path(params.paths.prepared)), "the prepared data"),
        "max_batch": (candidate.max_batch, params.verify.max_batch, "verify.max_batch"),
        "weights": (candidate.weights_sha256, sha256(Path(params.paths.checkpoint) / building.WEIGHTS), "the checkpoint"),
        "code": (candidate.code_sha256, sources.code_sha256(params.code), "code.watch"),
        "library": (candidate.library_sha256, sources.library_sha256(), "this paddleship"),
    }
    if candidate.threads > params.optimize.threads:
        raise CandidateError(
            f"the candidate {name!r} has {candidate.threads} threads, but optimize.threads is {params.optimize.threads}: "
            "run `dvc repro export optimize`"
        )
    for claim, (stated, expected, source) in claims.items():
        if stated != expected:
            says, wanted = show_both(stated, expected)
            raise CandidateError(f"the candidate {name!r} has {claim} {says}, but {source} says {wanted}: run `dvc repro export optimize`")

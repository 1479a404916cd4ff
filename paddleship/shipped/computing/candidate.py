"""A candidate: a folder that holds a model in one deployable form, and its description.

The folder is enough to run the model: `candidate.json` names runtime, options, threads, inputs and outputs, preprocessing
and the hash of every file. This module goes into the image, so it imports neither Paddle nor pydantic.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.computing.files import sha256, write_text
from paddleship.shipped.computing.spec import Dimension, TensorSpec
from paddleship.shipped.computing.task_kinds import registry as task_kinds
from paddleship.shipped.computing.task_kinds.registration import Decision, Positions

FILE = "candidate.json"
CODE = "code"  # folder of a candidate's copy of the user's code
SCHEMA_VERSION = 6


@dataclass(frozen=True)
class Program:
    """One of several programs of a candidate: its folder below the candidate's, and the sizes of the dimensions that are fixed in it."""

    folder: str
    sizes: dict[str, int]


@dataclass(frozen=True)
class Candidate:
    """The content of `candidate.json`.

    `options` are the runtime's own settings. `preprocess` is the config of paddleship.shipped.computing.preprocess.
    `outputs` are in the order in which forward returns them. `sources` maps each output to its index among the outputs of the
    exported program (whose names are `fetch_name_0` …), or to the name of the input that forward passes through. `nesting` is
    how the eager model nests its outputs (paddleship.shipped.computing.structure). `weights_sha256` is the hash of the checkpoint,
    `code_sha256` of the user's code, `library_sha256` of the part of this library that computes answers. `task` is data.task, None if
    only outputs are compared; `classes` names the classes of the first output. `answer` is what a server adds to the outputs besides the
    label (paddleship.shipped.computing.answers). `max_batch` is the largest number of rows that is
    proven, `dimensions` the sizes that a row may have; a server refuses others. `warm_shapes` are shapes of real batches, by input
    name, for the warm-up of a server. `programs` is empty if one program, in the folder itself, takes every size. `profile` is the
    distribution of the features of the training rows, in bins (paddleship.shipped.computing.features). `files` maps each file to its
    hash.
    """

    name: str
    model: str
    runtime: str
    precision: str
    threads: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    preprocess: dict[str, Any]
    weights_sha256: str
    task: str | None = None
    code_sha256: str = ""
    library_sha256: str = ""
    sources: dict[str, int | str] = field(default_factory=dict)
    nesting: Any = None
    classes: tuple[str, ...] = ()
    answer: dict[str, Any] = field(default_factory=dict)
    max_batch: int = 1
    dimensions: tuple[Dimension, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    warm_shapes: tuple[dict[str, list[int]], ...] = ()
    programs: tuple[Program, ...] = ()
    profile: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def digest(self) -> str:
        """Hash of `candidate.json` and of all files."""
        return hashlib.sha256(_dump(self).encode()).hexdigest()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The class names that a server returns as `label`; empty unless the first output has one score per class and none is named so.

        Also empty if decisions of this task have no names. Raises CandidateError for an unknown task.
        """
        if self.task is None or self._decision.names is None:
            return ()
        fits = bool(self.outputs) and self._decision.scores(self.outputs[0].shape, len(self.classes))
        return self.classes if fits and all(spec.name != "label" for spec in self.outputs) else ()

    def label_rows(self, scores: Any, positions: Callable[[], Sequence[Positions]] = list) -> list[str]:
        """The label of each row, by its scores in the first output; only if there are `labels`.

        `positions` is called if each position of a row has a decision, and returns the positions of each row.
        """
        return self._decision.answers(scores, self.labels, positions() if self._decision.per_position else ())

    @cached_property
    def _decision(self) -> Decision:
        return task_kinds.get(str(self.task))

    def save(self, folder: Path) -> Candidate:
        """Write `candidate.json` over the files that lie in `folder`, and return the candidate with their hashes."""
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        files = {name: sha256(folder / name) for name in names if name != FILE}
        complete = replace(self, files=files)
        write_text(folder / FILE, _dump(complete))
        return complete

    @classmethod
    def load(cls, folder: Path, *, stage: str = "optimize") -> Candidate:
        """Read a candidate and check the hash of every file; `stage` is the stage that makes it. Raises CandidateError."""
        candidate = cls.read(folder, stage=stage)
        for name, expected in candidate.files.items():
            found = sha256(folder / name) if (folder / name).is_file() else "missing"
            if found != expected:
                raise CandidateError(
                    f"{folder / name} changed since the candidate was made (sha256 {found[:12]}, expected {expected[:12]}): "
                    f"make it again with `paddleship run --again {stage}`"
                )
        return candidate

    @classmethod
    def read(cls, folder: Path, *, stage: str = "optimize") -> Candidate:
        """Read `candidate.json` without checking the files. Raises CandidateError."""
        path = folder / FILE
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values.get("schema_version")
            candidate = _parse(values) if version == SCHEMA_VERSION else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CandidateError(
                f"{path} cannot be read ({type(error).__name__}: {error}): make it again with `paddleship run --again {stage}`"
            ) from None
        if candidate is None:
            raise CandidateError(
                f"{path} has schema version {version!r}, this paddleship reads {SCHEMA_VERSION}: "
                f"make it again with `paddleship run --again {stage}`"
            )
        return candidate


def _parse(values: dict[str, Any]) -> Candidate:
    specs: dict[str, Any] = {key: tuple(TensorSpec.from_dict(spec) for spec in values[key]) for key in ("inputs", "outputs")}
    specs["programs"] = tuple(Program(**item) for item in values["programs"])
    specs["dimensions"] = tuple(Dimension(**item) for item in values["dimensions"])
    return Candidate(**{**values, **specs, "classes": tuple(values["classes"]), "warm_shapes": tuple(values["warm_shapes"])})


def _dump(candidate: Candidate) -> str:
    values = asdict(candidate)
    if not candidate.answer:
        del values["answer"]
    values["inputs"] = [spec.to_dict() for spec in candidate.inputs]
    values["outputs"] = [spec.to_dict() for spec in candidate.outputs]
    return json.dumps(values, indent=1, ensure_ascii=False, sort_keys=True) + "\n"

"""Regression cases: the inputs with the largest errors in earlier runs, asked again in every run."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from paddleship.errors import DataError
from paddleship.numerics import array_files
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.spec import Dimension, TensorSpec, batch_dimension, sizes_of

_MOST_CASES = 16


def read(folder: Path, specs: Sequence[TensorSpec], *, dimensions: Sequence[Dimension] = (), max_batch: int | None = None) -> list[Case]:
    """The saved cases that still fit the model; cases with other inputs, dtypes or sizes are from another model.

    Raises DataError if files cannot be read.
    """
    if not (folder / "cases.json").exists():
        return []
    try:
        names = [str(name) for name in json.loads((folder / "cases.json").read_text(encoding="utf-8"))]
        with (folder / "cases.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except (OSError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        raise DataError(
            f"the worst inputs of earlier runs in {str(folder)!r} cannot be read ({type(error).__name__}: {array_files.reason(error)}): "
            f"restore them with `dvc checkout {folder}`, or delete the folder to go on without them"
        ) from None
    cases = [
        Case(name, "past", {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{index}/")})
        for index, name in enumerate(names)
    ]
    return [case for case in cases if _fits(case, specs) and _taken(sizes_of(specs, case.inputs), specs, dimensions, max_batch)]


def write(folder: Path, known: Sequence[Case], worst: Iterable[Case]) -> None:
    """Save the known and the new cases; at the limit, the newest."""
    distinct: dict[str, Case] = {}
    for case in [*known, *worst]:
        digest = _digest(case)
        name = case.name if case.group == "past" else f"worst before: {case.name} ({digest[:8]})"
        saved = replace(case, name=name, group="past", rows=(), family="", made=())
        distinct.setdefault(digest, saved)
    saved_cases = list(distinct.values())[-_MOST_CASES:]
    with new_folder(folder) as beside:
        flat = {f"{index}/{name}": array for index, case in enumerate(saved_cases) for name, array in case.inputs.items()}
        np.savez(beside / "cases.npz", **flat)  # type: ignore[arg-type]
        (beside / "cases.json").write_text(json.dumps([case.name for case in saved_cases], indent=1) + "\n", encoding="utf-8")


def beyond(known: Sequence[Case], cases: Iterable[Case]) -> list[Case]:
    """The known cases whose inputs none of `cases` has, so that a run which is repeated asks the same and makes the same evidence."""
    asked = {_digest(case) for case in cases}
    return [case for case in known if _digest(case) not in asked]


def _digest(case: Case) -> str:
    """The hash of shapes and values."""
    content = b"".join(repr(array.shape).encode() + array.tobytes() for array in case.inputs.values())
    return hashlib.sha256(content).hexdigest()


def _taken(sizes: Mapping[str, int], specs: Sequence[TensorSpec], dimensions: Sequence[Dimension], max_batch: int | None) -> bool:
    """Whether a server accepts a batch of these sizes."""
    batch = batch_dimension(specs)
    small = max_batch is None or batch is None or sizes[batch] <= max_batch
    return small and all(rule.allows(sizes[rule.name]) for rule in dimensions if rule.name in sizes)


def _fits(case: Case, specs: Sequence[TensorSpec]) -> bool:
    return list(case.inputs) == [spec.name for spec in specs] and all(
        case.inputs[spec.name].dtype == spec.numpy_dtype
        and case.inputs[spec.name].ndim == len(spec.shape)
        and all(isinstance(want, str) or want == got for want, got in zip(spec.shape, case.inputs[spec.name].shape, strict=True))
        for spec in specs
    )

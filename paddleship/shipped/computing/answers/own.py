"""What a function of the user makes of the outputs of a row. A copy of its code belongs to the candidate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.answers.registration import Answering, AnswerKind
from paddleship.shipped.computing.candidate import CODE, Candidate
from paddleship.shipped.computing.preprocess.own_code import OwnCode
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.spec import Arrays, batch_dimension

_PLAIN = (str, bool, int, float, type(None))


def _make(settings: Mapping[str, Any], candidate: Candidate, folder: Path) -> Answering:
    reference: str = settings["own"]
    function = _load(reference, candidate, folder)
    batch = batch_dimension(candidate.inputs)
    by_row = {spec.name for spec in candidate.outputs if spec.shape and spec.shape[0] == batch}

    def row(outputs: Arrays, index: int) -> Any:
        try:
            given = {name: (array[index] if name in by_row else array).copy() for name, array in outputs.items()}  # it may work in place
            found = function(given, candidate.classes)
            plain = _plain(found)
            json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()  # half of a surrogate pair has no bytes
        except Exception as failure:
            raise CandidateError(
                f"answer.own {reference!r} failed on the outputs of a row ({explain(failure)}): fix that function"
            ) from None
        return plain

    def rows(outputs: Arrays) -> list[Any]:
        size = next((len(array) for name, array in outputs.items() if name in by_row), 0)
        return [row(outputs, index) for index in range(size)]

    return Answering(rows)


def _load(reference: str, candidate: Candidate, folder: Path) -> Callable[[Arrays, tuple[str, ...]], Any]:
    """The function of the candidate's copy of the code. Raises CandidateError."""
    module, _, name = reference.partition(":")
    files = [str(file.relative_to(CODE)) for file in map(PurePosixPath, candidate.files) if file.parts[0] == CODE and file.suffix == ".py"]
    try:
        with OwnCode(folder / CODE, files):
            function: Callable[[Arrays, tuple[str, ...]], Any] = getattr(import_module(module), name)
    except ModuleNotFoundError as missing:
        raise CandidateError(
            f"the code of answer.own {reference!r} imports {missing.name!r}, which is neither in its copy nor in the image: let a module "
            "below code.watch that imports numpy alone define it, and run `paddleship run --again export`"
        ) from None
    except Exception as failure:
        raise CandidateError(f"answer.own {reference!r} does not import ({explain(failure)}): fix the module") from None
    return function


def _plain(value: Any) -> Any:
    """The value with lists and numbers of Python in place of numpy's. Raises TypeError for what JSON cannot hold."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"it returned {type(value).__name__}, which JSON cannot hold")


ANSWER = AnswerKind("own", _make, any_task=True, own_code=True)

"""The registration of a kind of answer, in the file of the kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import Arrays
from paddleship.shipped.computing.task_kinds.registration import Array


def _as_it_is(output: Array) -> Array:
    return output


@dataclass(frozen=True)
class Answering:
    """The answers of one candidate.

    `rows(outputs)` returns a value for each row that JSON can hold. `decided(first)` is the first output as the decision of the task reads
    it, if the answer moves that decision, as thresholds do; the label of a row is made from it.
    """

    rows: Callable[[Arrays], list[Any]]
    decided: Callable[[Array], Array] = _as_it_is

    def texts(self, outputs: Arrays) -> list[str]:
        """The JSON of each row, as a server answers it."""
        return [json.dumps(row, ensure_ascii=False) for row in self.rows(outputs)]


@dataclass(frozen=True)
class AnswerKind:
    """A kind of answer. `name` is its key in the params. It is for `any_task`, or for those whose decision lists it in `scored`.

    `make(settings, candidate, folder)` makes the answers of the candidate in a folder; `settings` are the params. Raises CandidateError.
    `own_code`: a copy of the user's code goes into the folder.
    """

    name: str
    make: Callable[[Mapping[str, Any], Candidate, Path], Answering]
    any_task: bool = False
    own_code: bool = False

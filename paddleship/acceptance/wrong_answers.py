"""Name the answer of a server that is furthest from eager's: batch size, row, value, expected value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.proof.evidence import ROWS, Evidence
from paddleship.proof.parity import Judgement
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.spec import Arrays

KIND = "served-differently"
_PROVEN = "the candidate was proven on this batch, so the image or its server changes the answer"
_ADVICE = "build the image again with `paddleship run --again package`; if it stays wrong, run it with `docker run` and send this batch"


def find(evidence: Evidence, answers: Sequence[Arrays], judgement: Judgement, *, callers: str) -> Finding:
    """The worst answer of a server that failed its judgement; `callers` says how many asked at once."""
    place = judgement.worst
    case, expected, answer = evidence.cases[place], evidence.reference[place], answers[place]
    flaw = next((finding.message for finding in judgement.findings), "")  # another form, or NaN: there is no distance
    what = flaw or _worst(evidence, expected, answer, case.rows)
    message = f"the server answered {callers} differently from eager in a batch of {max(len(case.raw), 1)} ({case.name}): {what}; {_PROVEN}"
    return Finding(KIND, "error", message, _ADVICE)


def _worst(evidence: Evidence, expected: Arrays, answer: Arrays, rows: Sequence[int]) -> str:
    """The element with the largest distance in units of its output's noise."""
    distances = {name: _distances(evidence, name, answer[name], array) for name, array in expected.items() if array.size}
    name = max(distances, key=lambda one: float(distances[one].max()))
    index = tuple(int(one) for one in np.unravel_index(int(distances[name].argmax()), distances[name].shape))
    by_row = bool(index) and len(expected[name]) == len(rows)
    where = f" in row {index[0]} (test row {rows[index[0]]})" if by_row else ""
    inside = [*(index[1:] if by_row else index)]
    element = f"{name}{inside if inside else ''}"
    return f"{element}{where} is {float(answer[name][index]):.7g}, expected {float(expected[name][index]):.7g}"


def _distances(evidence: Evidence, name: str, answer: Array, expected: Array) -> Array:
    return np.nan_to_num(differences.elementwise_distance(answer, expected), posinf=np.inf) / evidence.noise[ROWS][name].largest

"""Find answers of eager that are NaN or infinite: agreement on them proves nothing. The same for its score.

On real rows this is an error. It is a note where an output is -inf and float64 is -inf too, as in a mask before a softmax, and on other
cases, whose values no row may have. Where forward casts to a narrower dtype itself, an overflow is -inf in float64 too: it is no mask if
the other numbers have that dtype and come close to its largest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paddleship.numerics.differences import Array
from paddleship.proof import parity
from paddleship.proof.evidence import Evidence
from paddleship.reports.finding import Finding, Severity

_CLOSE = 1 / 64  # of the largest number of a dtype


@dataclass(frozen=True)
class Strange:
    """How many numbers of an output are not finite, in how many cases of one kind; `masked`: all of them are -inf also in float64."""

    output: str
    real: bool
    count: int
    size: int
    cases: int
    of_cases: int
    masked: bool
    example: str

    def __str__(self) -> str:
        kind = "batches of real rows" if self.real else "edge cases and other drawn cases"
        share = f"{max(self.count / self.size, 0.0001):.2%}"
        return (
            f"{share} of the numbers of output {self.output} are NaN or infinite in {self.cases} of {self.of_cases} {kind} ({self.example})"
        )


def findings(evidence: Evidence) -> list[Finding]:
    """One finding for each output and kind of case with numbers that are not finite, and one for a score that is not finite."""
    return [*map(_finding, strange(evidence)), *_of_score(evidence)]


def _of_score(evidence: Evidence) -> Iterator[Finding]:
    score = parity.score_of_eager(evidence)
    if score is not None and not np.isfinite(score):
        message = f"the score of eager's answers to the held-out rows is {score:.6g}, so no lower precision can be judged by it"
        yield Finding("score-not-finite", "warning", message, "correct data.task.metric or the labels, or raise verify.samples")


def strange(evidence: Evidence) -> Iterator[Strange]:
    for name, first in evidence.reference[0].items():
        for real in (True, False) if first.dtype.kind == "f" else ():
            indices = [index for index, case in enumerate(evidence.cases) if (case.group == "rows") is real]
            bad = {index: ~np.isfinite(evidence.reference[index][name]) for index in indices}
            holding = [index for index in indices if bad[index].any()]
            if holding:
                masked = all(_masked(evidence, index, name) for index in holding)
                values = evidence.reference[holding[0]][name][bad[holding[0]]]
                count, size = (sum(int(one) for one in counts) for counts in zip(*((b.sum(), b.size) for b in bad.values()), strict=True))
                example = f"first {values[0]} in {evidence.cases[holding[0]].name}"
                yield Strange(name, real, count, size, len(holding), len(indices), masked, example)


def _masked(evidence: Evidence, index: int, name: str) -> bool:
    reference, truth = evidence.reference[index][name], evidence.truth[index][name]
    both = bool((np.isfinite(reference) | (np.isneginf(reference) & np.isneginf(truth))).all())
    return both and not _overflowed(truth[np.isfinite(truth)])


def _overflowed(numbers: Array) -> bool:
    """Whether these float64 numbers are all of a narrower dtype, and some are close to its largest number."""
    with np.errstate(over="ignore"):
        return numbers.size > 0 and any(
            np.abs(numbers).max() > np.finfo(kind).max * _CLOSE and (numbers == numbers.astype(kind)).all()
            for kind in (np.float16, np.float32)
        )


def _finding(one: Strange) -> Finding:
    severity: Severity = "error" if one.real and not one.masked else "note"
    message = f"the eager model answers: {one}; agreement on them proves nothing"
    advice = (
        "no action is needed if this is a mask"
        if one.masked
        else "look for an overflow (exp, float16), a logarithm, root or division outside its domain, and use a stable form such as softplus"
    )
    return Finding("not-finite", severity, message, advice, layer=one.output)

"""Find causes in the answers alone: wrong for some sizes only, another output's answer, or the answer to another input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paddleship.numerics import differences
from paddleship.proof.evidence import Evidence
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.spec import Arrays, TensorSpec

_ROUNDING = 1e-5  # of a value in float32 that is a sum of many
_CLEARLY = 4  # times nearer: in a low precision, answers to similar inputs are within each other's error


def read(evidence: Evidence, answers: Sequence[Arrays], specs: Sequence[TensorSpec], *, limit: float) -> list[Finding]:
    """Findings from the answers; an answer is right up to the noise ratio `limit`."""
    ratios = case_ratios(evidence, answers)
    wrong = [index for index, ratio in enumerate(ratios) if ratio > limit]
    if not wrong:
        return []
    return [
        *_swapped(evidence, answers, wrong, limit=limit),
        *_late(evidence, answers, wrong, limit=limit),
        *_sizes(evidence, specs, wrong),
        *_constant(evidence, answers, limit=limit),
    ]


def case_ratios(evidence: Evidence, answers: Sequence[Arrays]) -> list[float]:
    """Each case's error in units of eager's noise, over its worst output; infinite if the form differs."""
    return [_ratio(evidence, index, answer, _expected(evidence, index)) for index, answer in enumerate(answers)]


def _expected(evidence: Evidence, index: int) -> Arrays:
    return {name: differences.expected(truth, evidence.reference[index][name]) for name, truth in evidence.truth[index].items()}


def _ratio(evidence: Evidence, index: int, answer: Arrays, truth: Arrays) -> float:
    noise = evidence.noise[next(group for group, indices in evidence.groups.items() if index in indices)]
    return max((_distance(answer.get(name), truth[name]) / noise[name].largest for name in truth), default=0.0)


def _distance(answer: differences.Array | None, truth: differences.Array) -> float:
    """Infinite if there is no answer."""
    return float("inf") if answer is None else differences.distance(answer, truth)


def _swapped(evidence: Evidence, answers: Sequence[Arrays], wrong: Sequence[int], *, limit: float) -> list[Finding]:
    """Outputs with the truth of another output."""
    exchanged = {}
    kinds = {name: array.dtype for name, array in evidence.reference[0].items()}
    for name in kinds:
        for other in kinds:
            noise = evidence.noise["rows"][other].largest * limit
            if (
                name != other
                and kinds[name] == kinds[other]
                and all(_is_rather(answers[index].get(name), _expected(evidence, index), other, name, noise) for index in wrong)
            ):
                exchanged[name] = other
    if not exchanged:
        return []
    pairs = ", ".join(f"{name!r} is eager's {other!r}" for name, other in exchanged.items())
    return [
        Finding("output-structure", "error", f"outputs are exchanged: {pairs}", "map outputs in the order in which forward returns them")
    ]


def _is_rather(answer: differences.Array | None, truth: Arrays, other: str, name: str, noise: float) -> bool:
    """Whether an answer is the truth of another output, and clearly not its own."""
    distance = _distance(answer, truth[other])
    return distance <= noise and distance < _distance(answer, truth[name]) / _CLEARLY


def _late(evidence: Evidence, answers: Sequence[Arrays], wrong: Sequence[int], *, limit: float) -> list[Finding]:
    """Answers that belong to the previous input."""
    late = [
        index
        for index in wrong
        if index
        and (before := _ratio(evidence, index, answers[index], _expected(evidence, index - 1))) <= limit
        and before < _ratio(evidence, index, answers[index], _expected(evidence, index)) / _CLEARLY
    ]
    if len(late) < 2 and len(late) < len(wrong):
        return []
    names = ", ".join(repr(evidence.cases[index].name) for index in late[:3])
    message = f"{len(late)} answers belong to the previous input ({names})"
    return [Finding("not-deterministic", "error", message, "keep no state between calls: copy outputs before the next call")]


def _sizes(evidence: Evidence, specs: Sequence[TensorSpec], wrong: Sequence[int]) -> list[Finding]:
    """A dimension whose size alone separates right answers from wrong ones."""
    right = [index for index in range(len(evidence.cases)) if index not in wrong]
    if not right:
        return []
    for spec in specs:
        for axis, name in enumerate(spec.shape):
            bad, good = ({evidence.cases[index].inputs[spec.name].shape[axis] for index in indices} for indices in (wrong, right))
            if isinstance(name, str) and not bad & good:
                message = f"right for {name} {_span(good, bad)}, wrong for {name} {_span(bad, good)}"
                return [
                    Finding("shape-specific", "error", message, f"look for a fixed {name} in the program, or for fusions that depend on it")
                ]
    return []


def _span(these: set[int], those: set[int]) -> str:
    if min(these) > max(those):
        return f"{min(these)} and more"
    if max(these) < min(those):
        return f"up to {max(these)}" if len(these) > 1 else str(max(these))
    return ", ".join(map(str, sorted(these)[:8]))


def _constant(evidence: Evidence, answers: Sequence[Arrays], *, limit: float) -> list[Finding]:
    """Outputs that are the same in every case and that differ by rounding only, if all others are right."""
    names = [
        name
        for name, array in evidence.reference[0].items()
        if len(answers) > 1 and all(differences.equal(array, reference[name]) for reference in evidence.reference)
    ]
    varying = [{name: array for name, array in truth.items() if name not in names} for truth in evidence.truth]
    if not names or any(ratio > limit for ratio in case_ratios(replace(evidence, truth=varying), answers)):
        return []
    errors = {
        name: max(differences.relative(answer[name], truth[name]) for answer, truth in zip(answers, evidence.truth, strict=True))
        for name in names
        if all(name in answer for answer in answers)
    }
    worst = max(errors.values(), default=1.0)
    if worst > _ROUNDING:
        return []
    message = (
        f"only {', '.join(names)} differs, which is the same in every case; its relative error is {worst:.2g}, as of sums in another order"
    )
    advice = "if forward computes it from weights alone, leave it out of the outputs, or compute it in float64"
    return [Finding("wrong-answers", "error", message, advice)]

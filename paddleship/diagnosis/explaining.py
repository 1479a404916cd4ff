"""Find the cause of a candidate's wrong answers, the cheapest cause first; then the wrong layer, and the wrong optimisation pass."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from paddleship.config.catalogue import PROGRAM
from paddleship.config.sections.verify import Verify
from paddleship.diagnosis import passes, program_contents, replay, symptoms
from paddleship.diagnosis.replay import LayerError, Located
from paddleship.errors import BadInput, OutOfTime
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.proof.evidence import EPSILON, FLOAT64_TRUTH, NOISE_FLOOR, Evidence
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import OTHER_WEIGHTS, Registration
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import isolate
from paddleship.weights.weight_comparison import WeightComparison

_SUFFICIENT = {
    "weights-differ",
    "train-mode",
    "dtype-differs",
    "preprocess-differs",
    "frozen-dimension",
    "output-structure",
    "not-deterministic",
}
_DECISIONS = {
    "answer_flip_rate_high",
    "flip_rate_high",
    "metric_drop_high",
    "decisions",
    "decided_slope",
    "decided_offset",
}  # checks that fail because of low precision alone
_CIRCUMSTANCES = {"threads_ratio", "repeat_ratio", "negative_controls"}  # checks for which no layer is the cause
_FOLLOWS = {
    "train-mode": {"not-deterministic", "batch-variant", "thread-specific", "shape-specific"},
    "not-deterministic": {"batch-variant", "thread-specific", "shape-specific"},
}

_NUMBER = re.compile(r"\d+")  # of nodes and values, which a part of the program counts anew

Say = Callable[[str], None]


@dataclass(frozen=True)
class Diagnosis:
    """The result: `findings` with the cheapest cause first, and `layers` if the sublayers were replayed."""

    findings: list[Finding]
    layers: list[LayerError] = field(default_factory=list, repr=False)


@dataclass
class Inspection:
    """What was checked without a finding, and what was not or could not be checked, as text."""

    clean: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        clean = f"checked, and nothing was found: {', '.join(self.clean)}" if self.clean else "nothing could be checked"
        return clean + (f"; not checked: {', '.join(self.left)}" if self.left else "")


def explain(
    source_model: SourceModel,
    folder: Path | None,
    *,
    evidence: Evidence,
    answers: Sequence[Arrays] | None,
    settings: Verify,
    failed: Sequence[str] = (),
    preprocess: Mapping[str, Any] | None = None,
    compared_weights: WeightComparison | None = None,
    obstacle: str = "",
    say: Say = lambda _: None,
) -> Diagnosis:
    """Explain a candidate that failed its proof.

    `folder` is None for `to_static` in memory, `answers` None for a candidate that died. `failed` names its failed checks, `preprocess` is
    the config of the prepared data, `compared_weights` the comparison of its files with the checkpoint, `obstacle` the error of a
    candidate without answers. Each child process may take `settings.timeout_s`. At the deadline of the block, the findings so far are
    returned.
    """
    limit = settings.noise_limit * (replay.coarseness(Candidate.load(folder).precision) if folder is not None else 1)
    inspection = Inspection()
    findings = [
        *_facts(source_model, folder, preprocess),
        *_weights(compared_weights, inspection),
        *_contents(source_model, folder, settings, inspection),
    ]
    ratios = symptoms.case_ratios(evidence, answers) if answers is not None else []
    if answers is not None:
        specs = [item.spec() for item in source_model.model.inputs]
        findings += symptoms.read(evidence, answers, specs, limit=limit)
    if {finding.kind for finding in findings} & _SUFFICIENT or _by_chance(failed):
        return Diagnosis(findings)
    if folder is not None and Candidate.load(folder).precision in OTHER_WEIGHTS:  # a single layer is changed differently
        return Diagnosis([*findings, *_coarse(folder, failed)])
    if _is_eager(folder):
        return Diagnosis([*findings, _nothing(evidence, ratios, limit, inspection, obstacle)])
    if folder is not None and max(ratios, default=inf) <= limit and (coarse := _coarse(folder, failed)):
        return Diagnosis([*findings, *coarse])  # no single answer is wrong, so there is no layer or pass to look for
    index = max(range(len(ratios)), key=ratios.__getitem__) if ratios else _small(evidence)
    located = _locate(source_model, _stripped(source_model, folder), evidence, index, settings, say)
    if isinstance(located, str):
        inspection.left.append(f"layers (replay failed: {located})")
    else:
        findings += located.findings
        _note_layers(located, inspection)
    try:
        optimiser = _optimiser(folder, evidence, index, settings, inspection, limit=limit) if folder is not None else []
        findings = _joined(findings, list(optimiser))
    except OutOfTime:
        inspection.left.append("optimisation passes (no time left)")
    if not any(finding.severity == "error" for finding in findings):
        findings += (_coarse(folder, failed) if folder is not None else []) or [_nothing(evidence, ratios, limit, inspection, obstacle)]
    return Diagnosis(findings, [] if isinstance(located, str) else located.errors)


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without repeats, and without those that follow from another: random answers also change with their batch."""
    kinds = {finding.kind for finding in findings if finding.severity == "error"}
    follows = {kind for cause, consequences in _FOLLOWS.items() if cause in kinds for kind in consequences}
    return [finding for finding in dict.fromkeys(findings) if finding.kind not in follows]


def along(source_model: SourceModel, folder: Path | None, evidence: Evidence, *, settings: Verify, say: Say = lambda _: None) -> Diagnosis:
    """The errors of every sublayer alone, for a proven model; empty if they could not be replayed."""
    if _is_eager(folder):
        return Diagnosis([])
    located = _locate(source_model, _stripped(source_model, folder), evidence, _small(evidence), settings, say)
    return Diagnosis([], [] if isinstance(located, str) else located.errors)


def blame(
    source_model: SourceModel, candidate: Candidate, evidence: Evidence, *, settings: Verify, error: str = "", say: Say = lambda _: None
) -> Finding | None:
    """The first sublayer for which the conversion fails like that of the whole candidate, with the same `error` except for numbers.

    None if each sublayer alone can be converted, or fails differently.
    """
    located = _locate(source_model, replace(candidate, preprocess={}, programs=()), evidence, _small(evidence), settings, say, unmade=True)
    if isinstance(located, str):
        return None
    dead = replay.first_dead(located.errors)
    if dead is None or _NUMBER.sub("", error) not in _NUMBER.sub("", dead.reason):
        return None
    return next((finding for finding in located.findings if finding.where), None)


def _facts(source_model: SourceModel, folder: Path | None, preprocess: Mapping[str, Any] | None) -> list[Finding]:
    """Compare the candidate's description with its files."""
    if folder is None:
        return []
    candidate, findings = Candidate.load(folder), []
    if candidate.weights_sha256 and candidate.weights_sha256 != (now := sha256(source_model.checkpoint / building.WEIGHTS)):
        message = f"the candidate was made from the weights {candidate.weights_sha256[:12]}, the checkpoint now is {now[:12]}"
        findings.append(
            Finding("weights-differ", "error", message, "convert again from this checkpoint (in a pipeline: `dvc repro export optimize`)")
        )
    if preprocess is not None and candidate.preprocess != preprocess:
        keys = [key for key in {*candidate.preprocess, *preprocess} if candidate.preprocess.get(key) != preprocess.get(key)]
        message = f"the candidate's preprocess differs from that of the prepared data (keys: {', '.join(sorted(keys))})"
        findings.append(Finding("preprocess-differs", "error", message, "`dvc repro optimize`"))
    return findings


def _by_chance(failed: Sequence[str]) -> bool:
    """Whether answers change by chance or with circumstances only, so that no layer is the cause."""
    return "repeat_ratio" in failed or (bool(failed) and set(failed) <= _CIRCUMSTANCES)


def _weights(compared_weights: WeightComparison | None, inspection: Inspection) -> list[Finding]:
    if compared_weights is None:
        inspection.left.append("weights")
        return []
    if compared_weights:
        inspection.clean.append(f"weights ({compared_weights.compared_share:.0%} of them compared)")
    inspection.left += [f"{share:.1%} of the weights ({why})" for why, share in compared_weights.left().items()]
    return compared_weights.problems()


def _contents(source_model: SourceModel, folder: Path | None, settings: Verify, inspection: Inspection) -> list[Finding]:
    what = "modes, dtypes and inputs of the program"
    if folder is None or not program_contents.is_readable(Candidate.load(folder)):
        inspection.left.append(what)
        return []
    try:
        findings: list[Finding] = isolate.run(
            "reading the candidate", program_contents.inspect, folder, source_model.checkpoint, timeout_s=settings.timeout_s
        )
    except BadInput as obstacle:
        inspection.left.append(f"{what} (they could not be read: {obstacle})")
        return []
    inspection.clean += [] if findings else [what]
    return findings


def _note_layers(located: Located, inspection: Inspection) -> None:
    asked = [error for error in located.errors if error.ratio is not None]
    if asked and not any(finding.severity == "error" for finding in located.findings):
        inspection.clean.append(f"{len(asked)} layers, each by itself")
    if silent := len(located.errors) - len(asked):
        inspection.left.append(f"{silent} layers that could not be run alone")


def _is_eager(folder: Path | None) -> bool:
    """Whether the candidate is the eager model itself: nothing was converted, so no layer is the cause."""
    return folder is not None and _runtime(folder).source == "eager"


def _runtime(folder: Path) -> Registration:
    return registry.get(Candidate.load(folder).runtime).registration


def _small(evidence: Evidence) -> int:
    """A small case with several rows."""
    several = [index for index, case in enumerate(evidence.cases) if len(case.rows) > 1] or list(range(len(evidence.cases)))
    return min(several, key=lambda index: sum(array.size for array in evidence.cases[index].inputs.values()))


def _locate(
    source_model: SourceModel, candidate: Candidate, evidence: Evidence, index: int, settings: Verify, say: Say, *, unmade: bool = False
) -> Located | str:
    batch = evidence.cases[index].inputs
    shape = [array.shape for array in batch.values()]
    others = [case.inputs for case in evidence.cases if [array.shape for array in case.inputs.values()] != shape]
    other = max(others, key=lambda inputs: _sizes_apart(inputs, batch), default=None)
    with tempfile.TemporaryDirectory(prefix="paddleship-replay-") as work:
        try:
            return replay.locate(
                source_model,
                batch,
                candidate=candidate,
                work=Path(work),
                limit=settings.noise_limit,
                timeout_s=settings.timeout_s,
                other=other,
                floor=EPSILON if evidence.rule == FLOAT64_TRUTH else NOISE_FLOOR,
                say=say,
                unmade=unmade,
            )
        except (BadInput, OutOfTime) as obstacle:
            return str(obstacle)


def _stripped(source_model: SourceModel, folder: Path | None) -> Candidate:
    """The parts of a candidate that the replay needs: runtime, options, precision, threads."""
    if folder is not None:
        return replace(Candidate.load(folder), preprocess={}, programs=())
    specs = tuple(item.spec() for item in source_model.model.inputs)
    return Candidate("to_static", source_model.model.title, registry.of(PROGRAM).name, "float32", 1, specs, (), {}, "", "")


def _sizes_apart(inputs: Mapping[str, Any], batch: Mapping[str, Any]) -> int:
    """The number of axes in which two batches differ in size."""
    return sum(a != b for name, array in batch.items() for a, b in zip(array.shape, inputs[name].shape, strict=True))


def _optimiser(
    folder: Path, evidence: Evidence, index: int, settings: Verify, inspection: Inspection, *, limit: float
) -> Iterator[Finding]:
    only = replace(evidence, cases=(evidence.cases[index],), truth=[evidence.truth[index]], reference=[evidence.reference[index]])

    def is_right(answer: Arrays) -> bool:
        return symptoms.case_ratios(only, [answer])[0] <= limit

    if not _runtime(folder).logs_passes:
        inspection.left.append("optimisation passes")
    elif wrong := passes.find(folder, evidence.cases[index].inputs, is_right, timeout_s=settings.timeout_s):
        yield wrong
    else:
        inspection.clean.append("optimisation passes")


def _joined(findings: Sequence[Finding], wrong_passes: Sequence[Finding]) -> list[Finding]:
    """The findings; an optimisation pass that makes a layer wrong is the cause of that finding, and no line needs to be rewritten."""
    wrong = next((item for item in findings if item.kind == "wrong-layer" and item.severity == "error"), None)
    if wrong is None or not wrong_passes:
        return [*findings, *wrong_passes]
    (wrong_pass,) = wrong_passes
    joined = replace(wrong, message=f"{wrong.message}; {wrong_pass.message}", advice=wrong_pass.advice)
    return [joined if item is wrong else item for item in findings]


def _coarse(folder: Path, failed: Sequence[str]) -> list[Finding]:
    """A finding that the precision is too low for the model's decisions, if no other check failed."""
    precision = Candidate.load(folder).precision
    if precision == "float32" or not failed or not set(failed) <= _DECISIONS:
        return []
    message = f"{precision} changes too many decisions of this model, or there were too few rows to show that it does not"
    advice = "compare more rows if the measured rate is within its limit (in a pipeline: verify.samples); otherwise ship another runtime"
    return [Finding("low-precision", "error", message, advice)]


def _nothing(evidence: Evidence, ratios: Sequence[float], limit: float, inspection: Inspection, obstacle: str = "") -> Finding:
    if not ratios and obstacle:
        return Finding("wrong-answers", "error", f"the candidate gave no answer: {obstacle}; {inspection}", "correct this error first")
    wrong = [case.name for case, ratio in zip(evidence.cases, ratios, strict=False) if ratio > limit]
    summary = f"{len(wrong)} of {len(evidence.cases)} cases are wrong ({', '.join(wrong[:4])}{' …' if len(wrong) > 4 else ''})"
    if not wrong:
        summary = "the candidate gave no answer" if not ratios else "every case passes alone, and a check over all cases fails"
    return Finding("wrong-answers", "error", f"{summary}; {inspection}", "compare the exported program with the model by hand")

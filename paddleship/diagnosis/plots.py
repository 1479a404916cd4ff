"""The plots of a proof: noise ratios, distribution of errors, errors by layer, flipped decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from paddleship.diagnosis.explaining import Diagnosis
from paddleship.plots import charts, fonts
from paddleship.proof import parity
from paddleship.proof.proving import Proof
from paddleship.reports.finding import Finding

FLIPS = "verify/flips.png"
_NAMED = 20


def draw(
    proof: Proof, ratios: Mapping[str, float], diagnoses: Mapping[str, Diagnosis], *, limit: float, classes: Sequence[str], reports: Path
) -> list[str]:
    """Draw the plots for which there is data. Returns their names, relative to `reports`. `ratios` are the noise ratios in float32."""
    evidence = proof.evidence
    answered = {name: answers for name, answers in proof.answers.items() if answers is not None and proof.judgements[name].metrics}
    drawn = [charts.noise(ratios, limit, reports, "verify/noise.png")] if ratios else []
    if answered:
        spread = {"eager": evidence.reference, **answered}
        errors = {name: parity.errors(evidence, answers) for name, answers in spread.items()}
        drawn.append(charts.errors(errors, limit, reports, "verify/errors.png"))
    flips = {name: proof.judgements[name].metrics["flip_rate"] for name in answered if "flip_rate" in proof.judgements[name].metrics}
    if flips:
        name = max(flips, key=lambda name: flips[name])
        if (chosen := parity.decisions(evidence, answered[name])) is not None:
            drawn.append(charts.confusion(*chosen, classes, name, reports, FLIPS))
    for name, diagnosis in diagnoses.items():
        if any(error.ratio is not None for error in diagnosis.layers):
            drawn.append(charts.layers(diagnosis.layers, name, limit, reports, f"verify/layers-{name}.png"))
    return drawn


def undrawn(classes: Sequence[str]) -> Finding | None:
    """The legend of the classes that the picture of flipped decisions shows by number; None if their names can be drawn."""
    _, indices = fonts.for_names(classes)
    if not indices:
        return None
    named = ", ".join(f"{index} is {classes[index]!r}" for index in indices[:_NAMED]) + (", …" if len(indices) > _NAMED else "")
    message = f"{FLIPS} shows classes by number, because no installed font has the letters of their names: {named}"
    return Finding("undrawn-names", "note", message, "install a font that has them, such as Debian's fonts-noto-core and fonts-noto-cjk")

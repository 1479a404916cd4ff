"""The param `answer`: what a client gets for each row beside the outputs of the model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from paddleship.config.sections.section import Fraction, Positive, Reference, Section, by_form

_SCORES = "what the first output is: logits, or probabilities if the model ends with its own softmax or sigmoid"
Scores = Literal["logits", "probabilities"]


class Top(Section):
    top: Positive = Field(description="number of classes, those with the largest scores, with their probabilities")
    scores: Scores = Field("logits", description=_SCORES)


class Above(Section):
    above: Fraction | dict[str, Fraction] = Field(
        description="labels whose probability is above it, with their probabilities; by name for thresholds of their own, 0.5 for others"
    )
    scores: Scores = Field("logits", description=_SCORES)


class OwnAnswer(Section):
    own: Reference = Field(description="module:function of (outputs of a row, names of the classes) that returns what JSON can hold")


_FORMS = "must be label, {top: NUMBER}, {above: THRESHOLD} or {own: module:function}"
_KINDS: dict[str, type[Section]] = {"top": Top, "above": Above, "own": OwnAnswer}


Answer = Annotated[
    Annotated[Literal["label"], Tag("label")]
    | Annotated[Top, Tag("top")]
    | Annotated[Above, Tag("above")]
    | Annotated[OwnAnswer, Tag("own")],
    Discriminator(by_form("label", _KINDS), custom_error_type="answer", custom_error_message=_FORMS),
]


def stored(answer: Answer) -> dict[str, Any]:
    """The param as a candidate stores it; empty for the label alone."""
    return {} if isinstance(answer, str) else answer.model_dump(mode="json")

"""What a comparison of two images measured, whoever made them; the second is held against the first."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from paddleship.data.dataset import Rows
from paddleship.errors import BadInput
from paddleship.promotion.latency import CHALLENGER, CHAMPION, Latency
from paddleship.promotion.score_comparison import Comparison
from paddleship.shipped.computing.candidate import Candidate
from paddleship.statistics.estimates import Difference, Interval

SCORE, LATENCY = "score", "latency"
_SEPARATED = re.compile(r"(?<=[/:@])")
NAMES = (CHAMPION, CHALLENGER)  # by which latency.race knows the first and the second


@dataclass(frozen=True)
class ComparedImage:
    """One of the two. `reference` is its name as it was given, `name` the part of that which differs from the other's.

    `starts_s` are times from the start of a container to its first answer, `idle_bytes` is the memory of a container after that answer,
    `loaded_bytes` after all rows. `packaged`: the image was built for the comparison, from a candidate folder.
    """

    name: str
    reference: str
    image_id: str
    candidate: Candidate
    packaged: bool
    size_bytes: int
    starts_s: Sequence[float]
    idle_bytes: int
    loaded_bytes: int

    @property
    def start_s(self) -> float:
        return statistics.median(self.starts_s)


@dataclass(frozen=True)
class ImageComparison:
    """The two images, their answers to the same `rows` of `source`, and their latencies when they were asked in turn.

    `total_rows` are those of the source. `unknown_training` names the images that may have been trained on the rows, as far as is known.
    """

    images: tuple[ComparedImage, ComparedImage]
    answers: Comparison
    latency: Latency
    rows: Rows
    source: str
    total_rows: int
    unknown_training: Sequence[str]
    host: Mapping[str, object]

    @property
    def verdicts(self) -> dict[str, Difference]:
        """Whether the second is better in score and in latency."""
        return {SCORE: _score(self.answers.drop), LATENCY: self.latency.verdict or Difference.CANNOT_TELL}

    def p50_ms(self, index: int) -> Interval | None:
        """The typical time of a request to one of the images; None if latency was not measured."""
        return self.latency.typical_ms.get(NAMES[index])


def names(one: str, other: str) -> tuple[str, str]:
    """Two references without the parts that both begin with, such as the repository of two tags."""
    parts = [_SEPARATED.split(text) for text in (one, other)]
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*parts, strict=False)))
    return "".join(parts[0][shared:]) or one, "".join(parts[1][shared:]) or other


def require_comparable(one: tuple[str, Candidate], other: tuple[str, Candidate]) -> None:
    """Raise BadInput unless both candidates, each with its name, answer in the same form."""
    first, second = _form(one[1]), _form(other[1])
    for what, has in first.items():
        if has != second[what]:
            raise BadInput(
                f"{one[0]} and {other[0]} do not answer in the same form ({what}: {has:.80} and {second[what]:.80}): compare images of "
                "models for one task"
            )
    if one[1].task is None:
        raise BadInput(f"{one[0]} names no task, so its answers cannot be compared: give an image that `paddleship run` made")


def _form(candidate: Candidate) -> dict[str, str]:
    """What the answers of two candidates must have in common, as text."""
    return {
        "task": str(candidate.task),
        "classes": ", ".join(candidate.classes),
        "labels in answers": "yes" if candidate.labels else "no",
        "shape of the first output": str(candidate.outputs[0].dynamic_shape),
    }


def require_same_inputs(one: tuple[str, Mapping[str, object]], other: tuple[str, Mapping[str, object]]) -> None:
    """Raise BadInput unless both servers, each with its name and metadata, take the same columns."""
    if one[1]["inputs"] != other[1]["inputs"]:
        forms = [f"{name} takes {_columns(metadata['inputs'])}" for name, metadata in (one, other)]
        raise BadInput(f"the images do not take the same inputs ({' and '.join(forms)}): compare images of models with the same inputs")


def _columns(inputs: object) -> str:
    return ", ".join(f"{one['name']} {one['datatype']}{one['shape']}" for one in inputs)  # type: ignore[attr-defined]


def _score(drop: Interval | None) -> Difference:
    """What the loss of score from the first to the second shows."""
    if drop is None or not math.isfinite(drop.low + drop.high):
        return Difference.CANNOT_TELL
    if drop.high < 0:
        return Difference.BETTER
    return Difference.WORSE if drop.low > 0 else Difference.CANNOT_TELL

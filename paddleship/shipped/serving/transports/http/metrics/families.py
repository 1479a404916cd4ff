"""Families of metrics, their sum over processes, and the text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_OF_THE_SERVER = ("paddleship_info", "paddleship_ready", "paddleship_processes_replaced_total")  # equal in all of its processes
_EARLIEST = "process_start_time_seconds"
Sample = tuple[str, Mapping[str, str], float]  # the end of the name, labels, value


@dataclass(frozen=True)
class Family:
    """A metric with its values by the end of a sample's name and its labels, as they are written."""

    name: str
    kind: str
    help_text: str
    values: dict[str, float]

    @classmethod
    def of(cls, name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> Family:
        return cls(name, kind, help_text, {_written(end, *labels.items()): float(value) for end, labels, value in samples})

    def plus(self, other: Family) -> Family:
        """The sum of both, or the one value of what is no sum."""
        if self.name in _OF_THE_SERVER:
            return self
        if self.name == _EARLIEST:
            values = {key: min(value, other.values.get(key, value)) for key, value in self.values.items()}
        else:
            values = {key: self.values.get(key, 0) + other.values.get(key, 0) for key in {**self.values, **other.values}}
        return Family(self.name, self.kind, self.help_text, values)


def total(own: Sequence[Family], others: Iterable[Sequence[Family]] = (), ended: Iterable[Sequence[Family]] = ()) -> list[Family]:
    """The metrics of several processes together; of those that have ended, only what they counted."""
    counted = [[family for family in one if family.kind != GAUGE] for one in ended]
    by_name = {family.name: family for family in own}
    for families in (*others, *counted):
        for family in families:
            by_name[family.name] = by_name[family.name].plus(family) if family.name in by_name else family
    return [*by_name.values()]


def packed(families: Sequence[Family]) -> bytes:
    """The families as bytes that another process can read."""
    return orjson.dumps([(family.name, family.kind, family.help_text, family.values) for family in families])


def unpacked(content: bytes) -> list[Family]:
    """The families of `packed`; none of no bytes."""
    return [Family(*item) for item in orjson.loads(content)] if content else []


def text(families: Iterable[Family]) -> str:
    """The families as Prometheus reads them."""
    return "".join(map(_text, families))


def _text(family: Family) -> str:
    lines = [f"# HELP {family.name} {family.help_text}", f"# TYPE {family.name} {family.kind}"]
    lines += [f"{family.name}{key} {value:.10g}" for key, value in family.values.items()]
    return "\n".join(lines) + "\n"


@functools.cache
def _written(end: str, *labels: tuple[str, str]) -> str:
    pairs = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels)
    return f"{end}{{{pairs}}}" if pairs else end

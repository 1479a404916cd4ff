"""Held-out rows that nearly equal a training row: texts that share most of their 3-grams, numbers that are equal after rounding.

Texts are compared as letters and digits of one case, by the Jaccard index of their sets of 3-grams, exactly: two sets
whose index is `SIMILARITY` or more share one of their rarest 3-grams (Chaudhuri, Ganti and Kaushik 2006), so that only
rows which do are compared in full. Numbers are rounded to a thousandth of the standard deviation of the training
rows, on two grids, so that a pair is rarely divided by the edge of a cell. Integers and truth values must be equal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paddleship.finding import Finding, Severity

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Sequence[Any]]

SIMILARITY = 0.8
_EXAMPLES, _SHOWN = 3, 80  # pairs in the report, and characters of a row
_GRAM, _BITS = 3, 21  # a character has 21 bits, so that a 3-gram is one integer
_CHARACTERS = (5_000_000, 1_000_000)  # of the training rows, and of the held-out rows, that are compared
_POPULAR = 500  # training rows that are looked at for one 3-gram

_STEP = 1e-3  # of a standard deviation
_PROBES, _NUMBERS = 256, 20_000_000  # of a row that are rounded, and of all rows together
_CHANCE = 1e-3  # rows that equal one by chance, above which equality says nothing
_SAMPLE = 1000  # training rows that this is estimated from


@dataclass(frozen=True)
class NearRepeats:
    """`pairs` maps held-out rows to the first training row found for each; `compared` says how many rows of both parts were looked at.

    `examples` are the first pairs as text, `why` is the reason why nothing was compared, or empty.
    """

    pairs: dict[int, int] = field(default_factory=dict)
    compared: tuple[int, int] = (0, 0)
    examples: list[dict[str, str]] = field(default_factory=list)
    why: str = ""

    @property
    def share(self) -> float:
        """Of the held-out rows that were compared."""
        return len(self.pairs) / self.compared[1] if self.compared[1] else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """What was compared and found, for the report."""
        compared = dict(zip(("training_rows", "held_out_rows"), self.compared, strict=True))
        return {"rows": len(self.pairs), "compared": compared, "examples": self.examples, "why_not": self.why}

    def findings(self, most: float) -> list[Finding]:
        """A warning where more than the share `most` of the held-out rows nearly repeat a training row, a note where fewer do."""
        if not self.pairs:
            return []
        count = f"{len(self.pairs):,} of {self.compared[1]:,} held-out rows ({self.share:.1%}) nearly repeat a training row"
        first = self.examples[0]
        severity: Severity = "warning" if self.share > most else "note"
        message = f"{count}, for example {first['held_out']} and {first['training']}: the score may be better than on new data"
        advice = "let data.reader give one row of each such pair (reports/prepare.json lists some), or raise data.near_repeat_share"
        return [Finding("near-repeat", severity, message, advice)]


def find(train: Columns, held: Columns) -> NearRepeats:
    """Compare the same columns of two parts, row by row."""
    found = _find(train, held)
    shown = [{"held_out": _show(held, one), "training": _show(train, other)} for one, other in list(found.pairs.items())[:_EXAMPLES]]
    return replace(found, examples=shown)


def _show(part: Columns, row: int) -> str:
    text = ", ".join(repr(np.asarray(values[row]).tolist()) for values in part.values())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def _find(train: Columns, held: Columns) -> NearRepeats:
    texts = [name for name, values in train.items() if isinstance(values[0], str)]
    numbers = [name for name in train if name not in texts]
    sizes = [len(next(iter(part.values()))) for part in (train, held)]
    if texts:
        found = _Texts.of(train, held, texts).pairs()
        if numbers:
            found = _near_in_numbers(found, train, held, numbers)
        return found
    chosen = [_spread(size, _NUMBERS // _PROBES) for size in sizes]
    keys = _Numbers(train, chosen[0])
    if keys.by_chance(train, chosen[0]) > _CHANCE:
        return NearRepeats(why="rows of so few different numbers are near each other by chance")
    pairs: dict[int, int] = {}
    for grid in (0.0, 0.5):
        known = {key: row for row, key in reversed(list(zip(chosen[0], keys.of(train, chosen[0], grid), strict=True)))}
        for row, key in zip(chosen[1], keys.of(held, chosen[1], grid), strict=True):
            if row not in pairs and key in known and keys.near(held, row, train, known[key]):
                pairs[row] = known[key]
    return NearRepeats(dict(sorted(pairs.items())), (len(chosen[0]), len(chosen[1])))


def _near_in_numbers(found: NearRepeats, train: Columns, held: Columns, names: Sequence[str]) -> NearRepeats:
    """Of pairs whose texts are near, those whose numbers are near too."""
    keys = _Numbers({name: train[name] for name in names}, _spread(len(train[names[0]]), _NUMBERS // _PROBES))
    return NearRepeats({one: other for one, other in found.pairs.items() if keys.near(held, one, train, other)}, found.compared)


def _spread(count: int, most: int) -> list[int]:
    """All of `count` rows, or `most` of them, evenly."""
    return list(range(count)) if count <= most else np.linspace(0, count - 1, most).astype(int).tolist()


@dataclass(frozen=True)
class _Texts:
    """The 3-grams of both parts: `rows` of the two, and for each, `grams` from `starts[i]` to `starts[i + 1]`, rare ones first."""

    rows: tuple[list[int], list[int]]
    grams: Array
    starts: Array

    @classmethod
    def of(cls, train: Columns, held: Columns, names: Sequence[str]) -> _Texts:
        parts, rows = [], []
        for part, most in zip((train, held), _CHARACTERS, strict=True):
            texts = [_letters(values) for values in zip(*(part[name] for name in names), strict=True)]
            size = sum(map(len, texts))
            chosen = _spread(len(texts), max(1, len(texts) * most // max(size, most)))
            rows.append(chosen)
            parts += [texts[index] for index in chosen]
        owner, gram = _grams(parts)
        _, code, counts = np.unique(gram, return_inverse=True, return_counts=True)
        order = np.lexsort((code, counts[code], owner))
        return cls((rows[0], rows[1]), code[order], np.searchsorted(owner[order], np.arange(len(parts) + 1)))

    def pairs(self) -> NearRepeats:
        count = len(self.rows[0])
        sizes = np.diff(self.starts)
        rare = sizes - np.ceil(SIMILARITY * sizes - 1e-9).astype(int) + 1  # of which a near row has one
        place = np.arange(len(self.grams)) - np.repeat(self.starts[:-1], sizes)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        asked = place < np.repeat(rare, sizes)
        mine = asked & (owner < count)
        order = np.argsort(self.grams[mine], kind="stable")
        known, rows = self.grams[mine][order], owner[mine][order]
        found: dict[int, int] = {}
        for held in range(count, len(sizes)):
            start = self.starts[held]
            wanted = self.grams[start : start + rare[held]]
            near = self._nearest(held, sizes, (known, rows), wanted)
            if near is not None:
                found[self.rows[1][held - count]] = self.rows[0][near]
        return NearRepeats(found, (count, len(sizes) - count))

    def _nearest(self, held: int, sizes: Array, index: tuple[Array, Array], wanted: Array) -> int | None:
        """The first training row that is near the held-out one."""
        known, rows = index
        low, high = np.searchsorted(known, wanted), np.searchsorted(known, wanted, "right")
        lists = [rows[one : min(two, one + _POPULAR)] for one, two in zip(low, high, strict=True) if two > one]
        if not lists:
            return None
        candidates = np.unique(np.concatenate(lists))
        size = int(sizes[held])
        candidates = candidates[(sizes[candidates] >= SIMILARITY * size) & (sizes[candidates] * SIMILARITY <= size)]
        mine = frozenset(self._of(held))
        for row in candidates.tolist():
            shared = len(mine.intersection(self._of(row)))
            if shared >= SIMILARITY * (size + int(sizes[row]) - shared):
                return int(row)
        return None

    def _of(self, row: int) -> list[int]:
        grams: list[int] = self.grams[self.starts[row] : self.starts[row + 1]].tolist()
        return grams


def _letters(values: Iterable[str]) -> str:
    """Letters and digits in one case, the columns divided, and never shorter than one 3-gram."""
    clean = ("".join(filter(str.isalnum, unicodedata.normalize("NFKC", value).casefold())) or " ".join(value.split()) for value in values)
    return "\n".join(clean).ljust(_GRAM, "\0")


def _grams(texts: Sequence[str]) -> tuple[Array, Array]:
    """Every different 3-gram of each text: the number of the text, and the 3-gram."""
    lengths = np.array([len(text) for text in texts])
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    owner = np.repeat(np.arange(len(texts)), lengths)
    windows = [codes[offset : len(codes) - _GRAM + 1 + offset] << np.uint64(_BITS * (_GRAM - 1 - offset)) for offset in range(_GRAM)]
    gram = windows[0] | windows[1] | windows[2]
    inside = owner[: len(gram)] == owner[_GRAM - 1 :]
    owner, gram = owner[: len(gram)][inside], gram[inside]
    order = np.lexsort((gram, owner))
    owner, gram = owner[order], gram[order]
    new = np.concatenate([[True], (owner[1:] != owner[:-1]) | (gram[1:] != gram[:-1])])
    return owner[new], gram[new]


class _Numbers:
    """How numbers are rounded: by the spread of the training rows, element by element where all rows have one shape."""

    def __init__(self, train: Columns, rows: Sequence[int]) -> None:
        self._names = list(train)
        self._steps = {name: self._step([np.asarray(values[row]) for row in rows]) for name, values in train.items()}

    @staticmethod
    def _step(values: Sequence[Array]) -> Array | None:
        """None for what must be equal."""
        if values[0].dtype.kind != "f":
            return None
        same = len({value.shape for value in values}) == 1
        spread = np.std([_probes(value) for value in values], axis=0) if same else np.std(np.concatenate([np.ravel(v) for v in values]))
        return np.asarray(_STEP * spread)

    def of(self, part: Columns, rows: Sequence[int], grid: float) -> list[bytes]:
        """One key a row: equal keys are near rows."""
        return [b"".join(self._codes(name, part[name][row], grid) for name in self._names) for row in rows]

    def _codes(self, name: str, value: Any, grid: float) -> bytes:
        array = np.asarray(value)
        return f"{array.shape}".encode() + self._rounded(name, array, grid).tobytes()

    def _rounded(self, name: str, array: Array, grid: float) -> Array:
        probes, step = _probes(array), self._steps[name]
        if step is None:
            return probes
        with np.errstate(divide="ignore", invalid="ignore"):
            rounded: Array = np.where(step > 0, np.floor(probes / step + grid), probes) + 0.0  # -0.0 equals 0.0
        return rounded

    def near(self, one: Columns, row: int, two: Columns, other: int) -> bool:
        """Whether two rows are near in every number, those that were not rounded too."""
        for name in self._names:
            first, second, step = np.asarray(one[name][row]), np.asarray(two[name][other]), self._steps[name]
            if first.shape != second.shape:
                return False
            allowed = 0.0 if step is None else 2 * (step.reshape(first.shape) if step.size == first.size else step.max())
            if not (np.abs(first.astype(np.float64) - second) <= allowed).all():
                return False
        return True

    def by_chance(self, train: Columns, rows: Sequence[int]) -> float:
        """How many training rows equal a row by chance, if the numbers of a row had nothing to do with each other."""
        drawn = rows[:: max(1, len(rows) // _SAMPLE)]
        sample = list(dict(zip(self.of(train, drawn, 0.0), drawn, strict=True)).values())  # what is repeated is no chance
        expected = float(len(rows))
        for name in self._names:
            values = [self._rounded(name, np.asarray(train[name][row]), 0.0) for row in sample]
            if len({value.shape for value in values}) == 1:
                expected *= float(np.prod([_alike(column) for column in np.stack(values).T]))
            else:
                expected *= _alike(np.concatenate(values)) ** float(np.median([value.size for value in values]))
        return expected


def _alike(values: Array) -> float:
    """How probable it is that two of these values are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(float)
    pairs = len(values) * (len(values) - 1) or 1
    return max(float((counts * (counts - 1)).sum()), 1.0) / pairs


def _probes(array: Array) -> Array:
    flat = array.ravel()
    return flat if flat.size <= _PROBES else flat[np.linspace(0, flat.size - 1, _PROBES).astype(int)]

"""Find held-out rows that nearly repeat a training row: texts that share most n-grams, numbers that are equal after rounding.

Texts are compared as letters and digits in one case, by the Jaccard index of their sets of n-grams. `n` is 3, or more if the
alphabet is so small that unrelated rows would share half of their 3-grams: 5 for 300 letters of DNA. The comparison is exact: a
row with an index of `SIMILARITY` or more shares at least four fifths of its n-grams, so at least half of its rarest two fifths.
Only rows that share these are compared in full. Numbers are rounded to a thousandth of the standard deviation of the training
rows, on two grids, so that the edge of a cell rarely separates a pair. Integers and bools must be equal.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paddleship.reports.finding import Finding, Severity

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Sequence[Any]]

SIMILARITY = 0.8
_EXAMPLES, _SHOWN = 3, 80  # pairs in the report; characters of a row
_SHORTEST, _LONGEST = 3, 32  # letters of an n-gram
_SHARED = 0.5  # share of the n-grams of a long row that an unrelated row may contain by chance
_LONG = 95  # percentile of the rows' lengths
_HASH = 0x9E3779B97F4A7C15  # an odd number near 2**64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)
_CHARACTERS = (5_000_000, 1_000_000)  # of the training rows and of the held-out rows that are compared
_LOOKS = 500_000_000  # entries of the index that are read, about 5 s; then no more held-out rows are compared

_STEP = 1e-3  # in standard deviations
_PROBES, _NUMBERS = 256, 20_000_000  # numbers of a row that are rounded, and of all rows together
_CHANCE = 1e-3  # rows that equal a row by chance, above which equality means nothing
_SAMPLE = 1000  # training rows for this estimate


@dataclass(frozen=True)
class NearRepeats:
    """The result. `pairs` maps held-out rows to the first training row found; `compared` counts the rows of both parts that were compared.

    `examples` are the first pairs as text; `why` is the reason if nothing was compared, otherwise empty.
    """

    pairs: dict[int, int] = field(default_factory=dict)
    compared: tuple[int, int] = (0, 0)
    examples: list[dict[str, str]] = field(default_factory=list)
    why: str = ""

    @property
    def share(self) -> float:
        """Share of the held-out rows that were compared."""
        return len(self.pairs) / self.compared[1] if self.compared[1] else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """The result as facts of the report."""
        compared = dict(zip(("training_rows", "held_out_rows"), self.compared, strict=True))
        return {"rows": len(self.pairs), "compared": compared, "examples": self.examples, "why_not": self.why}

    def findings(self, most: float) -> list[Finding]:
        """A warning if more than the share `most` of the held-out rows nearly repeat a training row, a note if fewer do."""
        if not self.pairs:
            return []
        count = f"{len(self.pairs):,} of {self.compared[1]:,} held-out rows ({self.share:.1%}) nearly repeat a training row"
        first = self.examples[0]
        severity: Severity = "warning" if self.share > most else "note"
        message = f"{count}, for example {first['held_out']} and {first['training']}: the test score may be too high for new data"
        advice = "let data.reader return one row of each such pair (reports/prepare.json lists some), or raise data.near_repeat_share"
        return [Finding("near-repeat", severity, message, advice)]


def find(train: Columns, held: Columns) -> NearRepeats:
    """Compare the same columns of two parts, row by row."""
    repeats = _find(train, held)
    shown = [{"held_out": _show(held, one), "training": _show(train, other)} for one, other in list(repeats.pairs.items())[:_EXAMPLES]]
    return replace(repeats, examples=shown)


def _show(part: Columns, row: int) -> str:
    text = ", ".join(_readable(values[row]) for values in part.values())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def _readable(value: Any) -> str:
    return f"{len(value):,} bytes" if isinstance(value, bytes) else repr(np.asarray(value).tolist())


def _with_digests(part: Columns) -> Columns:
    """The columns with hashes in place of bytes, which are integers and must be equal."""
    return {name: [_digest(value) if isinstance(value, bytes) else value for value in values] for name, values in part.items()}


def _digest(value: bytes) -> Array:
    return np.frombuffer(hashlib.sha256(value).digest(), np.uint8)


def _find(train: Columns, held: Columns) -> NearRepeats:
    if all(isinstance(values[0], bytes) for values in train.values()):
        return NearRepeats(why="columns of files are compared for equality only")
    train, held = _with_digests(train), _with_digests(held)
    texts = [name for name, values in train.items() if isinstance(values[0], str)]
    numbers = [name for name in train if name not in texts]
    sizes = [len(next(iter(part.values()))) for part in (train, held)]
    if texts:
        parts = _Texts.of(train, held, texts)
        if parts is None:
            return NearRepeats(why="the texts use so few different letters that unrelated texts look similar")
        repeats = parts.pairs()
        if numbers:
            repeats = _near_in_numbers(repeats, train, held, numbers)
        return repeats
    chosen = [_spread(size, _NUMBERS // _PROBES) for size in sizes]
    keys = _Numbers(train, chosen[0])
    if keys.by_chance(train, chosen[0]) > _CHANCE:
        return NearRepeats(why="the rows hold so few different numbers that unrelated rows are nearly equal")
    pairs: dict[int, int] = {}
    for grid in (0.0, 0.5):
        known = {key: row for row, key in reversed(list(zip(chosen[0], keys.of(train, chosen[0], grid), strict=True)))}
        for row, key in zip(chosen[1], keys.of(held, chosen[1], grid), strict=True):
            if row not in pairs and key in known and keys.near(held, row, train, known[key]):
                pairs[row] = known[key]
    return NearRepeats(dict(sorted(pairs.items())), (len(chosen[0]), len(chosen[1])))


def _near_in_numbers(repeats: NearRepeats, train: Columns, held: Columns, names: Sequence[str]) -> NearRepeats:
    """The pairs with similar texts that have similar numbers too."""
    keys = _Numbers({name: train[name] for name in names}, _spread(len(train[names[0]]), _NUMBERS // _PROBES))
    return NearRepeats({one: other for one, other in repeats.pairs.items() if keys.near(held, one, train, other)}, repeats.compared)


def _spread(count: int, most: int) -> list[int]:
    """All of `count` rows, or `most` of them at even distances."""
    return list(range(count)) if count <= most else np.linspace(0, count - 1, most).astype(int).tolist()


@dataclass(frozen=True)
class _Texts:
    """The n-grams of both parts: `rows`, and for each part `grams` from `starts[i]` to `starts[i + 1]`, rare ones first."""

    rows: tuple[list[int], list[int]]
    grams: Array
    starts: Array

    @classmethod
    def of(cls, train: Columns, held: Columns, names: Sequence[str]) -> _Texts | None:
        """None if no length of n-grams distinguishes unrelated rows."""
        parts, rows = [], []
        for part, most in zip((train, held), _CHARACTERS, strict=True):
            texts = [_letters(values) for values in zip(*(part[name] for name in names), strict=True)]
            size = sum(map(len, texts))
            chosen = _spread(len(texts), max(1, len(texts) * most // max(size, most)))
            rows.append(chosen)
            parts += [texts[index] for index in chosen]
        length = _gram_length(parts[: len(rows[0])])
        if length is None:
            return None
        owner, gram = _grams([text.ljust(length, "\0") for text in parts], length)
        _, code, counts = np.unique(gram, return_inverse=True, return_counts=True)
        order = np.lexsort((code, counts[code], owner))
        return cls((rows[0], rows[1]), code[order], np.searchsorted(owner[order], np.arange(len(parts) + 1)))

    def pairs(self) -> NearRepeats:
        """Compare held-out rows in random order until `_LOOKS` entries of the index were read."""
        count, sizes = len(self.rows[0]), np.diff(self.starts)
        known = self.grams[: self.starts[count]]
        order = np.argsort(known, kind="stable")
        index = _Index(known[order], np.repeat(np.arange(count), sizes[:count])[order])
        repeats: dict[int, int] = {}
        looks = compared = 0
        for held in (count + np.random.default_rng(0).permutation(len(sizes) - count)).tolist():
            if looks > _LOOKS:
                break
            spare = int(sizes[held] - np.ceil(SIMILARITY * sizes[held] - 1e-9))  # n-grams that a near row may lack
            asked = self._of(held)[: 2 * spare + 1]
            rows = index.rows(asked)
            looks, compared = looks + len(rows) + len(asked), compared + 1
            candidates = np.flatnonzero(np.bincount(rows, minlength=count) >= len(asked) - spare)
            if (near := self._nearest(held, candidates)) is not None:
                repeats[self.rows[1][held - count]] = self.rows[0][near]
        return NearRepeats(dict(sorted(repeats.items())), (count, compared))

    def _nearest(self, held: int, candidates: Array) -> int | None:
        """The first of these training rows that is similar to the held-out row; None if none is."""
        mine = frozenset(self._of(held).tolist())
        for row in candidates.tolist():
            other = self._of(row)
            shared = len(mine.intersection(other.tolist()))
            if shared >= SIMILARITY * (len(mine) + len(other) - shared):
                return int(row)
        return None

    def _of(self, row: int) -> Array:
        return self.grams[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True)
class _Index:
    """Which training rows contain an n-gram: `owners[i]` contains `grams[i]`; `grams` is sorted."""

    grams: Array
    owners: Array

    def rows(self, asked: Array) -> Array:
        """The owners of each n-gram, concatenated."""
        low, high = np.searchsorted(self.grams, asked), np.searchsorted(self.grams, asked, "right")
        return np.concatenate([self.owners[:0], *(self.owners[one:two] for one, two in zip(low, high, strict=True) if two > one)])


def _letters(values: Iterable[str]) -> str:
    """Letters and digits in one case, with columns separated."""
    clean = ("".join(filter(str.isalnum, unicodedata.normalize("NFKC", value).casefold())) or " ".join(value.split()) for value in values)
    return "\n".join(clean)


def _codes(texts: Sequence[str]) -> Array:
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


def _gram_length(texts: Sequence[str]) -> int | None:
    """The shortest length of n-grams that distinguishes unrelated rows; None if there is none.

    With it, a long row of independent letters contains an n-gram of another one by chance with probability `_SHARED` at most.
    """
    counts = np.unique(_codes(texts), return_counts=True)[1]
    if not counts.size:
        return _SHORTEST
    equal = float(((counts / counts.sum()) ** 2).sum())  # probability that two letters are equal
    long = float(np.percentile([len(text) for text in texts], _LONG))
    return next((length for length in range(_SHORTEST, _LONGEST + 1) if -np.expm1(-long * equal**length) <= _SHARED), None)


def _grams(texts: Sequence[str], length: int) -> tuple[Array, Array]:
    """All different n-grams of each text: the number of the text, and a hash of the n-gram."""
    codes = _codes(texts)
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    count = len(codes) - length + 1
    gram = np.zeros(count, np.uint64)
    for offset in range(length):
        gram = gram * np.uint64(_HASH) + codes[offset : count + offset]  # modulo 2**64
    inside = owner[:count] == owner[length - 1 :]
    owner, gram = owner[:count][inside], gram[inside]
    order = np.lexsort((gram, owner))
    owner, gram = owner[order], gram[order]
    new = np.concatenate([[True], (owner[1:] != owner[:-1]) | (gram[1:] != gram[:-1])])
    return owner[new], gram[new]


class _Numbers:
    """How numbers are rounded: by the standard deviation of the training rows, elementwise if all rows have the same shape."""

    def __init__(self, train: Columns, rows: Sequence[int]) -> None:
        self._names = list(train)
        self._steps = {name: self._step([np.asarray(values[row]) for row in rows]) for name, values in train.items()}

    @staticmethod
    def _step(values: Sequence[Array]) -> Array | None:
        """The rounding step; None for values that must be equal."""
        if values[0].dtype.kind != "f":
            return None
        same = len({value.shape for value in values}) == 1
        numbers = np.array([_probes(value) for value in values]) if same else np.concatenate([np.ravel(value) for value in values])
        deviation = np.nanstd if np.isnan(numbers).any() else np.std  # NaN is a missing number
        return np.asarray(_STEP * deviation(numbers, axis=0 if same else None))

    def of(self, part: Columns, rows: Sequence[int], grid: float) -> list[bytes]:
        """One key for each row; rows with equal keys are near."""
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
        """Whether two rows are near in every number, also in those that were not rounded."""
        for name in self._names:
            first, second, step = np.asarray(one[name][row]), np.asarray(two[name][other]), self._steps[name]
            if first.shape != second.shape:
                return False
            allowed = 0.0 if step is None else 2 * (step.reshape(first.shape) if step.size == first.size else step.max())
            both_missing = np.isnan(first) & np.isnan(second) if first.dtype.kind == "f" else False
            if not ((np.abs(first.astype(np.float64) - second) <= allowed) | both_missing).all():
                return False
        return True

    def by_chance(self, train: Columns, rows: Sequence[int]) -> float:
        """The expected number of training rows that equal a row by chance, if the numbers of a row were independent."""
        drawn = rows[:: max(1, len(rows) // _SAMPLE)]
        sample = list(dict(zip(self.of(train, drawn, 0.0), drawn, strict=True)).values())  # repeats are not chance
        expected = float(len(rows))
        for name in self._names:
            values = [self._rounded(name, np.asarray(train[name][row]), 0.0) for row in sample]
            if len({value.shape for value in values}) == 1:
                expected *= float(np.prod([_equal_probability(column) for column in np.stack(values).T]))
            else:
                expected *= _equal_probability(np.concatenate(values)) ** float(np.median([value.size for value in values]))
        return expected


def _equal_probability(values: Array) -> float:
    """The probability that two of these values are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(float)
    pairs = len(values) * (len(values) - 1) or 1
    return max(float((counts * (counts - 1)).sum()), 1.0) / pairs


def _probes(array: Array) -> Array:
    flat = array.ravel()
    return flat if flat.size <= _PROBES else flat[np.linspace(0, flat.size - 1, _PROBES).astype(int)]

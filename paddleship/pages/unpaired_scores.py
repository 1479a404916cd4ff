"""Why scores have no paired difference, which compares them row by row, and what would make it available."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from paddleship.reports import row_scores
from paddleship.sweep.objectives import incomparable, on_different_rows, score_difference
from paddleship.sweep.variant import Figures, RowRecord

_Pairs = Sequence[tuple[tuple[str, Figures], tuple[str, Figures]]]
_WHY = {
    RowRecord.RECORDED: "the record of {whose} rows cannot be read",
    RowRecord.EARLIER: "{whose} rows are not recorded, as in runs of earlier versions",
    RowRecord.NO_SUM: "{whose} metric is no sum over rows",
    RowRecord.LEFT_OUT: "{whose} rows are not recorded, because there are too many of them or a score is not finite",
}
_AGAIN = "`paddleship run --again train` with the same params records the rows"
_NEXT = {
    RowRecord.RECORDED: _AGAIN,
    RowRecord.EARLIER: _AGAIN,
    RowRecord.NO_SUM: "a task kind whose score has `parts` or `shares` records the rows",
    RowRecord.LEFT_OUT: "fewer validation rows can be recorded",
}


def notes(runs: Mapping[str, Figures]) -> list[str]:
    """A sentence for each reason why some of these runs have no paired difference, with the runs and the next step."""
    pairs = list(combinations(runs.items(), 2))
    return [*_unrecorded(runs, pairs), *_on_different_rows(runs, pairs)]


def _unrecorded(runs: Mapping[str, Figures], pairs: _Pairs) -> list[str]:
    alike = [pair for pair in pairs if not incomparable("score", pair[0][1], pair[1][1])]
    unpaired = [pair for pair in alike if score_difference(pair[0][1], pair[1][1]) is None]
    names = {name for pair in unpaired for name, _ in pair}
    without = {name: runs[name].row_record for name in runs if name in names and not _rows(runs[name])}
    lines = [_unrecorded_line(record, [name for name in without if without[name] == record], runs) for record in _WHY]
    lines += [_unequal_line(one, other, runs) for (one, _), (other, _) in unpaired if not {one, other} & without.keys()]
    return [line for line in lines if line]


def _unequal_line(one: str, other: str, runs: Mapping[str, Figures]) -> str:
    counts = f"The score of {one} has {_rows(runs[one]):,} rows and that of {other} has {_rows(runs[other]):,}"
    return f"{counts}, so there is no paired difference: {_AGAIN}."


def _unrecorded_line(record: RowRecord, names: list[str], runs: Mapping[str, Figures]) -> str:
    if not names:
        return ""
    by = "the interval of each" if all(runs[name].score_has_interval for name in names) else "value, without an interval"
    why = _WHY[record].format(whose="their" if len(names) > 1 else "its")
    return f"The score of {' and of '.join(names)} is compared by {by}, not by a paired difference, because {why}: {_NEXT[record]}."


def _on_different_rows(runs: Mapping[str, Figures], pairs: _Pairs) -> list[str]:
    apart = {name for pair in pairs if on_different_rows(pair[0][1], pair[1][1]) for name, _ in pair}
    groups: dict[str, list[str]] = {}
    for name in runs:
        if name in apart:
            groups.setdefault(runs[name].data_sha256, []).append(name)
    if not groups:
        return []
    sets = " / ".join(", ".join(names) for names in groups.values())
    return [f"There is no paired difference between runs on different rows ({sets}): runs on the same data with the same split have one."]


def _rows(figures: Figures) -> int:
    return len(row_scores.unpack(figures.row_scores))

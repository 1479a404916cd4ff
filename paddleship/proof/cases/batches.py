"""The batches in which rows are asked: every size that the server accepts, each row with different neighbours."""

from __future__ import annotations

import itertools

EVERY = 64  # up to this size every size is asked, above it a selection


def sizes(max_batch: int) -> list[int]:
    """Every size up to EVERY; above it the powers of two, one less and one more, halfway to the next one, and the two largest sizes."""
    powers = [2**power for power in range(EVERY.bit_length() - 1, max_batch.bit_length() + 1)]
    selected = {size for power in powers for size in (power - 1, power, power + 1, power * 3 // 2)} | {max_batch - 1, max_batch}
    return sorted({*range(1, min(EVERY, max_batch) + 1), *(size for size in selected if EVERY < size <= max_batch)})


def arrange(rows: int, max_batch: int) -> list[tuple[int, ...]]:
    """One batch of every size, over the rows in turn; then batches of the largest size until every row was asked.

    With 256 rows and a largest batch of 32, each row is in two batches of different size. With few rows, a row may be twice in one batch.
    """
    turn = itertools.cycle(range(rows))
    batches = [tuple(itertools.islice(turn, size)) for size in sizes(max_batch)]
    asked = sum(map(len, batches))
    return batches + [tuple(range(start, min(start + max_batch, rows))) for start in range(asked, rows, max_batch)]


def describe(asked: list[int]) -> str:
    """Sizes as text, with ranges: 1 to 64, 95, 96."""
    runs: list[list[int]] = []
    for size in sorted(set(asked)):
        if runs and runs[-1][-1] == size - 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)

"""The rows for participants: real ones, from the part that was used neither for training nor for calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paddleship.data import dataset
from paddleship.shipped.computing.preprocess import Batch, Example, Preprocess

_ROWS = 64  # distinct rows that each participant answers in turn


@dataclass(frozen=True)
class Workload:
    """Encoded rows of the test part, and how rows are joined into a batch."""

    preprocess: Preprocess
    examples: Sequence[Example]

    @classmethod
    def of(cls, prepared: Path) -> Workload:
        """The first test rows that `prepare` wrote. Raises DataError."""
        preprocess, _, _ = dataset.read_preprocess(prepared)
        rows = dataset.read(prepared, "test")
        return cls(preprocess, dataset.encode(preprocess, rows.take(range(min(_ROWS, len(rows))))))

    @property
    def row_bytes(self) -> int:
        """Bytes of the largest row, as the model gets it."""
        return max(sum(int(array.nbytes) for array in self.preprocess.collate([row]).values()) for row in self.examples)

    def batches(self, sizes: Sequence[int]) -> dict[int, list[Batch]]:
        """The same number of rows in each batch size, so that all sizes have the same lengths."""
        return {size: self._batches(size) for size in sizes}

    def _batches(self, size: int) -> list[Batch]:
        count = len(self.examples)
        cycled = [self.examples[index % count] for index in range(max(size, count // size * size))]
        return [self.preprocess.collate(cycled[start : start + size]) for start in range(0, len(cycled), size)]

"""Generated data that can be learned in a minute: realistic sizes, simple content.

Every reader takes the file with the seed. Classes are separated enough that decisions are clear, as after real training.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


def pictures(raw: Path, rows: int, size: int) -> Iterator[Row]:
    """Stripes in one of three directions and tints, with noise, of mean 0 and spread about 1."""
    random = _random(raw)
    place = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1) * 2 * np.pi / size
    for number in range(rows):
        kind = number % 3
        turn = kind * np.pi / 3
        waves = np.sin(place @ (8 * np.array([np.cos(turn), np.sin(turn)])) + random.uniform(0, 2 * np.pi))
        tint = np.where(np.arange(3) == kind, 1.5, -0.75)[:, None, None]
        image = waves + tint + random.normal(0, 0.5, (3, size, size))
        yield {"image": image.astype(np.float32), "label": kind}


def words(raw: Path, rows: int, words: int, shortest: int, longest: int) -> Iterator[Row]:
    """Ids of words; a few in each row are words that its class prefers. 0 is padding."""
    random = _random(raw)
    for number in range(rows):
        kind = number % 3
        ids = random.integers(1, words, random.integers(shortest, longest + 1))
        own = random.random(len(ids)) < 0.3
        ids[own] = random.integers(1 + 40 * kind, 41 + 40 * kind, own.sum())
        yield {"ids": ids.tolist(), "label": kind}


def visits(raw: Path, rows: int, items: int, groups: int, numbers: int) -> Iterator[Row]:
    """What a person has seen, the person's group, and numbers about both; the click depends on all three."""
    random = _random(raw)
    taste = random.normal(0, 1, (groups, items)) / 2
    weights = random.normal(0, 1, numbers)
    for _ in range(rows):
        history = random.integers(1, items, random.integers(3, 31))
        group, values = int(random.integers(groups)), random.normal(0, 1, numbers)
        clicks = int(taste[group, history].mean() + values @ weights > 0)
        yield {"history": history.tolist(), "group": group, "numbers": values.round(4).tolist(), "label": clicks}


def puzzles(raw: Path, rows: int, features: int) -> Iterator[Row]:
    """Points around three centres, and how many rounds each may take."""
    random = _random(raw)
    centers = random.normal(0, 1.5, (3, features))
    for number in range(rows):
        kind = number % 3
        x = centers[kind] + random.normal(0, 0.7, features)
        yield {"x": x.round(4).tolist(), "rounds": int(random.integers(1, 7)), "label": kind}


def boxes(raw: Path, rows: int, size: int) -> Iterator[Row]:
    """One bright box in noise; the label is its centre and size, in units of the picture."""
    random = _random(raw)
    for _ in range(rows):
        image = random.normal(0, 0.3, (3, size, size))
        extent = random.uniform(0.15, 0.5, 2)
        center = random.uniform(extent / 2, 1 - extent / 2)
        (left, top), (right, bottom) = ((edge * size).astype(int) for edge in (center - extent / 2, center + extent / 2))
        image[:, top:bottom, left:right] += 2
        yield {"image": image.astype(np.float32), "label": [*center.tolist(), *extent.tolist()]}


def _random(raw: Path) -> np.random.Generator:
    return np.random.default_rng(int(raw.read_text(encoding="utf-8")))

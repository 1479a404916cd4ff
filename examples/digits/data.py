"""Digits as a form holds them: a picture, and the largest digit that its field may hold, such as 5 for the tens of minutes."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_fields(raw: Path) -> Iterator[dict[str, Any]]:
    draw = random.Random(0)  # noqa: S311
    for path in sorted(raw.glob("*/*.png")):
        yield {"picture": path.read_bytes(), "largest": draw.randint(int(path.parent.name), 9), "label": path.parent.name}

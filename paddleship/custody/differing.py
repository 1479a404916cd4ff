"""Show two values that differ."""

from __future__ import annotations

from typing import Any

_SHOWN = 80


def show_both(one: Any, two: Any) -> tuple[str, str]:
    """Two values that differ, truncated so that the difference stays visible."""
    texts = [repr(list(value) if isinstance(value, tuple) else value) for value in (one, two)]
    common = next((index for index, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), min(map(len, texts)))
    start = max(0, common - _SHOWN // 2) if common >= _SHOWN else 0
    return _cut(texts[0], start), _cut(texts[1], start)


def _cut(text: str, start: int) -> str:
    before, after = "… " if start else "", " …" if len(text) > start + _SHOWN else ""
    return before + text[start : start + _SHOWN] + after

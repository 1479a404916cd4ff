"""The variants of a sweep on disk, so that a killed sweep can resume."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.errors import Unavailable
from paddleship.shipped.computing.files import write_text
from paddleship.sweep.variant import Variant
from paddleship.system import locks

_OF_A_COMMAND = ("trials", "parallel", "choose", "min_score", "max_p50_ms", "max_size_bytes")  # they change no variant
_DIGITS = 8  # of the name's digest


def name(values: Params, commit: str, version: str) -> str:
    """The name of a sweep: equal for the same space, method, last stage, params, commit, and version of what the stages read."""
    facts: dict[str, Any] = values.model_dump(mode="json")
    facts["sweep"] = {key: value for key, value in facts["sweep"].items() if key not in _OF_A_COMMAND}
    digest = hashlib.sha256(json.dumps([facts, commit, version], sort_keys=True).encode()).hexdigest()
    return f"{values.name}-{digest[:_DIGITS]}"


class Journal:
    """One file for each variant, written when it starts and when it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """A block that one process at a time may run. Raises Unavailable if another one has this sweep."""
        lock = locks.take(self.folder / "sweep.lock")
        if lock is None:
            raise Unavailable(f"the sweep {self.folder.name} is running in another process: wait for it, or change the space")
        with lock:
            yield

    def variants(self) -> list[Variant]:
        """All variants that were started, by number."""
        variants = [Variant.model_validate_json(path.read_text(encoding="utf-8")) for path in self.folder.glob("[0-9]*.json")]
        return sorted(variants, key=lambda variant: variant.number)

    def write(self, variant: Variant) -> None:
        write_text(self.folder / f"{variant.number:03}.json", variant.model_dump_json(indent=1) + "\n")

"""Params that dvc.yaml reads and params.yaml has not, as a file of an earlier version: the lines to add."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from paddleship.config import loading
from paddleship.errors import ParamsError

_READ = re.compile(r"\$\{(\w+)\.(\w+)\}")


def advice(root: Path) -> str:
    """What to add to params.yaml, with the default of each param that is absent; empty if that is not what is wrong."""
    with suppress(ParamsError, OSError, UnicodeDecodeError):
        values = loading.read(root / "params.yaml")
        params = loading.parse(values)
        read = dict.fromkeys(_READ.findall((root / "dvc.yaml").read_text(encoding="utf-8")))
        absent = [(section, key) for section, key in read if key not in values.get(section, {})]
        lines = [f"`{key}: {getattr(getattr(params, section), key)}` below `{section}:`" for section, key in absent]
        return f"add {', '.join(lines)} to params.yaml" if lines else ""
    return ""

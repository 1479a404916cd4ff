"""What verify proved: the candidates that passed, and the limits that they were judged by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.custody import chain
from paddleship.custody.links import LINKS
from paddleship.shipped.computing.files import read_json

_PASSED, _LIMITS = "passed.json", "limits.json"


def write(folder: Path, passed: Mapping[str, Any], params: Params) -> None:
    """Write the facts about each candidate that passed, and the params that judged them."""
    (folder / _PASSED).write_text(json.dumps(passed) + "\n", encoding="utf-8")
    (folder / _LIMITS).write_text(json.dumps(LINKS["verify"].values(params), indent=1) + "\n", encoding="utf-8")


def read(params: Params) -> dict[str, dict[str, Any]]:
    """The facts about each candidate that passed. Raises BadInput if others than the present params judged them."""
    folder = Path(params.paths.parity)
    passed: dict[str, dict[str, Any]] = read_json(folder / _PASSED, stage="verify")
    chain.compare("verify", "by limits.json, ", read_json(folder / _LIMITS, stage="verify"), LINKS["verify"].values(params))
    return passed

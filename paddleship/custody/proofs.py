"""What verify proved: the candidates that passed, the limits that they were judged by, and what was seen of rows in a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.custody import chain
from paddleship.custody.links import LINKS
from paddleship.shipped.computing.files import read_json

_PASSED, _LIMITS, _ROWS = "passed.json", "limits.json", "rows.json"


@dataclass(frozen=True)
class RowFacts:
    """Whether no answer to a row changed with the other rows of its batch, and whether rows of several sizes were padded to see that."""

    independent: bool
    padded: bool


def write(folder: Path, passed: Mapping[str, Any], params: Params, rows: RowFacts) -> None:
    """Write the facts about each candidate that passed, the params that judged them, and what was seen of rows in a batch."""
    (folder / _ROWS).write_text(json.dumps(asdict(rows)) + "\n", encoding="utf-8")
    (folder / _PASSED).write_text(json.dumps(passed) + "\n", encoding="utf-8")
    (folder / _LIMITS).write_text(json.dumps(LINKS["verify"].values(params), indent=1) + "\n", encoding="utf-8")


def read(params: Params) -> dict[str, dict[str, Any]]:
    """The facts about each candidate that passed. Raises BadInput if others than the present params judged them."""
    folder = Path(params.paths.parity)
    passed: dict[str, dict[str, Any]] = read_json(folder / _PASSED, stage="verify")
    chain.compare("verify", "by limits.json, ", read_json(folder / _LIMITS, stage="verify"), LINKS["verify"].values(params))
    return passed


def row_facts(params: Params) -> RowFacts:
    """What verify saw of rows in a batch."""
    return RowFacts(**read_json(Path(params.paths.parity) / _ROWS, stage="verify"))

"""The candidate as every peer serves it: with the code, the runtime and the answers of our own server, below the transport."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.append(str(Path(__file__).parents[3]))  # a peer's environment has nothing of ours

if TYPE_CHECKING:
    from paddleship.shipped.serving.model import ServedModel


def arguments() -> tuple[Path, int]:
    """The folder of the candidate and the port, from the command line."""
    return Path(sys.argv[1]), int(sys.argv[2])


def load(folder: Path) -> ServedModel:
    from paddleship.shipped.serving.model import ServedModel

    model = ServedModel(folder)
    model.warm_up()
    return model


def answer(model: ServedModel, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs for columns of rows by name, and the labels."""
    return model.predict({spec.name: _typed(columns[spec.name], spec.dtype) for spec in model.requests})


def answers(model: ServedModel, requests: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The answer to each of several requests of one row, computed as one batch, as lists."""
    together = answer(model, {name: [row for request in requests for row in request[name]] for name in requests[0]})
    for index in range(len(requests)):
        yield {name: np.asarray(values[index : index + 1]).tolist() for name, values in together.items()}


def _typed(column: Any, dtype: str) -> Any:
    return [*column] if dtype == "str" else np.asarray(column, dtype)

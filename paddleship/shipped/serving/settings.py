"""What an image tells its server about the candidate, in a file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from paddleship.errors import CandidateError

_FILE = "serving.json"


@dataclass(frozen=True)
class Settings:
    """`batching`: the answer to a row does not depend on the other rows of its batch, so requests that wait may share one.

    `padding`: nor on how far it is padded, so these may be of different sizes. `slo_p99_ms`: a request that would take longer is refused.
    `also`: the transports beside HTTP, with their ports. `processes` answer on the same ports, each with a model of its own.
    `gpu` is the only model of GPU that the image has the libraries for; empty: any, or none is needed.
    """

    batching: bool = False
    padding: bool = False
    slo_p99_ms: float | None = None
    also: Mapping[str, int] = field(default_factory=dict)
    processes: int = 1
    gpu: str = ""

    def write(self, folder: Path) -> None:
        """Write the file into the folder of a candidate, without what is not set."""
        written = {name: value for name, value in asdict(self).items() if value not in (None, {}, "") and (name, value) != ("processes", 1)}
        (folder / _FILE).write_bytes(orjson.dumps(written))


def read(folder: Path) -> Settings:
    """The settings beside a candidate; the cautious ones if there are none. Raises CandidateError."""
    path = folder / _FILE
    if not path.exists():
        return Settings()
    try:
        return Settings(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise CandidateError(f"{path} cannot be read ({error}): build the image again with `paddleship run --again package`") from None

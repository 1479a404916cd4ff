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

    `padding`: nor on how far it is padded, so these may be of different sizes. `also`: the transports beside HTTP, with their ports.
    """

    batching: bool = False
    padding: bool = False
    also: Mapping[str, int] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the file into the folder of a candidate."""
        facts = asdict(self)
        (folder / _FILE).write_bytes(orjson.dumps(facts if self.also else {name: facts[name] for name in ("batching", "padding")}))


def read(folder: Path) -> Settings:
    """The settings beside a candidate; the cautious ones if there are none. Raises CandidateError."""
    path = folder / _FILE
    if not path.exists():
        return Settings()
    try:
        return Settings(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise CandidateError(f"{path} cannot be read ({error}): build the image again with `paddleship run --again package`") from None

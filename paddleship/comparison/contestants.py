"""What is compared: an image of the engine, or a candidate folder, for which an image is built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.comparison.side_by_side import ServedImage
from paddleship.containers import building, image
from paddleship.errors import BadInput, CandidateError
from paddleship.image import sbom
from paddleship.lineage.release import PREFIX
from paddleship.shipped.computing.candidate import FILE, Candidate
from paddleship.shipped.computing.files import write_text

_CANDIDATE_IN_IMAGE = str(Path(sbom.IN_IMAGE).with_name(FILE))
_DATA_LABEL = PREFIX + "data-sha256"


@dataclass(frozen=True)
class Contestant:
    """An image as it is run, the candidate in it, and the hash of the data that it was made from, if its labels name it."""

    served: ServedImage
    candidate: Candidate
    size_bytes: int
    data_sha256: str | None
    packaged: bool

    @property
    def name(self) -> str:
        return self.served.title


@contextmanager
def opened(client: Any, name: str) -> Iterator[Contestant]:
    """The image of that name, or one of the candidate folder of that name, which is removed afterwards. Raises BadInput."""
    folder = Path(name)
    if (folder / FILE).exists():
        candidate = Candidate.load(folder)
        with building.of_folder(client, folder, candidate) as built:
            yield _contestant(name, built, candidate, packaged=True)
    elif folder.is_dir():
        raise BadInput(f"the folder {name!r} holds no {FILE}: give a candidate folder, such as models/candidates/onnxruntime, or an image")
    else:
        stored = client.images.get(image.id_of(client, name))
        yield _contestant(name, stored, _candidate_in(client, name, stored.id), packaged=False)


def _contestant(name: str, stored: Any, candidate: Candidate, *, packaged: bool) -> Contestant:
    served = ServedImage(name, stored.id, candidate.model)
    return Contestant(served, candidate, int(stored.attrs["Size"]), stored.labels.get(_DATA_LABEL), packaged)


def _candidate_in(client: Any, name: str, image_id: str) -> Candidate:
    """The description of the candidate in an image. Raises BadInput if it has none, or one of another paddleship."""
    text = image.read_file(client, image_id, _CANDIDATE_IN_IMAGE)
    if not text:
        raise BadInput(f"{name!r} is no image of paddleship (it has no {_CANDIDATE_IN_IMAGE}): give an image that `paddleship run` made")
    with tempfile.TemporaryDirectory() as scratch:
        write_text(Path(scratch) / FILE, text)
        try:
            return Candidate.read(Path(scratch))
        except CandidateError as error:
            reason = str(error).replace(f"{scratch}/", "").rpartition(": ")[0]
            raise BadInput(f"{name!r} was made by another version of paddleship ({reason}): compare it with that version") from None

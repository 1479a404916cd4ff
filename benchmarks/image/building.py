"""Build the image of a candidate as `package` does, and again with another model."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.containers import building
from paddleship.custody import seals
from paddleship.lineage.release import CREATED
from paddleship.shipped.computing.candidate import Candidate

_BASE_MB, _LABELS = 58, {CREATED: "2026-01-01T00:00:00+00:00"}
_PACKAGES = """
import json, os
root, sizes = "/opt/paddleship", {}
for folder, _, files in os.walk(root):
    parts = os.path.relpath(folder, root).split("/")
    for file in files:
        name = "/".join([*parts, file][:2])
        sizes[name] = sizes.get(name, 0) + os.lstat(os.path.join(folder, file)).st_size
print(json.dumps(sorted(sizes.items(), key=lambda one: -one[1])))
"""


@dataclass(frozen=True)
class Image:
    """An image, with its size by layer and by package in bytes."""

    name: str
    built: Any
    changed: Any
    figures: dict[str, float]
    layers: list[tuple[int, str]]
    packages: list[tuple[str, int]]


def build(client: Any, params: Params, name: str) -> Image:
    candidate = Candidate.load(Path(params.paths.candidates) / name)
    (base, built), seconds = _timed(client, params, candidate)
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(Path(params.paths.candidates) / name, Path(scratch) / name)
        other = replace(candidate, weights_sha256="0" * 64).save(folder)
        elsewhere = params.model_copy(update={"paths": params.paths.model_copy(update={"candidates": scratch})})
        (_, changed), again = _timed(client, elsewhere, other)
    size, below = int(built.attrs["Size"]), int(base.attrs["Size"])
    before, after = (one.attrs["RootFS"]["Layers"] for one in (built, changed))
    figures = {
        "image_mb": size / 1e6,
        "on_58_mb_base_mb": (size - below) / 1e6 + _BASE_MB,  # base images differ, so goals are for one of this size
        "package_s": seconds,
        "repackage_s": again,
        "changed_layers": len(set(after) - set(before)),
    }
    layers = [(int(one["Size"]), one["CreatedBy"][:70]) for one in built.history() if one["Size"]]
    rounded = {key: round(value, 2) for key, value in figures.items()}
    return Image(name, built, changed, rounded, layers, packages_of(client, built.id))


def packages_of(client: Any, identity: str) -> list[tuple[str, int]]:
    """The packages of an image by their size in bytes."""
    output = client.containers.run(identity, ["-c", _PACKAGES], entrypoint="python", remove=True, network_disabled=True)
    return [(name, size) for name, size in json.loads(output)]


def remove(client: Any, images: Iterable[Image]) -> None:
    import docker

    for one in images:
        for stored in (one.changed, one.built):
            if not stored.tags:
                with suppress(docker.errors.APIError):
                    client.images.remove(stored.id, noprune=True)


def _timed(client: Any, params: Params, candidate: Candidate) -> tuple[tuple[Any, Any], float]:
    versions, began = seals.read(Path(params.paths.parity), "verify").versions, time.perf_counter()
    built = building.build(client, params, candidate, labels=_LABELS, proven_with=versions)
    return built, time.perf_counter() - began

"""The code of a candidate in users' packages, its runtime, its preprocess kinds and the decision of its task, copied into an image."""

from __future__ import annotations

import shutil
from collections import defaultdict
from importlib.metadata import EntryPoint
from pathlib import Path

from paddleship.shipped.computing import discovery, preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import write_text
from paddleship.shipped.computing.preprocess import registry as kinds
from paddleship.shipped.computing.runtimes import registry as runtimes
from paddleship.shipped.computing.task_kinds import registry as decisions


def lay_out(candidate: Candidate, target: Path) -> None:
    """Copy the modules or packages that the entry points of a candidate name into `target`, with metadata for these entry points."""
    of_distribution = defaultdict(list)
    for point in _entry_points(candidate):
        for file, path in discovery.code(point).items():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / file)
        of_distribution[(point.dist.name, point.dist.version) if point.dist else (point.name, "0")].append(point)
    for (name, version), points in of_distribution.items():
        metadata = target / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(exist_ok=True)
        write_text(metadata / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        write_text(metadata / "entry_points.txt", "".join(f"[{point.group}]\n{point.name} = {point.value}\n" for point in points))


def pins(candidate: Candidate) -> list[str]:
    """The pins of the packages that the preprocess kinds of a candidate need in its image."""
    entries = preprocess.inputs_of(candidate.preprocess).values()
    return list(dict.fromkeys(pin for one in entries for pin in (*kinds.get(one["kind"]).requirements, *one.get("requirements", ()))))


def _entry_points(candidate: Candidate) -> list[EntryPoint]:
    origins = [runtimes.get(candidate.runtime).entry_point, *(kinds.registered(name).entry_point for name in _kinds(candidate))]
    origins += [decisions.registered(candidate.task).entry_point] if candidate.task is not None else []
    return [point for point in origins if point is not None]


def _kinds(candidate: Candidate) -> list[str]:
    return sorted({entry["kind"] for entry in preprocess.inputs_of(candidate.preprocess).values()})

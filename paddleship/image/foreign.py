"""The code of a runtime in a user's package, copied into an image."""

from __future__ import annotations

import shutil
from pathlib import Path

from paddleship.custody import libraries
from paddleship.shipped.computing.files import write_text
from paddleship.shipped.computing.runtimes.registry import GROUP, Registered


def lay_out(one: Registered, target: Path) -> None:
    """Copy the module or package that a runtime's entry point names into `target`, with metadata for the entry point."""
    point = one.entry_point
    if point is None:
        return
    for file, path in libraries.files_of(point).items():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / file)
    name, version = (point.dist.name, point.dist.version) if point.dist else (point.name, "0")
    metadata = target / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    write_text(metadata / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    write_text(metadata / "entry_points.txt", f"[{GROUP}]\n{point.name} = {point.value}\n")

"""Send what a failed stage reported to another machine: it is no out of a finished stage, so DVC gets it as a separate folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from paddleship.execution import stages

_FOLDER = "failed_stage"


def pack(root: Path, reports: Path, stage: str) -> list[str]:
    """Send report, pictures and log of a failed stage to DVC's remote. Returns the files to put into the snapshot. Raises Unavailable."""
    files = [path for path in reports.glob(f"{stage}*") if path.name.partition(".")[0] == stage]
    if not files:
        return []
    folder, ignored = root / _FOLDER, root / ".gitignore"
    before = ignored.read_bytes() if ignored.exists() else None
    folder.mkdir()
    for path in files:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    stages.add(root, _FOLDER)
    if before is None:
        ignored.unlink(missing_ok=True)
    else:
        ignored.write_bytes(before)
    stages.send(root, [f"{_FOLDER}.dvc"])
    return [f"{_FOLDER}.dvc"]


def unpack(root: Path, reports: Path) -> set[str]:
    """Put what `pack` sent into the reports. Returns the names of the stages that have a report there. Raises Unavailable."""
    pointer, folder = root / f"{_FOLDER}.dvc", root / _FOLDER
    if not pointer.exists():
        return set()
    stages.fetch(root, [pointer.name])
    pointer.unlink()
    shutil.copytree(folder, reports, dirs_exist_ok=True)
    names = {path.stem for path in folder.glob("*.json")}
    shutil.rmtree(folder)
    return names

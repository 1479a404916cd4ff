"""The form of a build context: compiled modules, a folder for each layer, and fixed modes and times."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def compile_modules(root: Path, *parts: str) -> None:
    """Compile the modules of these folders, in a new process: what the marshalled constants look like depends on what else is loaded."""
    command = [sys.executable, "-I", "-S", "-m", "compileall", "-q", "-s", str(root), "-p", "/opt/paddleship"]
    subprocess.run(  # a module in another dialect of Python does not compile, and is not imported either
        [*command, "--invalidation-mode", "unchecked-hash", *(str(root / part) for part in parts)], capture_output=True, check=False
    )


def finish(context: Path, root: Path, dockerfile: Path) -> None:
    """Move each part in `root` into a folder of its own, below opt/paddleship, and add the Dockerfile."""
    for part in list(root.iterdir()):  # with all folders above it, so that a layer has their times from here and not from the build
        package_folder = context / part.name / "opt/paddleship"
        package_folder.mkdir(parents=True)
        part.rename(package_folder / part.name)
    root.rmdir()
    shutil.copy(dockerfile, context / "Dockerfile")
    for path in (context, *context.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (0, 0))

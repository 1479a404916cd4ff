"""Run stages in a checkout of the bench, as a person does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(checkout: Path, stage: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))}
    return subprocess.run(
        [sys.executable, "-m", f"tasks.{stage}"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def require(checkout: Path, *stages: str) -> None:
    """Run stages that must pass."""
    for stage in stages:
        if (done := run(checkout, stage)).returncode:
            raise RuntimeError(f"{stage} did not pass in the bench of the ends: {done.stderr.strip()[-600:]}")

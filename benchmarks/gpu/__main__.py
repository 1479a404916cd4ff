"""`make gpu-check`: run what only a GPU can prove, print a table, and as the last line its figures as JSON.

    python -m benchmarks.gpu [--wheels FOLDER] [--work FOLDER] [MODEL …]

With `--wheels`, the parts that `make gpu-wheels` wrote are joined and installed into the work folder first, without a network. Exit codes:
0 all checks passed, 3 one failed, 4 there is no GPU or a library is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu import wheels

_ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Run what only a GPU can prove.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names of benchmarks/choice/models.py")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="parts that `make gpu-wheels` wrote")
    parser.add_argument("--work", type=Path, default=_ROOT / ".gpu-check", metavar="FOLDER", help="where to work (default: .gpu-check)")
    given = parser.parse_args()
    if given.wheels is not None:
        try:
            site = install(given.wheels, given.work)
        except wheels.WheelError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(4)
        environment = {**os.environ, "PYTHONPATH": f"{site}:{_ROOT}"}
        command = [sys.executable, "-m", "benchmarks.gpu", "--work", str(given.work), *given.models]
        sys.exit(subprocess.run(command, env=environment, cwd=_ROOT, check=False).returncode)
    try:
        from benchmarks.gpu import checks
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is not installed: run `make setup RUNTIME=cuda`, or give --wheels (`make gpu-wheels`)", file=sys.stderr)
        sys.exit(4)
    sys.exit(checks.run(given.models, given.work))


def install(parts: Path, work: Path) -> Path:
    """Install the wheels into a folder below `work`. Returns that folder. Raises WheelError."""
    site = work / "site"
    joined = wheels.join(parts, work / "wheels")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--no-deps",
        "--no-cache-dir",
    ]
    done = subprocess.run([*command, "--upgrade", "--target", str(site), *map(str, joined)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise wheels.WheelError(f"the wheels cannot be installed: {' '.join(done.stderr.split())[-300:]}")
    return site


if __name__ == "__main__":
    main()

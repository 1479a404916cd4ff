"""`make gpu-check`: run what only a GPU can prove, print a table, and as the last line its figures as JSON.

    python -m benchmarks.gpu [--wheels FOLDER] [--work FOLDER] [MODEL …]

With `--wheels`, the parts that `make gpu-wheels` wrote are joined first, and installed without a network into an environment in the work
folder. NVIDIA's packages that are not among them are taken from the Python that runs this. Exit codes: 0 all checks passed, 3 one failed,
4 there is no GPU or a library is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
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
            python = install(given.wheels, given.work)
        except wheels.WheelError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(4)
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        command = [str(python), "-m", "benchmarks.gpu", "--work", str(given.work.absolute()), *given.models]
        sys.exit(subprocess.run(command, env=environment, cwd=_ROOT, check=False).returncode)
    try:
        from benchmarks.gpu import checks
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is not installed: run `make setup RUNTIME=cuda`, or give --wheels (`make gpu-wheels`)", file=sys.stderr)
        sys.exit(4)
    sys.exit(checks.run(given.models, given.work))


def install(parts: Path, work: Path) -> Path:
    """Install the wheels into a new environment in `work`. Returns its Python. Raises WheelError."""
    joined, home = wheels.join(parts, work / "wheels"), (work / "venv").absolute()
    venv.create(home, clear=True, with_pip=False)
    (site,) = home.glob("lib/python3*/site-packages")
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
    done = subprocess.run([*command, "--target", str(site), *map(str, joined)], capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise wheels.WheelError(f"the wheels cannot be installed: {' '.join(done.stderr.split())[-300:]}")
    link_nvidia(Path(sysconfig.get_path("purelib")), site)
    return home / "bin/python"


def link_nvidia(source: Path, site: Path) -> None:
    """Let `site` use the packages of NVIDIA's libraries in `source`, unless it has some itself."""
    if not (site / "nvidia").exists() and (source / "nvidia").exists():
        for path in (source / "nvidia", *source.glob("nvidia_*.dist-info")):
            if not (site / path.name).exists():
                (site / path.name).symlink_to(path)


if __name__ == "__main__":
    main()

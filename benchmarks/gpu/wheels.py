"""Collect the wheels of `packages.txt` for another machine, in parts that fit through small transfers, and join them there.

    python -m benchmarks.gpu.wheels FOLDER [--python 3.12] [--without nvidia-]

Only the standard library: a bare machine joins them with it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PART_BYTES = 60_000_000
MANIFEST = "wheels.json"  # in the first part: the wheels with size, hash and the names of their pieces
_HERE, _ROOT = Path(__file__).parent, Path(__file__).parents[2]
_GLIBC = (34, 31, 28, 27, 26, 24, 17)  # the minor versions that wheels name; pip matches them exactly
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in _GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64")


class WheelError(Exception):
    """Wheels cannot be collected or joined; the message is one line."""


def resolve(python: str) -> list[str]:
    """The pins, `name==version`, of all packages and their dependencies for a version of Python. Raises WheelError."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", python]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:", "-c", str(_ROOT / "constraints.txt")]
    done = subprocess.run([*command, str(_HERE / "packages.txt")], capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise WheelError(f"the packages do not resolve for Python {python}: {' '.join(done.stderr.split())[-300:]}")
    return [line.strip() for line in done.stdout.splitlines() if "==" in line]


def collect(folder: Path, *, python: str, without: Sequence[str] = ()) -> int:
    """Download all wheels and write them in parts into a new `folder`, except packages whose names begin with one of `without`.

    Returns their bytes. Raises WheelError.
    """
    if folder.exists() and any(folder.iterdir()):
        raise WheelError(f"{folder} is not empty: remove it, or name another folder")
    pins = [pin for pin in resolve(python) if not pin.startswith(tuple(without))]
    print(f"{len(pins)} packages for Python {python}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, "--implementation", "cp", *(f"--platform={name}" for name in _PLATFORMS), "--dest", scratch]
        done = subprocess.run([*command, *pins], capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            raise WheelError(f"a wheel cannot be downloaded: {' '.join(done.stderr.split())[-300:]}")
        return split(sorted(Path(scratch).iterdir()), folder)


def split(wheels: Sequence[Path], folder: Path, *, part_bytes: int = PART_BYTES) -> int:
    """Write files in parts of at most `part_bytes` into `folder`: part-01, part-02 … Returns the bytes of all files."""
    room, part, manifest = 0, 0, {}
    for wheel in sorted(wheels, key=lambda path: path.stat().st_size):
        names = []
        for piece, content in enumerate(_pieces(wheel, part_bytes)):
            if len(content) > room:
                part, room = part + 1, part_bytes
            name = f"part-{part:02}/{wheel.name}.{piece:03}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
            room, names = room - len(content), [*names, name]
        manifest[wheel.name] = {"bytes": wheel.stat().st_size, "sha256": _sha256(wheel), "pieces": names}
    (folder / "part-01" / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return sum(one["bytes"] for one in manifest.values())


def join(folder: Path, target: Path) -> list[Path]:
    """Write the wheels of the parts in `folder` into `target`, and check their hashes. Raises WheelError for a part that is missing."""
    file = folder / "part-01" / MANIFEST
    if not file.is_file():
        raise WheelError(f"{file} is missing: make the parts with `make gpu-wheels`, and bring all of them here")
    target.mkdir(parents=True, exist_ok=True)
    joined = []
    for name, facts in json.loads(file.read_text(encoding="utf-8")).items():
        if absent := [piece for piece in facts["pieces"] if not (folder / piece).is_file()]:
            raise WheelError(f"{folder / absent[0]} is missing: bring all parts here ({name} is in {len(facts['pieces'])} pieces)")
        with (target / name).open("wb") as stream:
            for piece in facts["pieces"]:
                with (folder / piece).open("rb") as source:
                    shutil.copyfileobj(source, stream)
        if _sha256(target / name) != facts["sha256"]:
            raise WheelError(
                f"{name} has another hash than its parts had when they were made: bring {facts['pieces'][0]} and the others again"
            )
        joined.append(target / name)
    return joined


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while content := stream.read(size):
            yield content


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.wheels", description="Collect wheels for another machine.")
    parser.add_argument("folder", type=Path, help="new folder for the parts")
    parser.add_argument("--python", default="3.12", choices=["3.11", "3.12", "3.13"], help="its version of Python (default: 3.12)")
    parser.add_argument("--without", nargs="*", default=[], metavar="PREFIX", help="packages that it has, such as nvidia-")
    given = parser.parse_args()
    try:
        size = collect(given.folder, python=given.python, without=given.without)
    except WheelError as error:
        sys.exit(f"error: {error}")
    parts = sorted(path.name for path in given.folder.iterdir())
    print(f"{size / 1e6:,.0f} MB in {len(parts)} parts of at most {PART_BYTES / 1e6:.0f} MB: {given.folder}/{parts[0]} … {parts[-1]}")


if __name__ == "__main__":
    main()

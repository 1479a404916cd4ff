"""Give each file to `paddleship run` in a clone of this repository, as its owner does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.zoo.files import nets, programs
from benchmarks.zoo.files.checkpoints import WAS_RUN
from benchmarks.zoo.files.specimen import FileSpecimen
from paddleship.containers import image

_REPOSITORY = Path(__file__).parents[3]
_LIMIT_S = 900
_CODES = (2, 3)  # the input is at fault, or a gate failed


@dataclass(frozen=True)
class Visit:
    """How the run of a specimen ended; truthy if that is as expected."""

    specimen: FileSpecimen
    found: str
    misses: list[str]
    seconds: float

    def __bool__(self) -> bool:
        return not self.misses


def visit(specimens: Sequence[FileSpecimen], *, until: str) -> list[Visit]:
    """Run specimens up to a stage, with a line for each."""
    if not specimens:
        return []
    ended, repository = [], f"paddleship/zoo-files-{os.getpid()}"
    with tempfile.TemporaryDirectory() as temporary, images_removed(repository):
        scratch = Path(temporary)
        subprocess.run(["git", "clone", "--quiet", str(_REPOSITORY), str(scratch / "clone")], check=True)
        for specimen in specimens:
            ended.append(_visit(specimen, scratch, repository, until))
            print(f"{len(ended)}/{len(specimens)} {row(ended[-1])}", flush=True)
    return ended


def table(ended: Sequence[Visit]) -> str:
    """One line per file, followed by its missed expectations."""
    return "\n".join([f"  {'file':22} {'expected':20} {'found':20} {'because':45} seconds", *map(row, ended)])


def row(visited: Visit) -> str:
    specimen = visited.specimen
    outcome = f"{'✓' if visited else '✗'} {specimen.name:22} {specimen.expected:20} {visited.found:20}"
    return "\n".join([f"{outcome} {specimen.because:45} {visited.seconds:5.1f}", *(f"      {miss}" for miss in visited.misses)])


def _visit(specimen: FileSpecimen, scratch: Path, repository: str, until: str) -> Visit:
    start, folder, clone = time.monotonic(), scratch / specimen.name, scratch / "clone"
    code, output = _run(clone, make(specimen, folder, repository), until)
    found, misses = judge(specimen, code, output, until)
    misses += ["something in the file was run"] if any([*folder.rglob(WAS_RUN), *clone.rglob(WAS_RUN)]) else []
    return Visit(specimen, found, misses, time.monotonic() - start)


def make(specimen: FileSpecimen, folder: Path, repository: str) -> Path:
    """Write the owner's folder: the files, the code beside them, and the params, whose path is returned."""
    folder.mkdir()
    shutil.copy(nets.__file__, folder / "nets.py")
    command = [sys.executable, "-m", "benchmarks.zoo.files.making", specimen.name, str(folder)]
    subprocess.run(command, cwd=_REPOSITORY, env=programs.environment(specimen), check=True, capture_output=True)
    params = folder / "params.yaml"
    params.write_text(yaml.safe_dump(specimen.params(folder, repository), sort_keys=False), encoding="utf-8")
    return params


def judge(specimen: FileSpecimen, code: int, output: str, until: str) -> tuple[str, list[str]]:
    """What came of a run, and the missed expectations."""
    lines = [line.partition("error: ")[2] for line in output.splitlines() if "error: " in line]
    told = " | ".join(dict.fromkeys(lines)) or "nothing"
    if not specimen.refused:
        passed = code == 0 and re.search(rf"^{until} .* passed", output, re.MULTILINE) is not None
        return ("image" if until == "accept" else until, []) if passed else ("no image", [f"exit code {code}: {told}"])
    misses = [] if code in _CODES else [f"exit code {code}, and {' or '.join(map(str, _CODES))} is right"]
    misses += [] if re.search(specimen.refused, told) else [f"the error does not match {specimen.refused!r}: {told}"]
    misses += ["a traceback"] if "Traceback" in output else []
    return ("one line" if lines else "no line"), misses


@contextmanager
def images_removed(repository: str) -> Iterator[None]:
    """Remove the images of a repository at the end."""
    try:
        yield
    finally:
        with image.engine() as client:
            for built in client.images.list(name=repository):
                client.images.remove(built.id, force=True)


def _run(clone: Path, params: Path, until: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "paddleship.cli.main", "run", "--until", until, "--params", str(params)]
    environment = {**os.environ, "PYTHONPATH": str(clone), "COLUMNS": "1000"}
    done = subprocess.run(
        command, cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
        check=False, timeout=_LIMIT_S,
    )  # fmt: skip
    return done.returncode, done.stdout

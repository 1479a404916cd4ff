"""`make image-size`: the image of a runtime with a small program that nothing has proven, for its size and its libraries alone.

    python -m benchmarks.image.unproven [CANDIDATE]

For a runtime whose candidates cannot be made or proven on this machine, such as those for a GPU. The image is built as `package` builds it
from a folder. Prints its layers, packages and largest files, loads each of NVIDIA's libraries in it, and starts its server: without a GPU,
the driver is to be the only library that is missing. The last line has the figures as JSON. Exits with 3 if another library is missing, or
if the image is larger than the goal of the candidate.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu import overflow
from benchmarks.image.building import packages_of
from paddleship.config import loading
from paddleship.containers import building, image, ownership
from paddleship.containers.sandbox import locked_down
from paddleship.errors import PaddleshipError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.system import host

_GOALS_MB = {"onnxruntime-cuda": 1600}
_SHOWN, _MEMORY_BYTES, _ENDED_S = 25, 2_000_000_000, 120
_DRIVER = "libcuda.so.1 is missing: it belongs to NVIDIA's driver"
_FILES = """
import json, os
root, sizes = "/opt/paddleship", {}
for folder, _, files in os.walk(root):
    for file in files:
        path = os.path.join(folder, file)
        sizes[os.path.relpath(path, root)] = os.lstat(path).st_size
print(json.dumps(sorted(sizes.items(), key=lambda one: -one[1])[:%d]))
"""
_LOAD = """
import ctypes, json, pathlib
failed = []
for path in sorted(pathlib.Path("/opt/paddleship/site").glob("nvidia/**/*.so*")):
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        failed.append(str(error))
print(json.dumps([text for text in failed if not text.startswith("libcuda.so.1")]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image.unproven", description="Build an image for its size alone.")
    parser.add_argument("candidate", nargs="?", default="onnxruntime-cuda", metavar="CANDIDATE")
    try:
        sys.exit(run(parser.parse_args().candidate))
    except PaddleshipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def run(name: str) -> int:
    """Build, show and start the image of a candidate of this name; the exit code. Raises PaddleshipError."""
    runtime, limit = registry.of(name), loading.load(Path("params.yaml")).package.max_image_bytes
    with image.engine() as client, tempfile.TemporaryDirectory() as scratch:
        folder = overflow.program(Path(scratch) / "program", runtime.name)
        with building.of_folder(client, folder, Candidate.load(folder)) as built:
            size, layers = int(built.attrs["Size"]), [one for one in built.history() if one["Size"]]
            packages, files = packages_of(client, built.id), json.loads(_output(client, built.id, _FILES % _SHOWN))
            broken = json.loads(_output(client, built.id, _LOAD))
            ended = _server(client, built.id)
    for one in layers:
        print(f"layer   {int(one['Size']) / 1e6:8.1f} MB  {one['CreatedBy'][:70]}")
    for kind, sizes in (("package", packages[:_SHOWN]), ("file", files)):
        print(*(f"{kind:7} {number / 1e6:8.1f} MB  {path}" for path, number in sizes), sep="\n")
    print(f"image   {size / 1e6:8.1f} MB")
    print(*(str(check) for check in building.checks(size, limit)), *(f"broken  {one}" for one in broken), f"server  {ended}", sep="\n")
    goal, starts = _GOALS_MB.get(name), _DRIVER in ended or ended == _RUNS
    goals = {"image_mb": goal is None or size / 1e6 <= goal, "libraries": not broken, "starts": starts}
    missed = [one for one, met in goals.items() if not met]
    facts = {"image_mb": round(size / 1e6, 1), "goal_image_mb": goal, "broken": broken, "server": ended, "goals_missed": missed}
    print(json.dumps({"candidate": name, **facts, "packages": dict(packages[:_SHOWN]), "host": host.fingerprint()}))
    return 3 if missed else 0


_RUNS = "runs"


def _output(client: Any, identity: str, code: str) -> str:
    return str(client.containers.run(identity, ["-c", code], entrypoint="python", remove=True, network_disabled=True).decode())


def _server(client: Any, identity: str) -> str:
    """The last line of a server of this image that ended, or that it runs after a time in which one without a GPU ends."""
    import docker

    options = locked_down(memory_bytes=_MEMORY_BYTES)
    container = client.containers.run(identity, detach=True, network_disabled=True, labels=ownership.labels(), **options)
    try:
        container.wait(timeout=_ENDED_S)
        return str(container.logs().decode(errors="replace").strip().splitlines()[-1])
    except (docker.errors.APIError, OSError):
        return _RUNS
    finally:
        image.remove_container(container)


if __name__ == "__main__":
    main()

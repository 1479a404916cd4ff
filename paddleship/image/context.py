"""What an image is built from: the Dockerfile, and all files that it copies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddleship.custody import candidates, sources
from paddleship.errors import Unavailable
from paddleship.image import distributions, requirements, user_packages
from paddleship.image.footprint import not_served
from paddleship.shipped.computing.candidate import FILE, Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import Registration
from paddleship.shipped.serving import transports
from paddleship.shipped.serving.settings import Settings


def lay_out(context: Path, folder: Path, candidate: Candidate, settings: Settings, *, proven_with: Mapping[str, str]) -> None:
    """Fill the build context: Dockerfile, packages, library and model. Equal inputs give equal bytes and times.

    `folder` holds the candidate, and `settings` are for its server. Raises CandidateError for a library of another version than in
    `proven_with` or installed here.
    """
    library, root = sources.LIBRARY, context / "rootfs"
    shutil.copy(requirements.dockerfile(), context / "Dockerfile")
    runtime = registry.get(candidate.runtime)
    further = [pin for name in settings.also for pin in requirements.pins(requirements.folder() / transports.get(name).REQUIREMENTS)]
    _install(runtime.registration, [*further, *user_packages.pins(candidate)], root / "site")
    distributions.require_proven(distributions.of(root / "site"), proven_with)
    (root / "lib").mkdir()
    for name in runtime.registration.system_libraries:
        _add_library(name, root / "lib")
    for name in sources.SHIPPED:
        target = root / "app" / "paddleship" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (library / name).is_dir():
            shutil.copytree(library / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(library / name, target)
    user_packages.lay_out(candidate, root / "app")
    for name in (FILE, *candidate.files):
        (root / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, root / "model" / name)
    settings.write(root / "model")
    copied = Candidate.load(root / "model")
    candidates.require(f"the copy of {candidate.name!r}", copied.digest, candidate.digest, by="benchmark", again="package")
    _compile(root, "site", "app")
    for part in list(root.iterdir()):  # with all folders above it, so that a layer has their times from here and not from the build
        package_folder = context / part.name / "opt/paddleship"
        package_folder.mkdir(parents=True)
        part.rename(package_folder / part.name)
    root.rmdir()
    for path in (context, *context.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (0, 0))


def _compile(root: Path, *parts: str) -> None:
    """Compile the modules of these folders, in a new process: what the marshalled constants look like depends on what else is loaded."""
    command = [sys.executable, "-I", "-S", "-m", "compileall", "-q", "-s", str(root), "-p", "/opt/paddleship"]
    subprocess.run(  # a module in another dialect of Python does not compile, and is not imported either
        [*command, "--invalidation-mode", "unchecked-hash", *(str(root / part) for part in parts)], capture_output=True, check=False
    )


def _install(runtime: Registration, further: Sequence[str], target: Path) -> None:
    """Install the pins of a runtime and `further` ones into `target`, without files that serving does not need. Raises Unavailable."""
    pinned = requirements.file(runtime)
    pins = [*runtime.pins, *further]
    what = " and ".join([str(pinned), *pins])
    print(f"installing {what}")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy"]
    done = subprocess.run(
        [*command, "--target", str(target), "--requirements", str(pinned), *pins],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        reason = " ".join(done.stderr.split())[-300:]
        raise Unavailable(f"the packages of {what} cannot be installed ({reason}): check the network and the pins")
    for pattern in not_served(runtime):
        for path in list(target.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for record in target.glob("*.dist-info/*"):
        if record.name in ("RECORD", "direct_url.json", "uv_cache.json", "INSTALLER", "REQUESTED"):
            record.unlink()  # they contain local paths and times
    (target / ".lock").unlink(missing_ok=True)


def _add_library(name: str, target: Path) -> None:
    """Add a system library that the runtime needs and slim images do not have. Raises Unavailable."""
    paths = [folder / name for folder in (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"))]
    library = next((path for path in paths if path.exists()), None)
    if library is None:
        raise Unavailable(f"{name} is missing on this host, and the image needs it: install it (Debian package of libgomp.so.1: libgomp1)")
    shutil.copy(library.resolve(), target / name)

"""What the images of all models with one runtime share: its pinned packages and its system libraries."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paddleship.errors import CandidateError, Unavailable
from paddleship.image import layout, requirements, sbom, shared_libraries, user_packages
from paddleship.image.footprint import matcher, not_served
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256, tree_sha256
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import Registration
from paddleship.shipped.serving import transports

_RECORDS = ("RECORD", "direct_url.json", "uv_cache.json", "INSTALLER", "REQUESTED")  # they contain local paths and times


@dataclass(frozen=True)
class RuntimeLayers:
    """The runtime of a candidate, and the pins of the packages that it needs besides those of its runtime.

    `loaded` are the optional libraries of the runtime that the layers have; None: all of them.
    """

    runtime: Registration
    further: tuple[str, ...]
    loaded: frozenset[str] | None = None

    @classmethod
    def of(cls, candidate: Candidate, also: Iterable[str] = (), *, loaded: frozenset[str] | None = None) -> RuntimeLayers:
        """Those of a candidate whose server has the transports `also` beside HTTP, with these optional libraries, or all."""
        further = [pin for name in also for pin in requirements.pins(requirements.folder() / transports.get(name).REQUIREMENTS)]
        return cls(registry.get(candidate.runtime).registration, (*further, *user_packages.pins(candidate)), loaded)

    @property
    def pins(self) -> list[str]:
        """The pins of all packages. Raises CandidateError."""
        return [*requirements.of(self.runtime), *self.further]

    def key(self, base_image_id: str) -> str:
        """Hash of everything that the layers depend on. Raises CandidateError, Unavailable."""
        facts = {
            "base": base_image_id,
            "dockerfile": requirements.runtime_dockerfile().read_text(encoding="utf-8"),
            "pins": self.pins,
            "not_served": not_served(self.runtime),
            "unmodified": self.runtime.unmodified,
            "loaded": None if self.loaded is None else sorted(self.loaded),
            "libraries": {name: sha256(_library(name)) for name in self.runtime.system_libraries},
            "python": platform.python_version(),  # which compiles the modules
            "machine": platform.machine(),
            "layout": {path.name: sha256(path) for path in sorted(Path(__file__).parent.glob("*.py"))},
        }
        return tree_sha256({name: json.dumps(fact, sort_keys=True) for name, fact in facts.items()})

    def lay_out(self, context: Path, *, debian: str = "") -> None:
        """Fill the build context: Dockerfile, packages and libraries. Equal inputs give equal bytes and times.

        `debian` is the status of dpkg in the base image, for the bill of materials. Raises Unavailable, and CandidateError if a library
        that the candidate had loaded is not in the packages.
        """
        root = context / "rootfs"
        site, lib = root / "site", root / "lib"
        _install(self.runtime, self.further, site)
        files = sbom.installed_files(site)
        _leave_out(site, self.runtime.optional_libraries, self.loaded)
        _reduce(site, not_served(self.runtime), unmodified=self.runtime.unmodified)
        lib.mkdir()
        for name in self.runtime.system_libraries:
            shutil.copy(_library(name), lib / name)
        (lib / sbom.FILE).write_text(sbom.of_runtime(site, files, lib, debian), encoding="utf-8")
        layout.compile_modules(root, "site")
        layout.finish(context, root, requirements.runtime_dockerfile())


def _install(runtime: Registration, further: Sequence[str], target: Path) -> None:
    """Install the pins of a runtime and `further` ones into `target`. Raises Unavailable."""
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


def _leave_out(target: Path, optional: Sequence[str], loaded: frozenset[str] | None) -> None:
    """Remove the optional libraries that are not among the `loaded` ones, if these are known. Raises CandidateError."""
    if loaded is None:
        return
    present = {path.relative_to(target).as_posix() for pattern in optional for path in target.glob(pattern) if path.is_file()}
    if absent := sorted(loaded - present):
        raise CandidateError(
            f"verify had loaded {absent[0]}, which the packages of the image have not: pin in docker/requirements what is installed here, "
            "or set package.unused_libraries: keep"
        )
    for name in present - loaded:
        (target / name).unlink()


def _reduce(target: Path, patterns: Sequence[str], *, unmodified: Sequence[str]) -> None:
    """Remove the files that these patterns name, what differs between two installations, and what no program reads of others."""
    whole = matcher(unmodified)
    for pattern in patterns:
        for path in list(target.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for record in target.glob("*.dist-info/*"):
        if record.name in _RECORDS:
            record.unlink()
    (target / ".lock").unlink(missing_ok=True)
    for path in sorted(target.rglob("*"), reverse=True):
        if path.is_file() and not whole.match_file(path.relative_to(target).as_posix()):
            shared_libraries.reduce(path)
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _library(name: str) -> Path:
    """The file of a system library that the runtime needs and slim images do not have. Raises Unavailable."""
    paths = [folder / name for folder in (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"))]
    library = next((path for path in paths if path.exists()), None)
    if library is None:
        raise Unavailable(f"{name} is missing on this host, and the image needs it: install it (Debian package of libgomp.so.1: libgomp1)")
    return library.resolve()

"""package: build a small hardened image of the winner."""

from __future__ import annotations

import compileall
import json
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paddleship.benchmark import samples
from paddleship.config.params import Params
from paddleship.config.sections.package import Package
from paddleship.containers import image
from paddleship.custody import candidates, chain, sources
from paddleship.data import dataset
from paddleship.errors import Unavailable, without_credentials
from paddleship.image import distributions, foreign, python_version, requirements
from paddleship.image.footprint import not_served
from paddleship.lineage import derived, source
from paddleship.lineage.release import Lineage
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.candidate import FILE, Candidate
from paddleship.shipped.computing.files import read_json, sha256, tree_sha256, write_text
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import Registration
from paddleship.stage.frame import main


def package(params: Params) -> Report:
    """Build the image of the chosen candidate, with its lineage as labels, and write the receipt.

    The image has a temporary tag until `accept` gives it its name.
    """
    begun = chain.begin(params, "package")
    choice = read_json(Path(params.paths.benchmark) / "choice.json", stage="benchmark")
    proven = read_json(Path(params.paths.parity) / "passed.json", stage="verify")
    samples.require_speedup(Path(params.paths.benchmark), choice)
    candidate = candidates.load(params, choice["candidate"])
    folder = Path(params.paths.candidates) / candidate.name
    candidates.require_proven(candidate, proven)
    candidates.require(f"the candidate {candidate.name!r}", candidate.digest, choice.get("digest"), by="benchmark", again="benchmark")
    _, _, specs = dataset.read_preprocess(Path(params.paths.prepared))
    candidates.require_consistent(candidate, params, name=candidate.name, inputs=specs)
    lineage = _lineage(params, candidate, choice, proven)
    python = begun.seals["verify"].versions["python"]
    python_version.require_proven("this machine", platform.python_version(), python)
    base_image = params.package.base_image or python_version.base_image(python)
    labels = lineage.labels(base_image=base_image, created=datetime.now(UTC), source=source.origin())
    name = f"{params.package.repository}:{candidate.digest[:12]}"
    with image.engine() as client, tempfile.TemporaryDirectory() as scratch:
        base = image.require_base(client, base_image)
        python_version.require_proven(f"the base image {base_image!r}", image.python_version(client, base.id), python)
        context = Path(scratch)
        contents = _lay_out(context, folder, candidate, proven_with=begun.seals["verify"].versions)
        built = image.build(client, context, base_image=base_image, labels=labels)
        unaccepted = f"{params.package.repository}:unaccepted-{built.id.removeprefix('sha256:')[:12]}"
        built.tag(unaccepted)
    size = int(built.attrs["Size"])
    receipt = {
        "image": name,
        "unaccepted": unaccepted,
        "image_id": built.id,
        "labels": labels,
        "contents": contents,
        "size_bytes": size,
        "layers": built.attrs["RootFS"]["Layers"],
        "base_image": base_image,
        "base_image_id": base.id,
        "base_is_stand_in": "io.paddleship.stand-in" in base.labels,
        "lineage": lineage.model_dump(),
        "inputs": dict(begun.inputs),
    }
    report = Report(
        stage="package",
        headline=f"{name}, {size / 1e6:.0f} MB",
        metrics={"image_bytes": size, "base_image_bytes": int(base.attrs["Size"]), "layers": len(receipt["layers"])},
        verdict=Verdict(checks=checks(size, params.package)),
        facts={"image": name, "image_id": built.id, "base_is_stand_in": receipt["base_is_stand_in"]},
    )
    write_text(Path(params.paths.image), json.dumps(receipt, indent=1) + "\n")
    return report


def checks(size: int, limits: Package) -> list[Check]:
    advice = "raise package.max_image_bytes, or inspect the layers with `docker history`"
    return [Check.at_most("image_bytes", size, limits.max_image_bytes, advice=advice)]


def _lineage(params: Params, candidate: Candidate, choice: dict[str, Any], proven: dict[str, Any]) -> Lineage:
    tracking_uri = os.environ.get("MLFLOW_TRACKING_URI")
    return Lineage(
        **derived.facts(params, candidate, choice, proven),
        git_commit=source.commit(),
        git_changes=source.changes(params.code.watch),
        params_sha256=source.params_sha256(params),
        dvc_lock_sha256=source.lock_sha256(),
        code_in_repository=sources.is_below(params.code, Path.cwd()),
        mlflow_run_id=os.environ.get("MLFLOW_RUN_ID"),
        mlflow_tracking_uri=without_credentials(tracking_uri) if tracking_uri and _is_server(tracking_uri) else None,
        prefect_flow_run_id=os.environ.get("PADDLESHIP_FLOW_RUN_ID"),
        experiment=os.environ.get("PADDLESHIP_EXPERIMENT"),
    )


def _is_server(uri: str) -> bool:
    """Whether others can use the address: that of a local store holds a path of this machine, which an image is not to have."""
    return urlsplit(uri).scheme in ("http", "https")


def _lay_out(context: Path, folder: Path, candidate: Candidate, *, proven_with: Mapping[str, str]) -> dict[str, str]:
    """Fill the build context: Dockerfile, packages, library and model. Equal inputs give equal bytes and times.

    Returns one hash of the library's files and one of the model's files, by the names in image.CONTENTS.
    """
    library, root = sources.LIBRARY, context / "rootfs"
    shutil.copy(requirements.dockerfile(), context / "Dockerfile")
    runtime = registry.get(candidate.runtime)
    _install(runtime.registration, foreign.pins(candidate), root / "site")
    distributions.require_proven(distributions.installed(root / "site"), proven_with)
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
    foreign.lay_out(candidate, root / "app")
    for name in (FILE, *candidate.files):
        (root / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, root / "model" / name)
    copied = Candidate.load(root / "model")
    candidates.require(f"the copy of {candidate.name!r}", copied.digest, candidate.digest, by="benchmark", again="package")
    for part in ("site", "app"):
        compileall.compile_dir(
            root / part,
            quiet=1,
            stripdir=str(root),
            prependdir="/opt/paddleship",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    for path in (context, *context.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (0, 0))
    return {part: tree_sha256({name: sha256(root / part / name) for name in _files(root / part)}) for part in image.CONTENTS}


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


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
    found = [folder / name for folder in (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"))]
    library = next((path for path in found if path.exists()), None)
    if library is None:
        raise Unavailable(f"{name} is missing on this host, and the image needs it: install it (Debian package of libgomp.so.1: libgomp1)")
    shutil.copy(library.resolve(), target / name)


if __name__ == "__main__":
    main(package, imports_user_code=False)

"""package: the winner in a small hardened image."""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paddleship import requirements
from paddleship.candidate import Candidate
from paddleship.conversion.footprint import NOT_SERVED
from paddleship.errors import BadInput, Unavailable
from paddleship.files import read_json, write_text
from paddleship.lineage import Lineage
from paddleship.params import Params
from paddleship.report import Report
from paddleship.verdict import Check, Verdict
from tasks import image, source
from tasks.stage import main

_LIBRARY = (
    "__init__.py", "arguments.py", "candidate.py", "errors.py", "files.py", "layers.py", "preprocess.py", "quiet.py", "references.py",
    "spec.py", "structure.py", "runtimes", "serving",
)  # fmt: skip


def package(params: Params) -> Report:
    """Build the image of the chosen candidate, with its lineage as labels, and write the receipt."""
    choice = read_json(Path(params.paths.benchmark) / "choice.json", stage="benchmark")
    folder = Path(params.paths.candidates) / choice["candidate"]
    candidate = Candidate.load(folder)
    lineage = _lineage(params, candidate, choice)
    labels = lineage.labels(base_image=params.package.base_image, created=datetime.now(UTC), source=source.origin())
    name = f"{params.package.repository}:{candidate.digest[:12]}"
    with closing(image.connect()) as client, tempfile.TemporaryDirectory() as scratch:
        base = image.require_base(client, params.package.base_image)
        context = Path(scratch)
        _lay_out(context, folder, candidate.runtime)
        built = image.build(client, context, tag=name, base_image=params.package.base_image, labels=labels)
        built.tag(params.package.repository, "latest")
    size = int(built.attrs["Size"])
    receipt = {
        "image": name,
        "image_id": built.id,
        "size_bytes": size,
        "layers": built.attrs["RootFS"]["Layers"],
        "base_image": params.package.base_image,
        "base_image_id": base.id,
        "base_is_stand_in": "io.paddleship.stand-in" in base.labels,
        "lineage": lineage.model_dump(),
    }
    advice = "raise package.max_image_bytes, or look at the layers with `docker history`"
    report = Report(
        stage="package",
        headline=f"{name}, {size / 1e6:.0f} MB",
        metrics={"image_bytes": size, "base_image_bytes": int(base.attrs["Size"]), "layers": len(receipt["layers"])},
        verdict=Verdict(checks=[Check.at_most("image_bytes", size, params.package.max_image_bytes, advice=advice)]),
        facts={"image": name, "image_id": built.id, "base_is_stand_in": receipt["base_is_stand_in"]},
    )
    write_text(Path(params.paths.image), json.dumps(receipt, indent=1) + "\n")
    return report


def _lineage(params: Params, candidate: Candidate, choice: dict[str, Any]) -> Lineage:
    schema = read_json(Path(params.paths.prepared) / "schema.json", stage="prepare")
    proven = read_json(Path(params.paths.parity) / "passed.json", stage="verify")
    if candidate.name not in proven:
        raise BadInput(f"candidate {candidate.name!r} was chosen and has not passed verify: run `dvc repro benchmark`")
    return Lineage(
        model=params.name,
        git_commit=source.commit(),
        git_changes=source.changes(),
        data_sha256=schema["data_sha256"],
        params_sha256=hashlib.sha256(params.model_dump_json().encode()).hexdigest(),
        dvc_lock_sha256=source.lock_sha256(),
        weights_sha256=candidate.weights_sha256,
        candidate=candidate.name,
        candidate_digest=candidate.digest,
        runtime=candidate.runtime,
        noise_ratio=proven[candidate.name]["noise_ratio"],
        speedup=choice["speedup"],
        speedup_low=choice["speedup_low"],
        speedup_high=choice["speedup_high"],
        mlflow_run_id=os.environ.get("MLFLOW_RUN_ID"),
        mlflow_tracking_uri=os.environ.get("MLFLOW_TRACKING_URI"),
        prefect_flow_run_id=os.environ.get("PADDLESHIP_FLOW_RUN_ID"),
    )


def _lay_out(context: Path, candidate: Path, runtime: str) -> None:
    """Fill the build context: Dockerfile, packages, library and model, with the same bytes and times whenever the inputs are the same."""
    library, root = Path(__file__).parents[1] / "paddleship", context / "rootfs"
    pinned = requirements.folder()
    shutil.copy(pinned.parent / "serve.Dockerfile", context / "Dockerfile")
    _install(pinned / f"{runtime}.txt", root / "site")
    (root / "lib").mkdir()
    if (root / "site" / "paddle").exists():
        _add_gomp(root / "lib")
    for name in _LIBRARY:
        target = root / "app" / "paddleship" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (library / name).is_dir():
            shutil.copytree(library / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(library / name, target)
    shutil.copytree(candidate, root / "model")
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


def _install(requirements: Path, target: Path) -> None:
    """Install pinned packages for the image's Python into `target`, and take out what serving does not need. Raises Unavailable."""
    print(f"installing {requirements}")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy"]
    done = subprocess.run(
        [*command, "--target", str(target), "--requirements", str(requirements)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = " ".join(done.stderr.split())[-300:]
        raise Unavailable(f"the packages of {requirements} cannot be installed ({reason}): check the network and the pins")
    for pattern in NOT_SERVED:
        for path in list(target.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for record in target.glob("*.dist-info/*"):
        if record.name in ("RECORD", "direct_url.json", "uv_cache.json", "INSTALLER", "REQUESTED"):
            record.unlink()  # they name local paths and times
    (target / ".lock").unlink(missing_ok=True)


def _add_gomp(target: Path) -> None:
    """Add the system's OpenMP library, which Paddle's wheel expects and slim images lack. Raises Unavailable."""
    found = [folder / "libgomp.so.1" for folder in (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"))]
    library = next((path for path in found if path.exists()), None)
    if library is None:
        raise Unavailable("libgomp.so.1 is not on this host and Paddle needs it in the image: install it (Debian: libgomp1)")
    shutil.copy(library.resolve(), target / "libgomp.so.1")


if __name__ == "__main__":
    main(package)

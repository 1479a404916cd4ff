"""package: build a small hardened image of the winner."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paddleship.benchmark import samples
from paddleship.config.params import Params
from paddleship.containers import building, image
from paddleship.custody import candidates, chain, libraries, proofs, sources
from paddleship.data import dataset
from paddleship.errors import without_credentials
from paddleship.image import distributions, python_version, sbom
from paddleship.lineage import derived, receipts, source
from paddleship.lineage.release import Lineage, created
from paddleship.reports.report import Report
from paddleship.reports.verdict import Verdict
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json, write_text
from paddleship.stage.frame import main


def package(params: Params) -> Report:
    """Build the image of the chosen candidate, with its lineage as labels, and write the receipt.

    The image has a temporary tag until `accept` gives it its name.
    """
    begun = chain.begin(params, "package", versions=libraries.versions())
    choice = read_json(Path(params.paths.benchmark) / "choice.json", stage="benchmark")
    proven = proofs.read(params)
    samples.require_measured(Path(params.paths.benchmark), choice, max_busy_share=params.benchmark.max_busy_share)
    candidate = candidates.load(params, choice["candidate"])
    candidates.require_proven(candidate, proven)
    candidates.require(f"the candidate {candidate.name!r}", candidate.digest, choice.get("digest"), by="benchmark", again="benchmark")
    _, _, specs = dataset.read_preprocess(Path(params.paths.prepared))
    candidates.require_consistent(candidate, params, name=candidate.name, inputs=specs)
    lineage = _lineage(params, candidate, choice, proven)
    python = begun.seals["verify"].versions["python"]
    python_version.require_proven("this machine", platform.python_version(), python)
    base_image = building.base_image(params, python)
    labels = lineage.labels(base_image=base_image, created=created(), source=source.origin())
    name = building.name(params, candidate)
    with image.engine() as client:
        base, built = building.build(client, params, candidate, labels=labels, proven_with=begun.seals["verify"].versions)
        unaccepted = f"{params.package.repository}:unaccepted-{built.id.removeprefix('sha256:')[:12]}"
        built.tag(unaccepted)
        bill = image.read_file(client, built.id, sbom.IN_IMAGE)
    size, loaded = int(built.attrs["Size"]), building.loaded_libraries(params, candidate)
    receipt = {
        "image": name,
        "unaccepted": unaccepted,
        "image_id": built.id,
        "labels": labels,
        "size_bytes": size,
        "layers": built.attrs["RootFS"]["Layers"],
        "base_image": base_image,
        "base_image_id": base.id,
        "base_is_stand_in": "io.paddleship.stand-in" in base.labels,
        "lineage": lineage.model_dump(),
        "inputs": dict(begun.inputs),
        "params": dict(begun.params),
    }
    report = Report(
        stage="package",
        headline=f"{name}, {size / 1e6:.0f} MB" + (f", for {loaded.gpu} only" if loaded and loaded.gpu else ""),
        metrics={"image_bytes": size, "base_image_bytes": int(base.attrs["Size"]), "layers": len(receipt["layers"])},
        verdict=Verdict(checks=building.checks(size, params.package.max_image_bytes)),
        facts={
            "image": name,
            "image_id": built.id,
            "page": f"package/{sbom.FILE}",
            "base_is_stand_in": receipt["base_is_stand_in"],
            "loaded_libraries": sorted(loaded.files) if loaded else "all",
            "gpu": loaded.gpu if loaded else "",
        },
    )
    folder = Path(params.paths.reports) / "package"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / sbom.FILE, bill)
    receipts.write(Path(params.paths.image), receipt)
    return report


def _lineage(params: Params, candidate: Candidate, choice: dict[str, Any], proven: dict[str, Any]) -> Lineage:
    tracking_uri = os.environ.get("MLFLOW_TRACKING_URI")
    return Lineage(
        **derived.facts(params, candidate, choice, proven),
        unproven=distributions.unproven(),
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


if __name__ == "__main__":
    main(package, imports_user_code=False)

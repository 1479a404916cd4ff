"""accept: run the image with restricted rights and compare its answers over HTTP with those of the eager model."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paddleship.benchmark import samples
from paddleship.config.params import Params
from paddleship.containers import building, image, image_test
from paddleship.custody import candidates, chain, proofs
from paddleship.custody.links import LINKS
from paddleship.image import distributions
from paddleship.lineage import derived, receipts
from paddleship.reports.report import Report
from paddleship.shipped.computing.files import read_json, write_text
from paddleship.stage.frame import main
from paddleship.system import locks


def accept(params: Params) -> Report:
    """Run the image with restricted rights, compare its answers over HTTP with eager's, measure it, stop it, and write the release.

    Only an image that passes gets its name. A refused image loses its tag and is removed.
    """
    begun = chain.begin(params, "accept")
    receipt = receipts.read(Path(params.paths.image))
    choice = read_json(Path(params.paths.benchmark) / "choice.json", stage="benchmark")
    proven = proofs.read(params)
    samples.require_measured(Path(params.paths.benchmark), choice, max_busy_share=params.benchmark.max_busy_share)
    candidate = candidates.load(params, choice["candidate"])
    candidates.require_proven(candidate, proven)
    versions = begun.seals["verify"].versions
    derived.require_receipt(
        receipt,
        {**derived.facts(params, candidate, choice, proven), "unproven": distributions.unproven()},
        begun.inputs,
        params=LINKS["package"].values(params),
        image=building.name(params, candidate),
        base_image=building.base_image(params, versions["python"]),
    )
    with image.engine() as client:
        building.require_same(client, params, candidate, receipt, proven_with=versions)
        report, example = image_test.attempt(client, receipt, candidate, params)
        with locks.wait_for(locks.of_machine("accepting")):  # so that the name belongs to the image that was accepted last
            if report.verdict:
                image.name(client, receipt["image_id"], receipt["image"])
            else:
                image.untag(client, receipt["image_id"], receipt["image"])
            _write_release(params, receipt, report, example)
        image.untag(client, receipt["image_id"], receipt["unaccepted"])
    return report


def _write_release(params: Params, receipt: dict[str, Any], report: Report, example: dict[str, Any]) -> None:
    """Write the lineage of this image, and a request with its answer, into one file."""
    release = {
        "schema_version": 1,
        **receipt["lineage"],
        "image": receipt["image"],
        "image_id": receipt["image_id"],
        "image_bytes": receipt["size_bytes"],
        "base_image": receipt["base_image"],
        "base_image_id": receipt["base_image_id"],
        "accepted": report.verdict.passed,
        "judged_at": datetime.now(UTC).isoformat(),
        "acceptance": report.metrics,
        "example": example,
        "params": params.model_dump(mode="json"),
    }
    write_text(Path(params.paths.release), json.dumps(release, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(accept, imports_user_code=False)

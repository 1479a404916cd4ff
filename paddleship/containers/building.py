"""The image of a candidate, as `package` builds it and `accept` builds it again: equal inputs give equal layers."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.custody import proofs
from paddleship.errors import BadInput
from paddleship.image import context, python_version
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.settings import Settings


def name(params: Params, candidate: Candidate) -> str:
    """The name that the image gets when it is accepted."""
    return f"{params.package.repository}:{candidate.digest[:12]}"


def base_image(params: Params, python: str) -> str:
    """The name of the base image; `python` is the version that `verify` ran with."""
    return params.package.base_image or python_version.base_image(python)


def settings(params: Params, candidate: Candidate) -> Settings:
    """What the image tells its server."""
    rows, exact = proofs.row_facts(params), candidate.precision == "float32"  # others are judged by decisions, not row by row
    together = rows.independent and exact
    return Settings(batching=together, padding=together and rows.padded, slo_p99_ms=params.benchmark.slo_p99_ms)


def build(
    client: Any, params: Params, candidate: Candidate, *, labels: Mapping[str, str], proven_with: Mapping[str, str]
) -> tuple[Any, Any]:
    """The base image and the image of the candidate, which has no tag. `proven_with` are the versions that `verify` ran with."""
    wanted = base_image(params, proven_with["python"])
    base = image.require_base(client, wanted)
    python_version.require_proven(f"the base image {wanted!r}", image.python_version(client, base.id), proven_with["python"])
    with tempfile.TemporaryDirectory() as scratch:
        context.lay_out(
            Path(scratch), Path(params.paths.candidates) / candidate.name, candidate, settings(params, candidate), proven_with=proven_with
        )
        return base, image.build(client, Path(scratch), base_image=wanted, labels=labels)


def require_same(client: Any, params: Params, candidate: Candidate, receipt: Mapping[str, Any], *, proven_with: Mapping[str, str]) -> None:
    """Build the image again, and raise BadInput unless that of the receipt is the same and not too large."""
    image.require_exists(client, receipt)
    base, expected = build(client, params, candidate, labels=receipt["labels"], proven_with=proven_with)
    try:
        image.require_built(client, receipt, base=base, expected=expected)
    finally:
        if expected.id != receipt["image_id"] and not expected.tags:
            client.images.remove(expected.id, force=True, noprune=True)
    for check in checks(int(expected.attrs["Size"]), params.package.max_image_bytes):
        if not check.passed:
            raise BadInput(f"the image misses a limit of package ({check}): run `paddleship run --again package`")


def checks(size: int, limit: int) -> list[Check]:
    advice = "raise package.max_image_bytes, or inspect the layers with `docker history`"
    return [Check.at_most("image_bytes", size, limit, advice=advice)]

"""The image of a candidate, as `package` builds it and `accept` builds it again: equal inputs give equal layers."""

from __future__ import annotations

import platform
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.custody import proofs
from paddleship.errors import BadInput
from paddleship.image import context, distributions, python_version, sbom
from paddleship.image.runtime_layers import RuntimeLayers
from paddleship.lineage import release
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.serving.settings import Settings

_DEBIAN = "/var/lib/dpkg/status"
_RUNTIMES = "paddleship/runtime"  # repository of the images that models with one runtime share
_COMPARED = "paddleship/compared"  # of images that last as long as a comparison


def name(params: Params, candidate: Candidate) -> str:
    """The name that the image gets when it is accepted."""
    return f"{params.package.repository}:{candidate.digest[:12]}"


def base_image(params: Params, python: str) -> str:
    """The name of the base image; `python` is the version that `verify` ran with."""
    return params.package.base_image or python_version.base_image(python)


def loaded_libraries(params: Params, candidate: Candidate) -> proofs.MappedLibraries | None:
    """The optional libraries that the image has, and the GPU that it is for; None if it has all. Raises CandidateError."""
    removes = params.package.unused_libraries == "remove" and bool(registry.get(candidate.runtime).registration.optional_libraries)
    return proofs.mapped_libraries(params, candidate) if removes else None


def settings(params: Params, candidate: Candidate) -> Settings:
    """What the image tells its server. Raises CandidateError."""
    loaded = loaded_libraries(params, candidate)
    rows, exact = proofs.row_facts(params), candidate.precision == "float32"  # others are judged by decisions, not row by row
    together = rows.independent and exact
    return Settings(
        batching=together,
        padding=together and rows.padded,
        slo_p99_ms=params.benchmark.slo_p99_ms,
        also=params.package.ports,
        processes=params.package.processes,
        gpu=loaded.gpu if loaded else "",
    )


def build(
    client: Any, params: Params, candidate: Candidate, *, labels: Mapping[str, str], proven_with: Mapping[str, str], anew: bool = False
) -> tuple[Any, Any]:
    """The base image and the image of the candidate, which has no tag. `proven_with` are the versions that `verify` ran with.

    What models with one runtime share is built once, or again if `anew`. Raises CandidateError for a library of another version than in
    `proven_with` or installed here.
    """
    wanted = base_image(params, proven_with["python"])
    loaded = loaded_libraries(params, candidate)
    layers = RuntimeLayers.of(candidate, params.package.ports, loaded=loaded.files if loaded else None)
    base = image.require_base(client, wanted)
    distributions.require_proven(distributions.pinned(layers.pins), proven_with)
    runtime, bill = _runtime(client, layers, base, wanted, python=proven_with["python"], anew=anew)
    own = release.content_labels(licenses=sbom.licenses(bill), base_digest=image.digest(base))
    with tempfile.TemporaryDirectory() as scratch:
        lay_out(Path(scratch), params, candidate, bill=bill)
        print(f"building the image on {wanted}")
        return base, image.build(client, Path(scratch), base_image=runtime, labels={**labels, **own})


@contextmanager
def of_folder(client: Any, folder: Path, candidate: Candidate) -> Iterator[Any]:
    """An image of a candidate folder without its params, as `package` builds it, with a server that joins no requests; removed at the end.

    It has the Python and the packages of this process, because nothing says what the candidate was proven with.
    """
    python = platform.python_version()
    wanted = python_version.base_image(python)
    base, layers = image.require_base(client, wanted), RuntimeLayers.of(candidate)
    runtime, bill = _runtime(client, layers, base, wanted, python=python)
    tag = f"{_COMPARED}:{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory() as scratch:
        context.lay_out(Path(scratch), folder, candidate, Settings(), bill=bill)
        print(f"building an image of {folder}")
        built = image.build(client, Path(scratch), base_image=runtime, labels={})
    built.tag(tag)
    try:
        yield built
    finally:
        image.untag(client, built.id, tag)


def _runtime(client: Any, layers: RuntimeLayers, base: Any, wanted: str, *, python: str, anew: bool = False) -> tuple[str, str]:
    """The name and the bill of materials of the image of a runtime, which is built if the engine has none, or if `anew`."""
    runtime = f"{_RUNTIMES}:{layers.key(base.id)[:12]}"
    bill = "" if anew else image.read_file(client, runtime, sbom.RUNTIME_IN_IMAGE)
    if not bill:
        python_version.require_proven(f"the base image {wanted!r}", image.python_version(client, base.id), python)
        _build_runtime(client, layers, base, wanted).tag(runtime)
        bill = image.read_file(client, runtime, sbom.RUNTIME_IN_IMAGE)
    return runtime, bill


def lay_out(target: Path, params: Params, candidate: Candidate, *, bill: str) -> None:
    """Fill the build context of the image of the candidate, on the image of its runtime, whose bill of materials is `bill`."""
    context.lay_out(target, Path(params.paths.candidates) / candidate.name, candidate, settings(params, candidate), bill=bill)


def _build_runtime(client: Any, layers: RuntimeLayers, base: Any, name: str) -> Any:
    with tempfile.TemporaryDirectory() as scratch:
        layers.lay_out(Path(scratch), debian=image.read_file(client, base.id, _DEBIAN))
        print(f"building the layers of {layers.runtime.name} on {name}")
        return image.build(client, Path(scratch), base_image=name, labels={})


def require_same(client: Any, params: Params, candidate: Candidate, receipt: Mapping[str, Any], *, proven_with: Mapping[str, str]) -> None:
    """Build the image again, and raise BadInput unless that of the receipt is the same and not too large."""
    image.require_exists(client, receipt)
    base, expected = build(client, params, candidate, labels=receipt["labels"], proven_with=proven_with, anew=True)
    try:
        image.require_built(client, receipt, base=base, expected=expected)
    finally:
        if expected.id != receipt["image_id"] and not expected.tags:
            client.images.remove(expected.id, force=True, noprune=True)
    for check in checks(int(expected.attrs["Size"]), params.package.max_image_bytes):
        if not check.passed:
            raise BadInput(f"the image misses a limit of package ({check}): run `paddleship run --again package`")


def checks(size: int, limit: int) -> list[Check]:
    advice = f"raise package.max_image_bytes to at least {size}, or inspect the layers with `docker history`"
    return [Check.at_most("image_bytes", size, limit, advice=advice)]

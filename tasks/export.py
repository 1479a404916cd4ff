"""export: the checkpoint as a static program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from paddleship.config.catalogue import PROGRAM
from paddleship.config.params import Params
from paddleship.conversion import exporting, shape_buckets
from paddleship.data import dataset
from paddleship.lineage import sources
from paddleship.model import classes
from paddleship.model.eager import Subject
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.common.candidate import Candidate
from paddleship.shipped.common.files import new_folder
from paddleship.shipped.common.preprocess import Preprocess
from paddleship.shipped.common.spec import Dimension, TensorSpec, batch_dimension, sizes_of
from tasks.stage import main


def export(params: Params) -> Report:
    """Convert the trained model with `to_static` (full graph, dynamic dimensions) and save it as the first candidate."""
    prepared, folder = Path(params.paths.prepared), Path(params.paths.exported)
    preprocess, config, specs = dataset.read_preprocess(prepared)
    dimensions = dataset.read_dimensions(prepared)
    examples = dataset.encode(
        preprocess, dataset.read(prepared, "validation").take(range(min(64, len(dataset.read(prepared, "validation")))))
    )
    probes = exporting.probe_batches(preprocess.collate, examples)
    with new_folder(folder) as beside:
        base = Candidate(
            name=PROGRAM,
            model=params.name,
            runtime="paddle",
            precision="float32",
            threads=params.optimize.threads,
            inputs=specs,
            outputs=(),
            preprocess=config,
            weights_sha256="",
            task=params.data.task,
            code_sha256=sources.code_sha256(params.code),
            library_sha256=sources.library_sha256(),
            classes=tuple(params.data.classes),
            max_batch=params.verify.max_batch,
            dimensions=dimensions,
            options={"onednn": False},
        )
        candidate, findings = exporting.export(
            Subject.of(params),
            beside,
            base,
            probes=probes,
            timeout_s=params.optimize.timeout_s,
            sizes=partial(_sizes, params, preprocess, specs, dimensions),
            skip=params.export.skip,
        )
    size = sum((folder / name).stat().st_size for name in candidate.files)
    inputs = ", ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in candidate.inputs)
    outputs = ", ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in candidate.outputs)
    return Report(
        stage="export",
        headline=f"{inputs} → {outputs}, {size / 1e6:.1f} MB",
        metrics={"program_bytes": size, "outputs": len(candidate.outputs), "programs": max(1, len(candidate.programs))},
        verdict=Verdict(checks=[Check.at_least("programs", max(1, len(candidate.programs)), 1)]),
        facts={
            "inputs": inputs,
            "outputs": outputs,
            "weights_sha256": candidate.weights_sha256,
        },
        findings=[*findings, *classes.unlabelled(candidate)],
    )


def _sizes(params: Params, preprocess: Preprocess, specs: Sequence[TensorSpec], dimensions: Sequence[Dimension]) -> dict[str, list[int]]:
    """Sizes that every dynamic dimension may be fixed to: those of export.buckets, or what the data shows and the largest allowed."""
    rows = [dataset.read(Path(params.paths.prepared), split) for split in dataset.SPLITS]
    batches = [preprocess.collate([example]) for part in rows for example in dataset.encode(preprocess, part)]
    found = {str(batch_dimension(specs)): [1, params.verify.max_batch]}
    seen = [sizes_of(specs, batch) for batch in batches]
    for rule in dimensions:
        largest = [] if rule.high is None else [rule.high]
        found[rule.name] = sorted({*shape_buckets.buckets([sizes[rule.name] for sizes in seen]), *largest})
    return found | params.export.buckets


if __name__ == "__main__":
    main(export)

"""export: the checkpoint as a static program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from paddleship.config import watched
from paddleship.config.catalogue import PROGRAM
from paddleship.config.params import Params
from paddleship.config.sections import answer
from paddleship.conversion import exporting, shape_buckets
from paddleship.custody import chain, libraries, sources
from paddleship.data import dataset, profile
from paddleship.data.task_kinds import class_scores
from paddleship.model.eager import SourceModel
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.candidate import Candidate, Program
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Preprocess
from paddleship.shipped.computing.spec import Dimension, TensorSpec, batch_dimension, sizes_of
from paddleship.stage.frame import main


def export(params: Params) -> Report:
    """Convert the trained model with `to_static` (full graph, dynamic dimensions) and save it as the first candidate."""
    watched.require(params, "answer.own")
    prepared, folder = Path(params.paths.prepared), Path(params.paths.exported)
    begun = chain.begin(params, "export", versions=libraries.versions())
    preprocess, config, specs = dataset.read_preprocess(prepared)
    dimensions = dataset.read_dimensions(prepared)
    examples = dataset.encode(
        preprocess, dataset.read(prepared, "validation").take(range(min(64, len(dataset.read(prepared, "validation")))))
    )
    probes = exporting.probe_batches(preprocess.collate, examples)
    row_sizes = cache(partial(_row_sizes, params, preprocess, specs))
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
            classes=tuple(params.data.class_names),
            answer=answer.stored(params.answer),
            max_batch=params.verify.max_batch,
            dimensions=dimensions,
            options={"onednn": False},
            profile=profile.read(prepared),
        )
        candidate, findings = exporting.export(
            SourceModel.of(params),
            beside,
            base,
            probes=probes,
            timeout_s=params.optimize.timeout_s,
            sizes=lambda: _sizes(params, row_sizes(), specs, dimensions),
            skip=params.export.skip,
        )
        begun.seal(beside)
    rows = row_sizes() if candidate.programs else []
    size = sum((folder / name).stat().st_size for name in candidate.files)
    inputs = ", ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in candidate.inputs)
    outputs = ", ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in candidate.outputs)
    return Report(
        stage="export",
        headline=f"{inputs} → {outputs}, {size / 1e6:.3g} MB",
        metrics={"program_bytes": size, "outputs": len(candidate.outputs), "programs": max(1, len(candidate.programs))},
        verdict=Verdict(checks=checks(candidate.programs, rows)),
        facts={
            "inputs": inputs,
            "outputs": outputs,
            "weights_sha256": candidate.weights_sha256,
            "code_sha256": candidate.code_sha256,
        },
        findings=[*findings, *class_scores.unlabelled(candidate)],
    )


def _sizes(
    params: Params, seen: Sequence[Mapping[str, int]], specs: Sequence[TensorSpec], dimensions: Sequence[Dimension]
) -> dict[str, list[int]]:
    """Sizes to which every dynamic dimension may be fixed: those of export.buckets, or those `seen` in rows, and the largest allowed."""
    allowed = {str(batch_dimension(specs)): [1, params.verify.max_batch]}
    for rule in dimensions:
        largest = [] if rule.high is None else [rule.high]
        allowed[rule.name] = sorted({*shape_buckets.buckets([sizes[rule.name] for sizes in seen]), *largest})
    return allowed | params.export.buckets


def _row_sizes(params: Params, preprocess: Preprocess, specs: Sequence[TensorSpec]) -> list[dict[str, int]]:
    """The sizes of the dynamic dimensions of every prepared row, alone in its batch."""
    parts = [dataset.read(Path(params.paths.prepared), split) for split in dataset.SPLITS]
    return [sizes_of(specs, preprocess.collate([example])) for part in parts for example in dataset.encode(preprocess, part)]


def checks(programs: Sequence[Program], rows: Sequence[Mapping[str, int]]) -> list[Check]:
    """Every row must fit into a program; a single program without fixed sizes takes all rows."""
    large = [sizes for sizes in rows if not any(all(sizes[name] <= size for name, size in program.sizes.items()) for program in programs)]
    advice = f"the sizes {dict(large[0])} exceed export.buckets: enlarge them, or remove them to take the data's" if large else ""
    return [Check.at_most("rows_without_program", len(large), 0, advice=advice)]


if __name__ == "__main__":
    main(export)

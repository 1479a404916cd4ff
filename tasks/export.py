"""export: the checkpoint as a static program."""

from __future__ import annotations

from pathlib import Path

from paddleship import dataset, exporting, isolate, runtimes
from paddleship.candidate import Candidate
from paddleship.eager import Subject
from paddleship.files import new_folder
from paddleship.params import Params
from paddleship.report import Report
from paddleship.verdict import Check, Verdict
from tasks.stage import main


def export(params: Params) -> Report:
    """Convert the trained model with `to_static` (full graph, dynamic dimensions) and save it as the first candidate."""
    prepared, folder = Path(params.paths.prepared), Path(params.paths.exported)
    preprocess, config, specs = dataset.read_preprocess(prepared)
    examples = dataset.encode(
        preprocess, dataset.read(prepared, "validation").take(range(min(64, len(dataset.read(prepared, "validation")))))
    )
    probes = exporting.probe_batches(preprocess.collate, examples)
    with new_folder(folder) as beside:
        base = Candidate(
            name="paddle",
            model=params.name,
            runtime="paddle",
            precision="float32",
            threads=params.optimize.threads,
            inputs=specs,
            outputs=(),
            preprocess=config,
            weights_sha256="",
            task=params.data.task,
            classes=tuple(params.data.classes),
            options={"onednn": False},
        )
        candidate = exporting.export(Subject.of(params), beside, base, probes=probes, timeout_s=params.verify.timeout_s)
        with isolate.Isolated("the exported program", runtimes.load, beside, timeout_s=params.optimize.timeout_s) as program:
            answers = [program.call("run", probe) for probe in probes]
    size = sum((folder / name).stat().st_size for name in candidate.files)
    right = sum(len(answer) == len(candidate.outputs) for answer in answers)
    inputs = ", ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in candidate.inputs)
    outputs = ", ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in candidate.outputs)
    return Report(
        stage="export",
        headline=f"{inputs} → {outputs}, {size / 1e6:.1f} MB",
        metrics={"program_bytes": size, "outputs": len(candidate.outputs)},
        verdict=Verdict(
            checks=[
                Check.at_least("answered_probes", right, len(probes), advice="the saved program does not run on batches that eager answers")
            ]
        ),
        facts={"inputs": inputs, "outputs": outputs, "weights_sha256": candidate.weights_sha256},
    )


if __name__ == "__main__":
    main(export)

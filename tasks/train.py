"""train: train the eager model, or import its weights, and save a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paddleship.config import watched
from paddleship.config.params import Params
from paddleship.config.sections.train import Train
from paddleship.custody import chain
from paddleship.data import dataset
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import UntrainedOutput
from paddleship.model import augmentation, building, device, recorded_answers, sources, training
from paddleship.model.eager import Eager, SourceModel
from paddleship.model.weight_source import Obtained, Setup
from paddleship.numerics import differences
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.scoring import scored
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Preprocess
from paddleship.shipped.computing.spec import Arrays
from paddleship.stage.frame import main
from paddleship.system import isolate
from paddleship.tracking.live import live_metrics

_PROBED = 8  # rows that the model answers before and after training
_ROUND_TRIP = 1e-5  # of the size of an output: the same kernels in another process
_ROUND_TRIP_ADVICE = (
    "a fresh model with the saved weights answers differently: a layer kept in a plain list is not saved, "
    "or forward draws random numbers in evaluation mode"
)


def train(params: Params) -> Report:
    """Train the eager model, or import its weights, and save them as safetensors."""
    import paddle

    watched.require(params, "model.factory", "train.loss", "train.source.own", "train.augment")
    begun = chain.begin(params, "train")
    trained_on = device.use(params.train)
    paddle.seed(params.seed)
    preprocess, _, _ = dataset.read_preprocess(Path(params.paths.prepared))
    parts = {name: dataset.read(Path(params.paths.prepared), name) for name in dataset.SPLITS}
    splits = {name: training.Split(dataset.encode(preprocess, rows), rows.labels) for name, rows in parts.items()}
    if params.train.augment is not None:
        changed = augmentation.by_epoch(params.train.augment, preprocess, parts["train"].columns, seed=params.seed)
        splits["train"] = replace(splits["train"], by_epoch=changed)
    source = sources.of(params.train)
    layer = source.build(params)
    form = building.form(layer, params.model)
    task = training.make_task(params.data.task, params.train, labels=splits["train"].labels, classes=params.data.class_names)
    print(f"{type(layer).__name__}: {sum(parameter.size for parameter in layer.parameters()):,} parameters, {len(parts['train']):,} rows")

    check = task.kind.check_output if splits["test"].labelled or params.data.class_names else None
    findings = check(_untrained_output(layer, splits, preprocess, params, form=form, task=task)) if check else []

    log = live_metrics()
    kept = Path(f"{params.paths.checkpoint}.unfinished")
    setup = Setup(params, layer, form, preprocess, splits, task, on_epoch=log or (lambda *_: None), folder=kept / begun.key[:16])
    obtained = source.obtain(setup)
    _write_history(Path(params.paths.reports) / "train" / "history.json", obtained.history)
    if not all(check.passed for check in obtained.checks):
        return _refused(obtained)

    validated, tested = (
        training.evaluate(layer, splits[part], preprocess, form=form, task=task, batch_size=params.train.batch_size)
        for part in ("validation", "test")
    )
    labelled = splits["test"].labelled
    scores = {"validation": validated.score, "test": tested.score} if labelled else {}
    facts = {"factory": params.model.factory, "kwargs": params.model.kwargs, **obtained.facts, "scores": scores}
    with new_folder(Path(params.paths.checkpoint)) as beside:
        building.write(layer, beside, facts)
        for name, text in obtained.files.items():
            (beside / name).write_text(text, encoding="utf-8")
        if not labelled:
            recorded_answers.write({"validation": validated.outputs, "test": tested.outputs}, beside)
        begun.seal(beside)
    shutil.rmtree(kept, ignore_errors=True)
    sample = preprocess.collate(splits["validation"].examples[:_PROBED])
    trained = {name: tensor.numpy() for name, tensor in training.ask(layer, sample, form).items()}
    with isolate.Isolated("the model from its checkpoint", Eager, SourceModel.of(params), timeout_s=params.verify.timeout_s) as restored:
        answers = restored.call("run", sample)

    checks = [
        *obtained.checks,
        check_round_trip(trained, answers),
        *check_score(validated.score, task.kind.score.name, params.train, advice=obtained.advice),
    ]
    judged = scored.judge(
        task.kind,
        {"validation": validated, "test": tested},
        preprocess=preprocess,
        rows=parts,
        splits=splits,
        classes=params.data.class_names,
        reports=Path(params.paths.reports),
    )
    return Report(
        stage="train",
        headline=f"{judged.headline} {obtained.origin}",
        metrics={
            **judged.metrics,
            **obtained.metrics,
            "parameters": int(sum(parameter.size for parameter in layer.parameters())),
        },
        verdict=Verdict(checks=checks),
        findings=[*findings, *obtained.findings, *judged.findings],
        facts={**_history(obtained), "device": trained_on, "score_code": task_kinds.score_code(params.data.task), **judged.facts},
        pictures=[*judged.pictures],
    )


def check_round_trip(trained: Arrays, restored: Arrays) -> Check:
    """Check that the model restored from its checkpoint answers as the trained one: largest difference in units of each output's size."""
    return Check.at_most("round_trip_max_rel_diff", differences.worst_relative(restored, trained), _ROUND_TRIP, advice=_ROUND_TRIP_ADVICE)


def check_score(score: float, name: str, settings: Train, *, advice: str) -> list[Check]:
    """Check that the weights reach train.min_score on the validation rows, if that is given."""
    if settings.min_score is None:
        return []
    return [Check.at_least(f"validation_{name}", score, settings.min_score, advice=advice)]


def _untrained_output(
    layer: Any, splits: Mapping[str, training.Split], preprocess: Preprocess, params: Params, *, form: ArgumentForm, task: training.Task
) -> UntrainedOutput:
    """The first output of the untrained model for a few rows."""
    import paddle

    rows = splits["validation"].examples[:_PROBED]
    state = paddle.get_rng_state()
    layer.eval()
    batch = preprocess.collate(rows)
    outputs = training.ask(layer, batch, form)
    paddle.set_rng_state(state)
    name, first = next(iter(outputs.items()))
    labels = [split.labels for split in splits.values() if split.labelled]
    width = preprocess.width(batch) if task.kind.per_position else 0
    own_loss = params.train.loss is not None
    return UntrainedOutput(name, list(first.shape), len(rows), params.data.class_names, labels, own_loss=own_loss, positions=width)


def _refused(obtained: Obtained) -> Report:
    return Report(stage="train", headline=obtained.headline, verdict=Verdict(checks=[*obtained.checks]), facts=_history(obtained))


def _history(obtained: Obtained) -> dict[str, Any]:
    return {"history": [*obtained.history]}


def _write_history(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Write the curve for `dvc plots`; an empty list if nothing was trained."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([{"epoch": index + 1, **row} for index, row in enumerate(history)], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(train)

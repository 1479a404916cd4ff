"""params.yaml as a whole: the list of its sections, and the rules between sections.

What a value means and its default are in the module of its section. Reading a file is in config/loading.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from paddleship.config.sections.accept import Accept
from paddleship.config.sections.answer import Answer, stored
from paddleship.config.sections.benchmark import Benchmark
from paddleship.config.sections.code import Code
from paddleship.config.sections.data import ClassFile, Data
from paddleship.config.sections.drift import Drift
from paddleship.config.sections.export import Export
from paddleship.config.sections.graph_modes import GraphModes
from paddleship.config.sections.model import Model
from paddleship.config.sections.notify import Notify
from paddleship.config.sections.optimize import Optimize
from paddleship.config.sections.package import Package
from paddleship.config.sections.paths import Paths
from paddleship.config.sections.preprocess import Preprocess
from paddleship.config.sections.promote import Promote
from paddleship.config.sections.section import Section
from paddleship.config.sections.select import Select
from paddleship.config.sections.sweep import Sweep
from paddleship.config.sections.train import ExportedFile, Train
from paddleship.config.sections.verify import Verify
from paddleship.config.validation_errors import whole, written_as
from paddleship.shipped.computing.answers import registry as answers
from paddleship.shipped.computing.preprocess import registry
from paddleship.shipped.computing.spec import batch_dimension
from paddleship.shipped.computing.task_kinds import registry as decisions


class Params(Section):
    """The whole of params.yaml: a section for each stage, for what stages share, and for each command beside them."""

    name: Annotated[
        str,
        written_as(r"[a-z][a-z0-9-]*", "lower-case letters, digits and hyphens, beginning with a letter"),
        Field(description="name of the model, the image and the MLflow experiment"),
    ]
    seed: int = Field(0, description="of the split, the weights and the order of rows")
    code: Code = Field(description="your code")
    paths: Paths = Field(Paths(), description="where the stages write, inside the checkout")
    data: Data = Field(description="the data, and how it is read and split")
    preprocess: Preprocess = Field(Preprocess(), description="how a raw row becomes the model's inputs")
    model: Model = Field(description="your model and its inputs")
    answer: Answer = Field("label", description="what a client gets for each row beside the outputs; label: the name of its class")
    train: Train = Field(Train(), description="the stage train")
    export: Export = Field(Export(), description="the stage export")
    optimize: Optimize = Field(Optimize(), description="the stage optimize")
    verify: Verify = Field(Verify(), description="the stage verify")
    benchmark: Benchmark = Field(Benchmark(), description="the stage benchmark")
    select: Select = Field(Select(), description="how the winner of the benchmark is chosen")
    package: Package = Field(description="the stage package")
    accept: Accept = Field(Accept(), description="the stage accept")
    promote: Promote = Field(Promote(), description="paddleship promote and rollback; no stage reads it")
    sweep: Sweep = Field(Sweep(), description="paddleship sweep; no stage reads it")
    drift: Drift = Field(Drift(), description="paddleship drift; no stage reads it")
    notify: Notify = Field(Notify(), description="notifications of the Prefect server; no stage reads it")
    graph_modes: GraphModes = Field(GraphModes(), description="the flow compare-graph-modes; no stage reads it")

    def flat(self) -> dict[str, Any]:
        """Every value as `section.key`, and every one of a mapping there as `section.key.name`; the types are those of JSON."""
        return _unfolded(_unfolded(self.model_dump(mode="json")))

    @classmethod
    def overlay_base(cls, values: Mapping[str, Any], overlay: Mapping[str, Any]) -> Mapping[str, Any]:
        """An exported file is a model without a class, so the class of the params below it does not count."""
        source = (overlay.get("train") or {}).get("source")
        if not isinstance(source, Mapping) or "exported" not in source or "model" not in values:
            return values
        return {**values, "model": {key: value for key, value in values["model"].items() if key not in ("factory", "kwargs", "absent")}}

    @model_validator(mode="after")
    def _one_model(self) -> Params:
        if not isinstance(self.train.source, ExportedFile):
            if self.model.factory is None:
                raise whole("model.factory is missing: add it")
        elif self.model.factory is not None or self.model.kwargs or self.model.absent:
            what = f"model.factory {self.model.factory!r}" if self.model.factory else "model.kwargs and model.absent"
            raise whole(f"train.source.exported is a whole model, so {what} must be left out: remove it, or take the weights by checkpoint")
        return self

    @model_validator(mode="after")
    def _class_file_watched(self) -> Params:
        if isinstance(self.data.classes, ClassFile):
            file = Path(self.data.classes.file).absolute()  # not resolved: DVC may make links into its cache
            if not any(file.is_relative_to(Path(folder).absolute()) for folder in (self.data.raw, self.code.watch)):
                raise whole(
                    f"data.classes.file {self.data.classes.file!r} is neither below data.raw ({self.data.raw!r}) nor below code.watch "
                    f"({self.code.watch!r}): its changes would make no stage run again; move it to one of them"
                )
        return self

    @model_validator(mode="after")
    def _answer_of_the_task(self) -> Params:
        if not (settings := stored(self.answer)):
            return self
        kind, task = answers.of(settings), decisions.get(self.data.task)
        if task.reads and settings.get("scores", task.reads) != task.reads:
            raise whole(
                f"answer.scores is {settings['scores']}, and data.task {task.name} reads {task.reads}: set answer.scores to {task.reads}, "
                "or data.task to the kind that the output of the model is"
            )
        if kind.any_task or kind.name in task.scored:
            return self
        tasks = ", ".join(name for name, one in decisions.ours().items() if kind.name in one.registration.scored)
        raise whole(f"answer.{kind.name} is for {tasks} (data.task is {self.data.task}): use answer.own, or remove it")

    @model_validator(mode="after")
    def _batch_first(self) -> Params:
        firsts = [item.shape[0] if item.shape else None for item in self.model.inputs]
        batch = batch_dimension([item.spec() for item in self.model.inputs])
        if batch is None or set(firsts) != {batch}:
            raise whole(
                f"the first dimension of every input must be the same dynamic dimension, such as 'batch', and no other (got {firsts})"
            )
        return self

    @model_validator(mode="after")
    def _buckets_of_dimensions(self) -> Params:
        known = list(dict.fromkeys(size for item in self.model.inputs for size in item.shape if isinstance(size, str)))
        if strange := [name for name in self.export.buckets if name not in known]:
            raise whole(f"export.buckets must name dynamic dimensions of model.inputs (got {strange[0]!r}): they have {', '.join(known)}")
        return self

    @model_validator(mode="after")
    def _labels_where_needed(self) -> Params:
        if self.data.label is not None:
            return self
        source = self.train.source
        needing = {
            "data.task": (self.data.task if decisions.get(self.data.task).per_position else None, "choose another task"),
            "train.source": (source if source == "loop" else getattr(source, "own", None), "take weights from a file"),
            "train.min_score": (self.train.min_score, "set it to null"),
            "verify.training": (self.verify.training or None, "set it to false"),
        }
        for key, (value, instead) in needing.items():
            if value is not None:
                raise whole(f"{key} needs labels, and data.label is null (got {value}): {instead}, or name the column of the labels")
        return self

    @model_validator(mode="after")
    def _grpc_port_of_an_image_with_grpc(self) -> Params:
        target = self.promote.target
        if target is not None and target.grpc_port is not None and "grpc" not in self.package.transports:
            raise whole(
                f"promote.target.grpc_port needs images that serve gRPC (package.transports is {self.package.transports}): "
                "add grpc there, or set it to null"
            )
        return self

    @model_validator(mode="after")
    def _kinds_set_their_sizes(self) -> Params:
        for item in self.model.inputs:
            kind = self.preprocess.entries.get(item.name, {}).get("kind")
            sized_by = registry.get(kind).encoder.sized_by if kind else ()
            if sized_by and (twice := [name for name in self.model.dimensions if name in item.shape]):
                above = f"preprocess.inputs.{item.name}." if self.preprocess.inputs else "preprocess."
                raise whole(
                    f"model.dimensions must leave out the dimensions of {item.name!r} (got {', '.join(twice)}): "
                    f"{' and '.join(above + name for name in sized_by)} are its sizes"
                )
        return self


def _unfolded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with those of each mapping under keys of their own; an empty mapping stays."""
    flat: dict[str, Any] = {}
    for key, item in values.items():
        flat |= {f"{key}.{name}": inner for name, inner in item.items()} if isinstance(item, dict) and item else {key: item}
    return flat

"""The section `train`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from paddleship.config.sections.section import Fraction, Positive, Reference, Section, by_form
from paddleship.config.validation_errors import whole, written_as


class FileSource(Section):
    """A source that takes weights from files."""

    @property
    @abstractmethod
    def paths(self) -> Mapping[str, str]:
        """The paths that it reads, by their keys in the params."""


class CheckpointFile(FileSource):
    checkpoint: str = Field(description="a .pdparams, a .safetensors, or a folder that train wrote; nothing is trained")
    key: str | None = Field(None, description="the set of weights to take, if the file holds several that fit, such as model or ema")

    @property
    def paths(self) -> Mapping[str, str]:
        return {"train.source.checkpoint": self.checkpoint}


class ExportedFile(FileSource):
    exported: str = Field(
        description="a .json or .pdmodel of Paddle, or an .onnx file, which is the model: there is no factory, and nothing is trained"
    )
    parameters: str | None = Field(None, description="its .pdiparams; null: the file of that name beside it")

    @property
    def paths(self) -> Mapping[str, str]:
        parameters = {} if self.parameters is None else {"train.source.parameters": self.parameters}
        return {"train.source.exported": self.exported, **parameters}


class OwnTrainer(Section):
    own: Reference = Field(description="module:function, called with a job, that trains the model (docs/how-to/own-trainer.md)")
    kwargs: dict[str, Any] = Field({}, description="further arguments of the function, by name")


_SOURCES = "must be loop, {checkpoint: PATH}, {exported: PATH} or {own: module:function}"
_KINDS: dict[str, type[Section]] = {"checkpoint": CheckpointFile, "exported": ExportedFile, "own": OwnTrainer}

Source = Annotated[
    Annotated[Literal["loop"], Tag("loop")]
    | Annotated[CheckpointFile, Tag("checkpoint")]
    | Annotated[ExportedFile, Tag("exported")]
    | Annotated[OwnTrainer, Tag("own")],
    Discriminator(by_form("loop", _KINDS), custom_error_type="source", custom_error_message=_SOURCES),
]


class Augment(Section):
    flip: bool = Field(False, description="half of the pictures are mirrored left to right")
    crop: Fraction | None = Field(None, description="a part of each, enlarged to its size: least share of width and of height; null: none")
    rotate: Annotated[float, Field(gt=0, le=180)] | None = Field(None, description="most degrees, left or right; null: none")
    color: Fraction | None = Field(None, description="most change of brightness, contrast and saturation, as a share; null: none")


def _augment(value: Any) -> str | None:
    """Which form the value has; None if it has neither."""
    if value is None:
        return "none"
    return "own" if isinstance(value, str) else "built-in" if isinstance(value, Mapping | Augment) else None


Augmentation = Annotated[
    Annotated[None, Tag("none")] | Annotated[Augment, Tag("built-in")] | Annotated[Reference, Tag("own")],
    Discriminator(
        _augment, custom_error_type="augment", custom_error_message="must be null, {flip: true, crop: 0.8, …} or module:function"
    ),
]


class Train(Section):
    source: Source = Field(
        "loop",
        description=(
            "origin of the weights: loop trains them here, {own: module:function} is your trainer, {checkpoint: PATH} a file, "
            "{exported: PATH} an exported program"
        ),
    )
    epochs: Positive = Field(10, description="most passes over the training rows")
    batch_size: Positive = Field(64, description="rows of a training step")
    optimizer: Literal["adamw", "adam", "momentum", "sgd"] = Field("adamw", description="rule of the steps; momentum is SGD with 0.9")
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="step size of the optimizer")
    schedule: Literal["constant", "cosine", "linear", "step", "plateau"] = Field(
        "constant", description="course of the step size; cosine and linear end at 0, step and plateau reduce it"
    )
    schedule_every: Positive = Field(
        3, description="step: epochs between two reductions; plateau: evaluations without a better loss or score before one"
    )
    schedule_factor: Fraction = Field(0.1, description="what step and plateau multiply the step size by")
    warmup_epochs: Annotated[float, Field(ge=0)] = Field(0, description="epochs in which the step size rises from 0")
    clip_norm: Annotated[float, Field(gt=0)] | None = Field(None, description="largest norm of all gradients together; null: any")
    accumulate: Positive = Field(1, description="batches for one step; each counts as 1 / accumulate of it")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="weight decay of the optimizer; 0: none")
    best: Literal["loss", "score"] = Field("loss", description="what is best on the validation rows where weights are kept")
    patience: Positive = Field(3, description="evaluations without a better loss or score before training stops")
    evaluate_steps: Positive | None = Field(
        None, description="steps between two evaluations on the validation rows within an epoch; null: one at its end"
    )
    min_score: Annotated[float, Field(le=1)] | None = Field(None, description="gate: least validation accuracy (R² for a regression)")
    loss: Reference | None = Field(None, description="loss(outputs, labels); default by data.task")
    class_weights: Literal["none", "balanced"] | dict[str, Annotated[float, Field(gt=0)]] = Field(
        "none",
        description="weight of each class in the default loss: by name, or balanced: inverse to its share of the training rows",
    )
    augment: Augmentation = Field(
        None, description="changes of pictures in training only: built-in ones, or module:function of (picture, random); null: none"
    )
    device: Annotated[str, written_as(r"auto|cpu|gpu:\d+", "auto, cpu or gpu:NUMBER")] = Field(
        "auto", description="where training runs; auto: a GPU if Paddle has one"
    )
    amp: Literal[False, "bfloat16", "float16"] = Field(False, description="mixed precision of training, on a GPU only")

    @model_validator(mode="after")
    def _weights_of_the_default_loss(self) -> Train:
        if self.loss and self.class_weights != "none":
            raise whole(
                f"class_weights are for the default loss (got {self.class_weights!r} and loss {self.loss!r}): let that function weight "
                "classes, or remove one"
            )
        return self

    @property
    def limits_of_proof(self) -> str:
        """The end of a headline that says what the answers are compared with, if that is not a model that was trained here."""
        return f", as the exported file {self.source.exported}" if isinstance(self.source, ExportedFile) else ""

    @model_validator(mode="after")
    def _time_after_warmup(self) -> Train:
        if self.warmup_epochs >= self.epochs:
            raise whole(f"warmup_epochs must be below epochs (got {self.warmup_epochs:g} and {self.epochs}): lower it, or raise epochs")
        return self

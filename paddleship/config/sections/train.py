"""The section `train`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paddleship.config.sections.section import Positive, Reference, Section


class CheckpointFile(Section):
    checkpoint: str = Field(description="a .pdparams, a .safetensors, or a folder that train wrote; nothing is trained")
    key: str | None = Field(None, description="the set of weights to take, if the file holds several that fit, such as model or ema")


class Train(Section):
    source: Literal["loop"] | CheckpointFile = Field(
        "loop", description="where the weights come from: loop trains them; {checkpoint: PATH}"
    )
    epochs: Positive = Field(10, description="most passes over the training rows")
    batch_size: Positive = Field(64, description="rows of a training step")
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="step size of the optimizer")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="weight decay of the optimizer; 0: none")
    patience: Positive = Field(3, description="epochs without a better validation loss before training stops")
    min_score: Annotated[float, Field(le=1)] | None = Field(None, description="gate: least validation accuracy (R² for a regression)")
    loss: Reference | None = Field(None, description="loss(outputs, labels); default by data.task")

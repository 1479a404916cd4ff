"""The section `data`: the data, and how it is read and split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from paddleship.config.sections import class_file
from paddleship.config.sections.section import Fraction, Section, require_once
from paddleship.config.validation_errors import whole, written_as
from paddleship.shipped.computing.task_kinds import registry


def _registered(task: str) -> str:
    if task in registry.ours() or task in registry.found():  # entry points are not loaded without need
        return task
    names = [repr(name) for name in registry.found()]
    raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": f"{', '.join(names[:-1])} or {names[-1]}"})


_TASKS = "; ".join(f"{name}: {one.registration.labels}" for name, one in registry.ours().items())


class ClassFile(Section):
    file: str = Field(description="text file with the name of a class in each line, in the order of their ids")


def _form(classes: Any) -> str | None:
    """Which form the value has; None if it has neither."""
    if isinstance(classes, list):
        return "names"
    return "file" if isinstance(classes, ClassFile) or (isinstance(classes, Mapping) and "file" in classes) else None


Classes = Annotated[
    Annotated[list[str], Tag("names")] | Annotated[ClassFile, Tag("file")],
    Discriminator(_form, custom_error_type="classes", custom_error_message="must be a list of names, or {file: PATH}"),
]


class Data(Section):
    fetch: dict[str, str] = Field({}, description="name: script that downloads the raw data; empty if the data is already there")
    raw: str = Field(description="file or folder passed to the reader")
    reader: Annotated[
        str,
        written_as(
            r"csv|jsonl|parquet|pictures|[A-Za-z_][\w.]*:[A-Za-z_]\w*",
            "csv, jsonl, parquet, pictures or module:function, such as my_data:read",
        ),
    ] = Field(
        description="module:function that yields rows, or the form of files that are read without one: csv, jsonl, parquet or pictures"
    )
    kwargs: dict[str, Any] = Field({}, description="further arguments of the reader, by name")
    inputs: Annotated[list[str], Field(min_length=1, description="input columns; rows with equal values in all of them are repeats")]
    label: str | None = Field(
        "label",
        description="column of the answers; null: the rows have none, so nothing is trained or scored, and weights come from a file",
    )
    task: Annotated[str, AfterValidator(_registered)] = Field(description=f"{_TASKS}; or a kind of an installed package")
    classes: Classes = Field([], description="names of the classes in the order of their ids, or {file: PATH} of a file with one a line")
    validation: Fraction = Field(0.1, description="share of the rows that chooses the best epoch")
    test: Fraction = Field(0.1, description="share of the rows that the score is measured on")
    unusable_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.02, description="share of raw rows that may lack a value, or contradict another row's label, before there is a warning"
    )
    near_repeat_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.02, description="share of held-out rows that may nearly repeat a training row before there is a warning"
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a row must have."""
        return (*self.inputs, self.label) if self.label is not None else (*self.inputs,)

    @property
    def class_names(self) -> list[str]:
        """The names of the classes, also where a file has them. Raises ParamsError."""
        return class_file.read(self.classes.file) if isinstance(self.classes, ClassFile) else self.classes

    def rooted(self, root: Path) -> Data:
        """The section for a process whose working directory is not the checkout `root`."""
        if not isinstance(self.classes, ClassFile):
            return self
        return self.model_copy(update={"classes": ClassFile(file=str(root / self.classes.file))})

    @model_validator(mode="after")
    def _rows_to_train_on(self) -> Data:
        if self.validation + self.test >= 1:
            raise whole(
                f"validation and test must leave rows to train on (got {self.validation:g} and {self.test:g}): reduce their sum below 1"
            )
        return self

    @model_validator(mode="after")
    def _columns_once(self) -> Data:
        require_once(self.inputs, "inputs")
        if isinstance(self.classes, list):
            require_once(self.classes, "classes")
        return self

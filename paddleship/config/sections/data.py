"""The section `data`: the data, and how it is read and split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from paddleship.config import class_file
from paddleship.config.sections.section import Fraction, Reference, Section, require_once
from paddleship.config.validation_errors import whole, written_as
from paddleship.shipped.computing.task_kinds import registry
from paddleship.shipped.computing.task_kinds.registration import Decision, functions_of, with_functions

_REFERENCE: TypeAdapter[str] = TypeAdapter(Reference)


def _named(task: Any) -> Any:
    """The name of a task with the functions that a mapping names."""
    if not isinstance(task, Mapping):
        return task
    parts, known = {*map(str, task)}, [one.registration for one in registry.ours().values() if one.registration.functions]
    for decision in known:
        if parts <= decision.functions.keys() and {part for part, needed in decision.functions.items() if needed} <= parts:
            references = {str(part): _REFERENCE.validate_python(value) for part, value in task.items()}
            return with_functions(decision.name, references)
    raise whole(f"must be the name of a task, or {' or '.join(map(_form_of, known))} (got {dict(task)!r})")


def _form_of(decision: Decision) -> str:
    parts = (f"{part}: module:function" for part in decision.functions)
    optional = [part for part, needed in decision.functions.items() if not needed]
    return f"{{{', '.join(parts)}}}, without {' or '.join(optional)} if there is none"


def _registered(name: str) -> str:
    task, functions = functions_of(name)
    if not functions and task in registry.ours() and (decision := registry.get(task)).functions:
        raise whole(f"{task} needs the functions of the task: write {_form_of(decision)} (got {task!r})")
    if task in registry.ours() or task in registry.found():  # entry points are not loaded without need
        return name
    names = [repr(name) for name, one in registry.found().items() if name not in registry.ours() or not one.registration.functions]
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
    task: Annotated[str, BeforeValidator(_named), AfterValidator(_registered)] = Field(
        description=f"{_TASKS}; or a kind of an installed package"
    )
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
    def functions(self) -> dict[str, str]:
        """The functions of the user that `task` names, by what they are."""
        return functions_of(self.task)[1]

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

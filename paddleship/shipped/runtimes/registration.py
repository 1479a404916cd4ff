"""What a runtime says of itself, once, in its own file: here or in a package of the user's (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from paddleship.errors import RegistrationError
from paddleship.shipped.common.candidate import Candidate

Source = Literal["program", "eager", "onnx"]
PRUNED = "float32-2:4"  # float32 that promises decisions, not digits, since half of the weights are zero
PRECISIONS = ("float32", "bfloat16", "float16", "int8", PRUNED)
OTHER_WEIGHTS = frozenset({"int8", PRUNED})  # precisions whose weights are not the checkpoint's, by intention


@dataclass(frozen=True)
class Kind:
    """What a candidate of one name is. References are `module:function`, imported where they are called and never in the image.

    `packages` are the modules that must be importable to make and run it, and the `extra` of paddleship brings them where the base
    installation does not. `gpu` where it runs on one: such a candidate is tried by default with Paddle's GPU build alone.
    `not_by_default` says why a candidate is tried only where it is named.

    `maker(source, target, batches)` writes the files of the candidate into the folder `target`, in a process of its own; without one,
    the program's files are copied from `source`. It is given batches of real rows where it is `calibrated`. `change(layer, form,
    batches)` changes the eager model instead, which is then exported anew.

    `weights` overrides the reader of the runtime. `corrects_biases` where the maker moves biases on purpose. `per_shape` where the
    runtime prepares something for each new shape of its inputs, so that fewer shapes may be faster. `exact` where it computes
    with eager's own kernels, `examined` where the doctor tries it. `runtime` is filled in by the registry.
    """

    precision: str = "float32"
    options: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    extra: str = ""
    gpu: bool = False
    not_by_default: str = ""
    maker: str = ""
    calibrated: bool = False
    change: str = ""
    weights: str = ""
    corrects_biases: bool = False
    per_shape: bool = False
    exact: bool = False
    examined: bool = False
    runtime: str = ""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise RegistrationError(f"a candidate has the precision {self.precision!r}: use one of {', '.join(PRECISIONS)}")


@dataclass(frozen=True)
class Registration:
    """A runtime: what loads its candidates, what they are made from, and what their image needs.

    `load(folder, candidate)` returns an object with `run` (paddleship.shipped.runtimes.Runtime). `source` is what its candidates
    are made from: `program` is Paddle's exported program, `onnx` the same as ONNX, `eager` the model's own code. `requirements` are
    the pins (`name==version`) of all that the image needs beside the server, or the name of a file in docker/requirements.
    `distributions` are those whose version the answers or the latency depend on, beside those that are pinned here.

    `settings` are options and the values of each that tuning tries, the default first; `thread_settings` are those that
    matter only with several threads, `batch_settings` those that need a program whose batch is dynamic, and under which a row must
    have the same answer. `weights(folder)` reads the tensors of the program in `folder` by name; without it, the weights
    in the files are not compared with the checkpoint. `logs_passes` where the options `log_passes`, `without_passes` and
    `optimization_level` work, by which a wrong optimisation pass is found. `not_served` are patterns of files below
    site-packages that the image does not need, `system_libraries` files of the system that it does.
    """

    name: str
    load: Callable[[Path, Candidate], Any]
    candidates: Mapping[str, Kind]
    source: Source
    requirements: str | tuple[str, ...]
    distributions: tuple[str, ...] = ()
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    thread_settings: frozenset[str] = frozenset()
    batch_settings: frozenset[str] = frozenset()
    weights: str = ""
    logs_passes: bool = False
    not_served: tuple[str, ...] = ()
    system_libraries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise RegistrationError(f"the runtime {self.name!r} has the source {self.source!r}: use one of {', '.join(get_args(Source))}")
        if not self.candidates:
            raise RegistrationError(f"the runtime {self.name!r} names no candidate: give it one")
        if loose := [pin for pin in self.pins if "==" not in pin]:
            raise RegistrationError(f"the runtime {self.name!r} requires {loose[0]!r}: pin it, name==version")

    @property
    def pins(self) -> tuple[str, ...]:
        """The pins that are part of the registration; none where a file holds them."""
        return () if isinstance(self.requirements, str) else self.requirements

    def weights_reader(self, kind: Kind) -> str:
        """What reads the weights of a candidate; empty where nothing can."""
        return kind.weights or self.weights

"""The registration of a runtime, in the file of the runtime: here or in a user's package (docs/how-to/add-runtime.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from paddleship.errors import RegistrationError
from paddleship.shipped.computing.candidate import Candidate

Source = Literal["program", "eager", "onnx"]
PRUNED = "float32-2:4"  # float32 with half of the weights zero: judged by decisions, like a lower precision
PRECISIONS = ("float32", "tf32", "bfloat16", "float16", "int8", PRUNED)
OTHER_WEIGHTS = frozenset({"int8", PRUNED})  # precisions whose weights differ from the checkpoint on purpose


@dataclass(frozen=True)
class Kind:
    """The candidates of one name. References are `module:function`, imported when they are called and never in the image.

    `packages` are the modules that must be importable to make and run it; `extra` is the extra of paddleship that installs them.
    `unavailable()` returns why it cannot run on this machine, such as one without a GPU, with the next step; empty if it can.
    `gpu`: it computes on a GPU, which is in its price. `not_by_default` is the reason why it is tried only if it is named.

    `maker(source, target, batches)` writes the files of the candidate into the folder `target`, in a process of its own, and may return
    options to add to the candidate's, which the report shows; without a maker, the program's files are copied from `source`. A
    `calibrated` maker gets batches of real rows. `change(layer, form, batches)` changes the eager model instead, which is then exported
    again.

    `weights` overrides the runtime's reader of weights. `corrects_biases`: the maker changes biases on purpose. `per_shape`: the
    runtime prepares code for each new shape, so fewer shapes may be faster. `exact`: it computes with eager's own kernels.
    `examined`: the doctor tries it. The registry sets `runtime`.
    """

    precision: str = "float32"
    options: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    extra: str = ""
    gpu: bool = False
    unavailable: Callable[[], str] = lambda: ""
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
    """A runtime: how it loads candidates, what they are made from, and what their image needs.

    `load(folder, candidate)` returns an object with `run` (paddleship.shipped.computing.runtimes.Runtime). `source` is what the candidates
    are made from: `program` is Paddle's exported program, `onnx` the same as ONNX, `eager` the model's own code. `requirements` are
    the pins (`name==version`) of all packages that the image needs beside the server, or the name of a file in docker/requirements.
    `distributions` are further packages whose versions affect answers or latency.

    `settings` maps options to the values that tuning tries, the default first. `thread_settings` matter only with several threads.
    `batch_settings` need a program with a dynamic batch, and must not change an answer. `weights` is a reference to the function that
    reads the tensors of a program by name; without it, weights are not compared with the checkpoint. `logs_passes`: the options
    `log_passes`, `without_passes` and `optimization_level` work, which find a wrong optimisation pass. `not_served` are patterns of
    files below site-packages that the image does not need, `system_libraries` are system files that it needs. `any_thread`: one thread
    at a time may use a loaded candidate, and it need not always be the same one. `processor_flags` are those without which its library
    dies, by machine, as /proc/cpuinfo names them. `optional_libraries` are patterns of shared libraries below site-packages that a
    candidate maps only if its program and its GPU need them: `verify` records which, and the image can leave the others out.
    `release_preloaded` releases those that `load` loads in advance, whether they are needed or not. `unmodified` are patterns of files
    whose licence allows no change, so that an image has them byte for byte.
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
    any_thread: bool = False
    processor_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional_libraries: tuple[str, ...] = ()
    release_preloaded: Callable[[], None] | None = None
    unmodified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise RegistrationError(f"the runtime {self.name!r} has the source {self.source!r}: use one of {', '.join(get_args(Source))}")
        if not self.candidates:
            raise RegistrationError(f"the runtime {self.name!r} names no candidate: give it one")
        if loose := [pin for pin in self.pins if "==" not in pin]:
            raise RegistrationError(f"the runtime {self.name!r} requires {loose[0]!r}: pin it, name==version")

    @property
    def pins(self) -> tuple[str, ...]:
        """The pins in the registration; empty if a file holds them."""
        return () if isinstance(self.requirements, str) else self.requirements

    def weights_reader(self, kind: Kind) -> str:
        """The reference to the reader of a candidate's weights; empty if there is none."""
        return kind.weights or self.weights

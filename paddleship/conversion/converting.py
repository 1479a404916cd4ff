"""Make candidates of the exported program, or report why one cannot be made."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paddleship.conversion import bundle, calibration, no_pip, re_export, to_onnx, tuning
from paddleship.conversion.tuning import Trial
from paddleship.custody import libraries
from paddleship.errors import CandidateError, RegistrationError
from paddleship.image import distributions, requirements, sandbox
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import CODE, Candidate
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import resolve
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import Kind
from paddleship.system import isolate

Maker = Callable[[Path, Path, Sequence[Batch]], Mapping[str, str] | None]


@dataclass(frozen=True)
class ConversionResult:
    """The result for one candidate: made, or the reason why not, with the kind of that error (as in CandidateError).

    `settings` are its tuned settings, `trials` all values that were tried.
    """

    name: str
    runtime: str
    precision: str
    bytes: int = 0
    reason: str = ""
    kind: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    @property
    def made(self) -> bool:
        return not self.reason


class Converter:
    """Makes candidates of the program in `exported`; intermediate files that several of them need are made once, in `scratch`.

    Everything runs in child processes, and every candidate answers `probe` once in a process of its own. `batches` of real rows
    calibrate quantised candidates. `tune_seconds` are spent on the settings of each. `source_model` is the eager model, for candidates that
    are made from it. `requirements` is the folder with the packages of each image, which the code of `paddle-eager` may import.
    """

    def __init__(
        self,
        exported: Path,
        scratch: Path,
        *,
        threads: int,
        probe: Batch,
        timeout_s: float,
        batches: Sequence[Batch] = (),
        tune_seconds: float = 0,
        source_model: SourceModel | None = None,
        requirements: Path | None = None,
    ) -> None:
        self._exported, self._scratch = exported, scratch
        self._base = Candidate.load(exported, stage="export")
        self._parts = {program.folder: program.sizes for program in self._base.programs} or {".": {}}
        self._threads, self._probe, self._timeout_s, self._batches = threads, probe, timeout_s, batches
        self._tune_seconds, self._source_model, self._requirements = tune_seconds, source_model, requirements
        self._onnx: Path | CandidateError | None = None

    def make(self, name: str, target: Path) -> ConversionResult:
        """Make the candidate `name` in `target`; if it cannot be made, dies or hangs, the outcome has the reason."""
        made = plan(name, self._base, threads=self._threads)
        try:
            if why := registry.kinds()[name].unavailable():
                raise CandidateError(why)
            if self._requirements is not None:
                pins = requirements.of(registry.of(name), self._requirements)
                distributions.require_proven(distributions.pinned(pins), libraries.versions())
            with new_folder(target) as beside:
                filled, notes = self._fill(made, beside)
                made = planned = filled.save(beside)
                self._try(made, beside)
                asked = [{name: array[:1] for name, array in batch.items()} for batch in self._batches[: tuning.row_count(made)]]
                tuned = tuning.tune(beside, asked, seconds=self._tune_seconds, timeout_s=self._timeout_s)
                made = tuned.candidate.save(beside)
        except CandidateError as error:
            return ConversionResult(name, made.runtime, made.precision, reason=str(error), kind=error.kind)
        size = sum((target / file).stat().st_size for file in made.files)
        settings = {key: value for key, value in made.options.items() if planned.options.get(key) != value}
        return ConversionResult(
            name, made.runtime, made.precision, size, settings=settings | notes | {"threads": made.threads}, trials=tuned.trials
        )

    def _fill(self, made: Candidate, folder: Path) -> tuple[Candidate, dict[str, str]]:
        """Write the candidate's files into `folder`. Returns the candidate with its completed description, and the options of its maker."""
        task = f"the conversion to {made.name}"
        kind, runtime = registry.kinds()[made.name], registry.of(made.name)
        if (code := self._exported / CODE).is_dir():
            shutil.copytree(code, folder / CODE)
        if runtime.source == "eager":
            packer = bundle.Packer(self._eager("what ships is the eager model itself"))
            described = packer.describe(made)
            isolate.run(task, _run, packer, self._exported, folder, (), timeout_s=self._timeout_s)
            return described, {}
        source = self._exported if runtime.source == "program" else self._converted()
        notes = self._each(task, lambda sizes: self._maker(kind, sizes), source, folder, calibrated=kind.calibrated or bool(kind.change))
        return replace(made, options={**made.options, **notes}), notes

    def _eager(self, why: str) -> SourceModel:
        if self._source_model is None:
            raise CandidateError(f"{why}, which is not available here")
        return self._source_model

    def _converted(self) -> Path:
        """The program as ONNX, converted once, because two conversions may differ. Raises CandidateError, each time."""
        if self._onnx is None:
            folder = self._scratch / "onnx"
            folder.mkdir()
            try:
                self._each("the conversion to ONNX", lambda _: _to_onnx, self._exported, folder)
                self._onnx = folder
            except CandidateError as error:
                self._onnx = error
        if isinstance(self._onnx, CandidateError):
            raise self._onnx
        return self._onnx

    def _maker(self, kind: Kind, sizes: Mapping[str, int]) -> Maker:
        if not kind.change:
            maker: Maker = _resolve(kind.maker) if kind.maker else _copy
            return maker
        change, verb = _resolve(kind.change), kind.change.partition(":")[2]
        return re_export.ReExporter(self._eager(f"Paddle can {verb} only the eager model itself"), self._base.inputs, sizes, change, verb)

    def _each(
        self, task: str, maker_of: Callable[[Mapping[str, int]], Maker], source: Path, target: Path, *, calibrated: bool = False
    ) -> dict[str, str]:
        """Make every part of the program. Returns the options that the maker gives, in a program of several parts with the part's name."""
        notes: dict[str, str] = {}
        for part, sizes in self._parts.items():
            (target / part).mkdir(exist_ok=True)
            maker = maker_of(sizes)
            batches = calibration.fitting(self._batches, self._base.inputs, sizes) if calibrated else ()
            environment = isolate.threads(self._threads)
            folders = source / part, target / part
            made = isolate.run(task, _run, maker, *folders, batches, timeout_s=self._timeout_s, environment=environment)
            for key, text in (made or {}).items():
                notes[key] = f"{notes[key]}; {part}: {text}" if key in notes else text if part == "." else f"{part}: {text}"
        return notes

    def _try(self, made: Candidate, folder: Path) -> None:
        load: isolate.Factory = (runtimes.load, (folder,))
        runtime = registry.of(made.name)
        if runtime.source == "eager" and self._requirements is not None:
            load = sandbox.load, (folder, requirements.names(requirements.of(runtime, self._requirements)))
        environment = isolate.threads(self._threads)
        with isolate.Isolated(made.name, load[0], *load[1], timeout_s=self._timeout_s, environment=environment) as child:
            child.call("run", self._probe)


def convert(name: str, exported: Path, target: Path, *, threads: int, probe: Batch, timeout_s: float) -> ConversionResult:
    """Make one candidate in `target`, without shared files."""
    with tempfile.TemporaryDirectory() as scratch:
        return Converter(exported, Path(scratch), threads=threads, probe=probe, timeout_s=timeout_s).make(name, target)


def plan(name: str, base: Candidate, *, threads: int) -> Candidate:
    """The description of the candidate `name` of an exported program, before it is made."""
    kind = registry.kinds()[name]
    options = ({"opset": to_onnx.OPSET} if registry.of(name).source == "onnx" else {}) | dict(kind.options)
    return replace(base, name=name, runtime=kind.runtime, precision=kind.precision, threads=threads, options=options)


def _run(maker: Maker, source: Path, target: Path, batches: Sequence[Batch]) -> Mapping[str, str] | None:
    no_pip.forbid()
    return maker(source, target, batches)


def _to_onnx(source: Path, target: Path, _batches: Sequence[Batch]) -> None:
    to_onnx.convert(source, target)


def _copy(source: Path, target: Path, _batches: Sequence[Batch]) -> None:
    for path in source.glob("model.*"):
        shutil.copy(path, target)


def _resolve(reference: str) -> Any:
    return resolve(reference, key="a registration's maker", error=RegistrationError)

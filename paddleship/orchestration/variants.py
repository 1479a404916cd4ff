"""Run the variants of a sweep: each as `paddleship run` in a process of its own, or as a run of a deployment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from paddleship import errors
from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.errors import Cancelled, Unavailable
from paddleship.execution import measurement_lock
from paddleship.execution.stages import Until
from paddleship.orchestration import deployment
from paddleship.shipped.computing.files import write_text
from paddleship.sweep import space
from paddleship.sweep.variant import DONE, KILLED, Ended, Figures, Missed, Variant
from paddleship.tracking import runs
from paddleship.tracking.runs import Run

if TYPE_CHECKING:
    from prefect import State

_GRACE_S = 20  # for a cancelled run to report to MLflow
_PREFECTS_OWN = "PREFECT__"  # variables of the flow run that runs the sweep


@dataclass(frozen=True)
class Sweep:
    """What all variants of a sweep share. `overlay` is laid over params.yaml before a variant's values are."""

    name: str
    folder: Path
    checkout: Path
    values: Params
    overlay: dict[str, Any]
    commit: str
    tracking_uri: str
    parent: str | None

    @property
    def until(self) -> Until:
        return self.values.sweep.until

    def overlay_of(self, variant: Variant) -> dict[str, Any]:
        """What a variant lays over params.yaml."""
        shared = {key: value for key, value in self.overlay.items() if key != "sweep"}
        return loading.merge(shared, space.overlay(self.values, variant.values))

    def run_name(self, variant: Variant) -> str:
        return f"{variant.label} ({self.name} {variant.number})".replace("'", "")

    def file_of(self, variant: Variant, suffix: str) -> Path:
        return self.folder / f"{variant.number:03}.{suffix}"

    def write_overlay(self, variant: Variant) -> Path:
        """Write what a variant lays over params.yaml, for `paddleship run --params`."""
        path = self.file_of(variant, "yaml")
        write_text(path, yaml.safe_dump(self.overlay_of(variant), sort_keys=False, allow_unicode=True))
        return path

    def done(self, variant: Variant) -> Ended:
        """The end of a variant whose run passed, with its figures from MLflow; its run becomes a child of the sweep's."""
        try:
            run = runs.of_name(self.tracking_uri, self.values.name, self.run_name(variant))
            reports = runs.reports(self.tracking_uri, run) if run else []
            figures = Figures.of(reports, sweep=self.name)
            if run is None or figures is None:
                return Ended(
                    outcome=Unavailable.outcome, reason="MLflow has no figures of it: `paddleship deliver`, then run the sweep again"
                )
            self.link(run, variant)
        except Exception as error:  # MLflow's client raises many kinds
            message = " ".join(str(error).split())[:200]
            reason = f"MLflow at {self.tracking_uri} does not answer ({message}): start it, then run the sweep again"
            return Ended(outcome=Unavailable.outcome, reason=reason)
        findings = tuple(finding for report in reports for finding in report.serious())
        return Ended(outcome=DONE, flow_run=run.flow_run, figures=figures, findings=findings)

    def failed(self, variant: Variant, ended: Ended, *, since: datetime) -> Ended:
        """The end of a variant whose run did not pass, with its outcome and missed gates from MLflow, if the run got that far."""
        with suppress(Exception):  # MLflow's client raises many kinds, and the row is reported without it
            run = runs.of_name(self.tracking_uri, self.values.name, self.run_name(variant))
            if run and run.started >= since:
                self.link(run, variant)
                ended = ended.model_copy(update={"outcome": run.outcome, "flow_run": run.flow_run})
                ended = ended.model_copy(update={"missed": Missed.of(runs.reports(self.tracking_uri, run))})
        return ended

    def adopt(self, variant: Variant) -> None:
        """Make the run of a variant of an earlier command a child of this command's."""
        with suppress(Exception):  # MLflow's client raises many kinds, and the figures are known
            if run := runs.of_name(self.tracking_uri, self.values.name, self.run_name(variant)):
                self.link(run, variant)

    def link(self, run: Run, variant: Variant) -> None:
        runs.link_variant(self.tracking_uri, run, sweep=self.name, parent=self.parent, label=variant.label)


class Runner(Protocol):
    """Runs variants, several at the same time, each in a thread of the caller's."""

    def run(self, variant: Variant, *, say: Callable[[str], None], began: Callable[[str], None], register: bool = False) -> Ended:
        """Run a variant to its end; `began` gets the flow run that continues without this process."""

    def cancel(self) -> None:
        """End every variant that runs, and start no other one."""


@dataclass
class Processes:
    """Each variant as a command on this machine, which ends with this process, however that ends. While one measures, no other computes."""

    sweep: Sweep
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _cancelled: bool = False

    def run(
        self,
        variant: Variant,
        *,
        say: Callable[[str], None],
        began: Callable[[str], None],  # noqa: ARG002 it ends with this process
        register: bool = False,
    ) -> Ended:
        log, since = self.sweep.file_of(variant, "log"), datetime.now(UTC)
        say(f"started, log {log.relative_to(self.sweep.checkout)}")
        code = self._execute(self._command(variant, register=register), log)
        if code == 0:
            return self.sweep.done(variant)
        if self._cancelled:
            return Ended(outcome=Cancelled.outcome)
        return self.sweep.failed(variant, Ended(outcome=_outcome(code), reason=_reason(log)), since=since)

    def cancel(self) -> None:
        self._cancelled = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running:
                _signal(process, number)
            deadline = time.monotonic() + _GRACE_S
            while any(process.poll() is None for process in self._running) and time.monotonic() < deadline:
                time.sleep(0.1)

    def _command(self, variant: Variant, *, register: bool) -> list[str]:
        sweep = self.sweep
        command = ["paddleship.cli.main", "run", "--params", str(sweep.write_overlay(variant)), "--commit", sweep.commit]
        return [*command, "--until", sweep.until, "--name", sweep.run_name(variant), *([] if register else ["--no-register"])]

    def _execute(self, command: list[str], log: Path) -> int:
        """Run it in a process group that ends with this process. Returns its exit code."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PREFECTS_OWN)}
        environment |= {measurement_lock.VARIABLE: str(self.sweep.folder / "quiet.lock"), "COLUMNS": "200"}
        read_end, write_end = os.pipe()
        try:
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "paddleship.execution.child_guard", str(read_end), *command],
                    cwd=self.sweep.checkout,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    pass_fds=(read_end,),
                    start_new_session=True,
                )
            self._running.append(process)
            if self._cancelled:
                _signal(process, signal.SIGTERM)
            return process.wait()
        finally:
            os.close(read_end)
            os.close(write_end)


@dataclass
class Deployment:
    """Each variant as a run of a deployment, which workers do; it continues without this process, and a later one follows it."""

    sweep: Sweep
    name: str
    _running: set[str] = field(default_factory=set)
    _cancelled: bool = False
    _deadline: float = 0

    def run(self, variant: Variant, *, say: Callable[[str], None], began: Callable[[str], None], register: bool = False) -> Ended:
        flow_run, since = variant.flow_run, datetime.now(UTC)
        state = self._follow(flow_run, say) if flow_run and not register else None
        if state is None or not _ends_the_same(state):  # there is none, or the input was not at fault
            if self._cancelled:
                return Ended(outcome=Cancelled.outcome)
            flow_run = str(self._begin(variant, register=register).id)
            began(flow_run)
            state = self._follow(flow_run, say)
        if state is None:
            return Ended(outcome=Cancelled.outcome)
        if state.is_completed():
            return self.sweep.done(variant)
        if state.is_cancelled():
            return Ended(outcome=Cancelled.outcome, reason=state.message or "")
        ended = KILLED if state.is_crashed() else errors.of_outcome(state.name).outcome
        return self.sweep.failed(variant, Ended(outcome=ended, reason=state.message or state.name or "", flow_run=flow_run), since=since)

    def cancel(self) -> None:
        self._cancelled, self._deadline = True, time.monotonic() + _GRACE_S
        for flow_run in list(self._running):
            deployment.cancel(flow_run)

    def _follow(self, flow_run: str, say: Callable[[str], None]) -> Any:
        """The last state of a flow run; None if the sweep was cancelled and it did not end in time. Raises Unavailable."""
        self._running.add(flow_run)
        try:
            return deployment.last_state(flow_run, say=say, give_up=self._is_over)
        except OSError as error:
            raise Unavailable(
                f"Prefect does not answer ({error}): start it, then run the sweep again, which follows the flow run"
            ) from None
        finally:
            self._running.discard(flow_run)

    def _is_over(self) -> bool:
        """Whether a cancelled sweep has waited long enough for workers, which may be gone."""
        return self._cancelled and time.monotonic() > self._deadline

    def _begin(self, variant: Variant, *, register: bool) -> Any:
        parameters = {
            "overrides": self.sweep.overlay_of(variant),
            "commit": self.sweep.commit,
            "until": self.sweep.until,
            "register_model": register,
        }
        return deployment.begin(self.name, parameters, run_name=self.sweep.run_name(variant), tags=[self.sweep.name])


def _ends_the_same(state: State[Any]) -> bool:
    """Whether a flow run in this state would end the same way again."""
    return not (state.is_cancelled() or state.is_crashed() or state.name == Unavailable.outcome)


def _outcome(code: int) -> str:
    """The outcome that an exit code of `paddleship run` stands for."""
    if code < 0 or code == 128 + signal.SIGKILL:
        return KILLED
    return errors.of_exit_code(code).outcome


def _reason(log: Path) -> str:
    """The error that a command ended with."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else f"see {log}"


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To its whole group if it must end, otherwise to the command alone, which ends its stages itself."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)

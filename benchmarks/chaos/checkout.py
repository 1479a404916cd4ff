"""A checkout that runs are started in and disturbed, and the processes that these have."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from benchmarks.chaos.toy import REPOSITORY
from paddleship.system import locks

_MARK = "PADDLESHIP_CHAOS"
_WAIT_S = 1200
_OURS = ("PREFECT", "MLFLOW", "PADDLESHIP", "TOY", "FAKETIME", "LD_PRELOAD", "COLUMNS")


@dataclass
class Checkout:
    """A checkout, the last stage of its command `paddleship run`, more of its environment, and what commands are started with."""

    root: Path
    until: str
    environment: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def copy(self, target: Path, **environment: str) -> Checkout:
        """The same checkout with its remote in another new folder."""
        target.mkdir(parents=True)
        subprocess.run(["cp", "-a", *map(str, self.root.parent.iterdir()), str(target)], check=True)
        return Checkout(target / self.root.name, self.until, {**self.environment, **environment}, self.prefix)

    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        library = str(self.root) if (self.root / "paddleship").is_dir() else str(REPOSITORY)
        own = {"PYTHONPATH": library, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}", "COLUMNS": "200"}
        return {**kept, **own, locks.FOLDER: str(self.root.parent / "locks"), _MARK: self.mark, **self.environment}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command; its output goes to the file `log`."""
        command = [*self.prefix, sys.executable, "-m", "paddleship.cli.main", *(arguments or ("run", "--until", self.until))]
        with self.log.open("wb") as log:
            return subprocess.Popen(command, cwd=self.root, env=self.env() | environment, stdout=log, stderr=log, start_new_session=True)

    def run(self, *arguments: str, **environment: str) -> Run:
        """Run a command to its end."""
        return self.end_of(self.start(*arguments, **environment))

    def end_of(self, process: subprocess.Popen[bytes]) -> Run:
        """Wait for a command; one that does not end in time is killed, with what it started."""
        with suppress(subprocess.TimeoutExpired):
            return Run(process.wait(_WAIT_S), self.said())
        self.power_off()
        return Run(process.wait(), f"{self.said()}\nit did not end within {_WAIT_S} s")

    @property
    def log(self) -> Path:
        return Path(tempfile.gettempdir()) / f"chaos-{self.mark}.log"  # not on a disk that becomes full

    def said(self) -> str:
        return self.log.read_text(errors="replace", encoding="utf-8")

    def wait_for_stage(self, name: str, process: subprocess.Popen[bytes], *, within_s: float = _WAIT_S) -> bool:
        """Wait until the command of a stage runs; False if the process ended before."""
        endings = (["stage.py", name], ["-m", f"tasks.{name}"])

        def at_work() -> bool:
            return any(command[-2:] == ending for command in self._commands() for ending in endings)

        return wait_until(lambda: at_work() or process.poll() is not None, within_s=within_s) and process.poll() is None

    def finished(self) -> set[str]:
        """The stages that are in dvc.lock; none if it was cut off while DVC wrote it."""
        with suppress(FileNotFoundError, yaml.YAMLError, TypeError, KeyError):
            return set(yaml.safe_load((self.root / "dvc.lock").read_text(encoding="utf-8"))["stages"])
        return set()

    def processes(self) -> list[psutil.Process]:
        """The living processes that inherited the mark of this checkout."""
        mark, found = f"{_MARK}={self.mark}".encode(), []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                marked = mark in (Path("/proc") / str(process.pid) / "environ").read_bytes().split(b"\0")
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def power_off(self) -> None:
        """Kill all of its processes at once: they are stopped first, so that none of them sees another end."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for _ in range(3):
                for process in self.processes():
                    with suppress(psutil.Error):
                        process.send_signal(number)
        wait_until(lambda: not self.processes(), within_s=30)

    def remove(self) -> None:
        """End what is left of it, and delete it with its remote."""
        self.power_off()
        shutil.rmtree(self.root.parent, ignore_errors=True)
        self.log.unlink(missing_ok=True)

    def _commands(self) -> Iterator[list[str]]:
        for process in self.processes():
            with suppress(psutil.Error):
                yield process.cmdline()


@dataclass(frozen=True)
class Run:
    """How a command ended: its exit code, and what it said."""

    code: int
    said: str

    def stages(self) -> Mapping[str, str]:
        """How each stage went, from the table at the end."""
        words = ("ran", "unchanged", "restored", "failed")
        rows = [line.split() for line in self.said.splitlines()]
        return {row[0]: row[2] for row in rows if len(row) > 3 and row[2] in words}


def wait_until(condition: Callable[[], bool], *, within_s: float) -> bool:
    """Poll until the condition holds; whether it did in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True

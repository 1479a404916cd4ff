"""What faults are made of: servers that can be killed, a small disk, and waiting for a stage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.chaos.checkout import Checkout, Run
from paddleship.servers import background

_SLOW_S = "6"  # of a stage that is disturbed
_END_S = 30


@dataclass
class Server:
    """One of the two servers that `make ui` starts, with a port of its own."""

    checkout: Checkout
    name: str
    port: int = field(default_factory=background.free_port)

    def start(self) -> str:
        from paddleship.servers.local_state import Local

        local = Local(self.checkout.root, prefect_port=self.port, mlflow_port=self.port)
        return (local._prefect() if self.name == "prefect" else local._mlflow()).start()

    def kill(self) -> None:
        facts = json.loads((self.checkout.root / f".paddleship/{self.name}.server.json").read_text(encoding="utf-8"))
        process = psutil.Process(facts["pid"])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_S)  # the port is its own until it has ended

    def stop(self) -> None:
        background.stop(self.checkout.root / ".paddleship", self.name)
        (self.checkout.root / f".paddleship/{self.name}.log").unlink(missing_ok=True)


@contextmanager
def serving(checkout: Checkout, name: str) -> Iterator[Server]:
    """A server that the commands in a checkout find and use."""
    server = Server(checkout, name)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of its own that is small."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for block in (2**20, 4096):
            with suppress(OSError):
                while file.write(b"\0" * block) == block:
                    pass
    return ballast


def slow(stage: str) -> dict[str, str]:
    return {f"TOY_SECONDS_{stage.upper()}": _SLOW_S}


def at_work(checkout: Checkout, stage: str, process: subprocess.Popen[bytes], *, after_s: float = 1) -> None:
    """Wait until a stage has worked for some time."""
    if not checkout.wait_for_stage(stage, process):
        raise RuntimeError(f"the run ended before {stage}: {checkout.said()[-2000:]}")
    time.sleep(after_s)


def well(done: Run) -> None:
    if done.code:
        raise RuntimeError(f"a command that nothing disturbs ended with {done.code}: {done.said[-2000:]}")

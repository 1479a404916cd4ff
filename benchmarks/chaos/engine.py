"""A Docker engine and an image registry that faults may end: in a network namespace of their own, beside any other engine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.chaos.checkout import wait_until
from paddleship.containers import image
from paddleship.errors import Unavailable

_START_S = 60
REGISTRY = "127.0.0.1:5000"  # of the namespace


@dataclass
class Engine:
    """An engine with its data below `folder`, and a registry; commands started with `prefix` reach both."""

    folder: Path
    name: str = field(default_factory=lambda: f"chaos-{os.getpid()}")
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def start(self) -> None:
        """Start the engine, and wait until it answers. Raises Unavailable."""
        for name in ("containerd.pid", "containerd.sock"):  # of a killed engine, whose processes no init may have reaped
            (self.folder / "exec-root/containerd" / name).unlink(missing_ok=True)
        folders = [f"--{name}={self.folder / name}" for name in ("data-root", "exec-root")]
        self._start("dockerd", ["dockerd", "--host", self.host, *folders, "--pidfile", str(self.folder / "pid")])
        if not wait_until(lambda: self._docker("version").returncode == 0, within_s=_START_S):
            raise Unavailable(f"a second engine does not start: see {self.folder / 'dockerd.log'}")

    def start_registry(self) -> None:
        settings = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(self.folder / "registry")}}, "http": {"addr": REGISTRY}}
        (self.folder / "registry.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        self._start("docker-registry", ["docker-registry", "serve", str(self.folder / "registry.yml")])

    def kill(self, program: str) -> None:
        """Kill the engine or the registry, with no time to clean up; what the engine runs goes on."""
        process = self.processes.pop(program)
        for child in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGKILL)
        process.wait()

    def kill_containers(self) -> None:
        self._docker("kill", *self.containers())

    def load(self, tag: str) -> None:
        """Take an image from the engine that others use."""
        with closing(image.connect()) as client:
            shared = image.host_of(client)
        with subprocess.Popen(["docker", "--host", shared, "save", tag], stdout=subprocess.PIPE) as saved:
            subprocess.run(["docker", "--host", self.host, "load"], stdin=saved.stdout, check=True, capture_output=True)

    def images(self, *arguments: str) -> list[str]:
        return self._docker("images", "--all", "--quiet", "--no-trunc", *arguments).stdout.split()

    def containers(self) -> list[str]:
        return self._docker("ps", "--all", "--quiet").stdout.split()

    def tag(self, identity: str, name: str) -> None:
        self._docker("tag", identity, name)

    def _docker(self, *arguments: str) -> Any:
        return subprocess.run(
            ["docker", "--host", self.host, *arguments], capture_output=True, encoding="utf-8", errors="replace", check=False
        )

    def _start(self, program: str, command: list[str]) -> None:
        with (self.folder / f"{program}.log").open("ab") as log:
            self.processes[program] = subprocess.Popen([*self.prefix, *command], stdout=log, stderr=log, start_new_session=True)


def require() -> None:
    """Raise Unavailable where no engine can be started beside that of others."""
    for program in ("ip", "nsenter", "docker", "dockerd", "docker-registry"):
        if shutil.which(program) is None:
            raise Unavailable(
                f"{program} is not installed, and some faults need an engine and a registry of their own: "
                "install it (Debian: iproute2, util-linux, docker.io, docker-registry), or name other faults"
            )
    if os.getuid() != 0:
        raise Unavailable("only root can start the engine that some faults need: name other faults")


@contextmanager
def running(folder: Path) -> Iterator[Engine]:
    """A second engine and a registry, with their data in an empty folder; everything of them is gone afterwards."""
    engine = Engine(folder)
    subprocess.run(["ip", "netns", "add", engine.name], check=True)
    try:
        subprocess.run([*engine.prefix, "ip", "link", "set", "lo", "up"], check=True)
        engine.start()
        engine.start_registry()
        yield engine
    finally:
        _remove(engine)


def _remove(engine: Engine) -> None:
    for process in engine.processes.values():
        process.terminate()
    for process in engine.processes.values():
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
    for process in psutil.process_iter():  # shims of containers, and what did not end
        with suppress(psutil.Error):
            if any(str(engine.folder) in word for word in process.cmdline()) and process.pid != os.getpid():
                process.kill()
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()[::-1]:
        if line.split()[1].startswith(f"{engine.folder}/"):
            subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
    subprocess.run(["ip", "netns", "del", engine.name], check=False)

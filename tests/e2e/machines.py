"""Machines for a test: processes in mount, process and host-name namespaces of their own, on a network between them.

A machine sees of the folder `base` only the folder of its own name. Needs root, `unshare` and `ip`.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from tests.flows.helpers import wait_for

NETWORK = "10.213.77"
SERVER = f"{NETWORK}.1"  # where all servers listen
_ENTER = """
set -e
hostname {name}
mount --make-rprivate /
mount -t tmpfs none {spare}
mkdir {spare}/own
mount --bind {base}/{name} {spare}/own
mount -t tmpfs none {base}
mkdir {base}/{name}
mount --bind {spare}/own {base}/{name}
cd {base}/{name}
exec "$@"
"""


def are_possible():
    return os.geteuid() == 0 and shutil.which("unshare") is not None and shutil.which("ip") is not None


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def bridge(names):
    """A bridge of this machine, and a network namespace for each name with an address on it."""
    made = f"ps{os.getpid()}"
    ip("link", "add", made, "type", "bridge")
    try:
        ip("address", "add", f"{SERVER}/24", "dev", made)
        ip("link", "set", made, "up")
        for place, name in enumerate(names, 2):
            space, here, there = f"{made}-{name}", f"{made}v{place}", f"{made}p{place}"
            ip("netns", "add", space)
            ip("link", "add", here, "type", "veth", "peer", "name", there)
            ip("link", "set", here, "master", made, "up")
            ip("link", "set", there, "netns", space)
            ip("-n", space, "address", "add", f"{NETWORK}.{place}/24", "dev", there)
            for device in (there, "lo"):
                ip("-n", space, "link", "set", device, "up")
        yield {name: f"{made}-{name}" for name in names}
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", f"{made}-{name}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", made], check=False, capture_output=True)


class Machine:
    """A folder, a host name, and the processes that are started on it. Without a network namespace it uses this machine's network."""

    def __init__(self, base, name, environment, *, space=None):
        self.name, self.folder, self._base, self._space = name, base / name, base, space
        self._environment = environment | {"HOME": str(self.folder)}
        self.folder.mkdir()
        self.log = self.folder / "log"

    def start(self, *command, **options):
        script = _ENTER.format(name=self.name, base=self._base, spare="/mnt")
        inside = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script, "bash", *command]
        outside = ["ip", "netns", "exec", self._space, *inside] if self._space else inside
        return subprocess.Popen(outside, env=self._environment, start_new_session=True, **options)

    def run(self, *command):
        with self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        return output

    def work(self, command):
        """Start a worker; its output is appended to the log of the machine."""
        with self.log.open("a") as log:
            return self.start(*command, stdout=log, stderr=log)


def power_off(process):
    """End everything on a machine at once: with its first process, the kernel ends the whole process namespace."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(300)


@contextlib.contextmanager
def served(folder, command, *, address, **environment):
    """A server, from when it answers at its address."""
    folder.mkdir()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(lambda: process.poll() is not None or _answers(address))
        assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        power_off(process)


def _answers(address):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(address) == 0


def processes_of(machine, module):
    """The processes on a machine that run a module."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                words, variables = ((path / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
                if module.encode() in words and f"HOME={machine.folder}".encode() in variables:
                    found.append(int(path.name))
    return found

import os
import subprocess
import sys

import pytest

from paddleship.conversion import no_pip
from paddleship.errors import CandidateError
from paddleship.system import isolate


def start(how, *words):
    no_pip.forbid()
    if how == "shell":
        return os.system(" ".join(words))  # noqa: S605
    return subprocess.run(words, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    "command",
    [
        ("pip", "install", "x"),
        ("/usr/bin/pip3", "install", "x"),
        (sys.executable, "-m", "pip", "install", "x"),
        ("uv", "pip", "install", "x"),
    ],
)
@pytest.mark.parametrize("how", ["list", "shell"])
def test_no_installer_is_started(how, command):
    with pytest.raises(CandidateError, match="would install packages at run time"):
        isolate.run("child", start, how, *command, timeout_s=60)


@pytest.mark.parametrize("command", [("true",), ("echo", "pipeline")])
def test_other_processes_are_started(command):
    assert isolate.run("child", start, "list", *command, timeout_s=60) == 0

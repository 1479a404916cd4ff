"""Stages in a checkout, each as a process of its own as DVC runs it."""

import os
import subprocess
import sys


def stage(checkout, name):
    """The ended process of one stage."""
    command, environment = [sys.executable, "-m", f"tasks.{name}"], {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def run(checkout, *names):
    """Run stages that must pass."""
    for name in names:
        done = stage(checkout, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

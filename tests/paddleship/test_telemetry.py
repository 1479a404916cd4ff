"""Every process of paddleship, and its image, opts out of the telemetry of what it imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddleship import NO_TELEMETRY

REPOSITORY = Path(__file__).parents[2]


def without_ours():
    return {name: value for name, value in os.environ.items() if name not in NO_TELEMETRY}


@pytest.mark.parametrize("module", ["paddleship", "paddleship.cli.main", "tasks.prepare", "paddleship.shipped.serving.__main__"])
def test_every_process_opts_out_before_it_imports_anything_else(module):
    code = f"import {module}, os; from paddleship import NO_TELEMETRY; print(NO_TELEMETRY.items() <= os.environ.items())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, env=without_ours(), capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "True"


def test_a_choice_of_the_user_stays():
    environment = without_ours() | {"MLFLOW_DISABLE_TELEMETRY": "false"}
    code = "import paddleship, os; print(os.environ['MLFLOW_DISABLE_TELEMETRY'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "false"


def test_the_image_opts_out_before_any_import():
    assert "ORT_DISABLE_TELEMETRY=1" in (REPOSITORY / "docker/serve.Dockerfile").read_text()

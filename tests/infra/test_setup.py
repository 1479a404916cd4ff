"""The two sets of packages that `make setup` installs: one with Paddle for CPUs, one with Paddle for GPUs, none with both."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def gpu_wheels(tmp_path):
    """A folder with a wheel of Paddle's GPU build that holds its metadata alone: the real one is on Paddle's own index."""
    metadata = {
        "METADATA": "Metadata-Version: 2.1\nName: paddlepaddle-gpu\nVersion: 3.3.1\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(tmp_path / "paddlepaddle_gpu-3.3.1-py3-none-any.whl", "w") as wheel:
        for name, text in metadata.items():
            wheel.writestr(f"paddlepaddle_gpu-3.3.1.dist-info/{name}", text)
    return tmp_path


@pytest.mark.parametrize(
    ("device", "wanted", "other"), [("cpu", "paddlepaddle==", "paddlepaddle-gpu=="), ("gpu", "paddlepaddle-gpu==", "paddlepaddle==")]
)
def test_each_set_resolves_and_holds_one_paddle(gpu_wheels, device, wanted, other):
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python", sys.executable, "--find-links", str(gpu_wheels)]
    command += ["-c", "constraints.txt", "--extra", device, "--extra", "dev", "pyproject.toml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    resolved = done.stdout.splitlines()
    assert any(line.startswith(wanted) for line in resolved)
    assert not any(line.startswith(other) for line in resolved)


def test_another_device_is_refused_before_anything_is_installed(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    done = subprocess.run(["make", "setup", "DEVICE=tpu"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "DEVICE must be cpu or gpu (got 'tpu')" in done.stderr
    assert not (tmp_path / ".venv").exists()

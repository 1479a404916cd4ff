"""What `make setup` installs, and with which Python: one build of Paddle and one of ONNX Runtime, each for CPUs or for GPUs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")


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
    ("extra", "wanted"),
    [
        ("cpu", {"paddlepaddle", "onnxruntime"}),
        ("cuda", {"paddlepaddle", "onnxruntime-gpu", "nvidia-cudnn-cu13", "nvidia-cublas"}),
        ("gpu", {"paddlepaddle-gpu", "onnxruntime"}),
    ],
)
def test_each_set_resolves_and_holds_one_build_of_each_library(gpu_wheels, extra, wanted):
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python", sys.executable, "--find-links", str(gpu_wheels)]
    command += ["-c", "constraints.txt", "--extra", extra, "--extra", "dev", "--no-header", "--no-annotate", "pyproject.toml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    resolved = {line.partition("==")[0] for line in done.stdout.splitlines()}
    builds = {"paddlepaddle", "paddlepaddle-gpu", "onnxruntime", "onnxruntime-gpu", "nvidia-cudnn-cu13", "nvidia-cublas"}
    assert resolved & builds == wanted


@pytest.mark.long  # asks the package index for every package; the pins themselves are compared in the next test
@pytest.mark.parametrize("extra", ["cpu", "cuda"])
@pytest.mark.parametrize("python", PYTHONS)
def test_for_each_python_there_are_wheels_and_every_package_is_pinned(python, extra):
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python-version", python, "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--no-binary", "antlr4-python3-runtime"]  # which is Python alone, and has no wheel
    command += ["-c", "constraints.txt", "--extra", extra, "--extra", "dev", "--extra", "torch", "pyproject.toml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {str(pin) for pin in pins(python)}


@pytest.mark.parametrize("python", PYTHONS)
def test_for_each_python_a_package_has_one_pin_and_all_that_the_project_needs_is_pinned(python):
    pinned = [pin.name for pin in pins(python)]
    assert len(pinned) == len(set(pinned))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert python in SpecifierSet(project["requires-python"])
    extras = project["optional-dependencies"]
    needed = [Requirement(line) for line in (*project["dependencies"], *extras["cpu"], *extras["cuda"])]
    names = {canonicalize_name(need.name) for need in needed if need.marker is None or need.marker.evaluate({"python_version": python})}
    assert names <= set(pinned)


def pins(python):
    """The pins for a version of Python, without their markers."""
    lines = [line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    found = [Requirement(line) for line in lines]
    found = [pin for pin in found if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    return [Requirement(str(pin).partition(";")[0]) for pin in found]


@pytest.fixture
def setup(tmp_path):
    """`make setup` in a folder with the project's files and no code."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)

    def run(*arguments, **environment):
        values = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "MAKEFLAGS")}
        command = ["make", "--no-print-directory", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**values, **environment})

    return run


@pytest.fixture
def python(tmp_path):
    """Makes a program that answers as a Python of some version does."""

    def make(name, version):
        (tmp_path / "bin").mkdir(exist_ok=True)
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
        return str(program)

    return make


def test_another_device_is_refused_before_anything_is_installed(setup, tmp_path):
    done = setup("setup", "DEVICE=tpu")
    assert done.returncode == 2
    assert "DEVICE must be cpu or gpu (got 'tpu')" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("RUNTIME=tensorrt",), "RUNTIME must be cuda or empty (got 'tensorrt')"),
        (("RUNTIME=cuda", "DEVICE=gpu"), "RUNTIME=cuda comes with Paddle for CPUs: leave DEVICE=gpu out"),
    ],
)
def test_another_runtime_and_both_builds_for_gpus_at_once_are_refused(setup, tmp_path, arguments, words):
    done = setup("setup", *arguments)
    assert (done.returncode, (tmp_path / ".venv").exists()) == (2, False)
    assert words in done.stderr


@pytest.mark.parametrize(
    ("there", "arguments", "installed"),
    [
        (None, (), "python -m venv  .venv .[cpu,dev]"),
        (None, ("RUNTIME=cuda",), "python -m venv  .venv .[cuda,dev]"),
        ("cpu", ("RUNTIME=cuda",), "python -m venv --clear .venv .[cuda,dev]"),
        ("cuda", ("DEVICE=cpu",), "python -m venv --clear .venv .[cpu,dev]"),
        ("cuda", ("DEVICE=gpu",), "python -m venv --clear .venv .[gpu,dev]"),
        ("gpu", ("RUNTIME=cuda",), "python -m venv --clear .venv .[cuda,dev]"),
        ("cuda", (), ""),
        ("gpu", (), ""),
    ],
)
def test_an_environment_keeps_its_build_and_is_made_again_for_another_one(setup, python, tmp_path, there, arguments, installed):
    own = python("python", "3.11")
    if there:
        (tmp_path / ".venv").mkdir()
        (tmp_path / f".venv/{there}").touch()
    lines = setup("--dry-run", "setup", f"PYTHON={own}", *arguments).stdout.splitlines()
    made = [line.removeprefix("@").strip() for line in lines if "-m venv" in line or ".[" in line]
    assert " ".join(re.sub(r".*(python -m venv|\.\[)", r"\1", line).replace("'", "") for line in made) == installed


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_a_python_that_is_not_supported_is_one_clear_line(setup, python, tmp_path, version):
    done = setup("setup", f"PYTHON={python('python3', version)}")
    assert f"python3 is Python {version}, which is not supported: install Python 3.11, 3.12 or 3.13" in done.stderr.splitlines()[0]
    assert "Error 4" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_python_that_does_not_run_is_one_clear_line(setup):
    assert "error: nowhere/python does not run: install Python 3.11" in setup("setup", "PYTHON=nowhere/python").stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"python3.13": "3.13", "python3.12": "3.12", "python3.11": "3.11"}, "python3.11"),
        ({"python3.13": "3.13", "python3.12": "3.12", "python3.11": ""}, "python3.12"),  # a name that does not run, as pyenv has them
        ({"python3.13": "3.13", "python3.12": "", "python3.11": "", "python3": "3.13"}, "python3.13"),
        ({"python3.13": "", "python3.12": "", "python3.11": "", "python3": "3.12"}, "python3"),
    ],
)
def test_the_python_is_one_that_runs_here(setup, python, tmp_path, there, taken):
    for name, version in there.items():
        python(name, version)
    done = setup("--dry-run", "setup", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert f"{taken} -m venv" in done.stdout


def test_an_environment_is_made_again_for_another_python_that_is_given_and_else_keeps_its_own(setup, python, tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/cpu").touch()
    (tmp_path / ".venv/bin").symlink_to(tmp_path / "bin")
    own, other = python("python", "3.12"), python("python3.13", "3.13")
    (tmp_path / ".venv/pyvenv.cfg").write_text(f"executable = {own}\n")
    assert "nothing to be done" in setup("--dry-run", "setup").stdout.lower()
    assert "nothing to be done" in setup("--dry-run", "setup", f"PYTHON={own}").stdout.lower()
    assert f"{other} -m venv --clear .venv" in setup("--dry-run", "setup", f"PYTHON={other}").stdout
    (tmp_path / ".venv/cpu").unlink()
    assert f"{own} -m venv  .venv" in setup("--dry-run", "setup").stdout

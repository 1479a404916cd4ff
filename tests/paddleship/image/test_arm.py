"""Whether the pinned packages of an image exist for 64-bit ARM on Linux; no image is built for it."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docker/requirements"
DEBIAN_12 = "aarch64-manylinux_2_36"

pytestmark = pytest.mark.long  # asks the package index


def resolved(runtime):
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", "3.11"]
    return subprocess.run(
        [*command, "--python-platform", DEBIAN_12, str(FOLDER / f"{runtime}.txt")], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_the_packages_of_a_runtime_have_wheels_for_arm(runtime):
    done = resolved(runtime)
    assert done.returncode == 0, done.stderr
    assert f"{runtime}==" in done.stdout


def test_paddle_has_none_as_the_documentation_says():
    assert "paddlepaddle==3.3.1 has no wheels with a matching platform tag" in resolved("paddle").stderr

"""Paddle Inference without the Python of Paddle, as an image has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest

from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate

ASK = """
import json, sys
from pathlib import Path
import numpy as np
from paddleship.shipped.computing import runtimes
loaded = runtimes.load(Path(sys.argv[1]))
import paddle
answer = loaded.run({"x": np.asarray(json.loads(sys.argv[2]), dtype="float32")})
(array,) = answer.values()
print(json.dumps([getattr(paddle, "__file__", None), array.tolist(), "paddle.base.framework" in sys.modules]))
"""


@pytest.fixture
def without_python(tmp_path):
    """A folder of packages in which Paddle has its libraries alone."""
    package, site = Path(paddle.__file__).parent, tmp_path / "site"
    (site / "paddle/base").mkdir(parents=True)
    (site / "paddle/base/libpaddle.so").symlink_to(package / "base/libpaddle.so")
    (site / "paddle/libs").symlink_to(package / "libs")
    for name in ("numpy", "numpy.libs"):
        (site / name).symlink_to(package.parent / name)
    return site


@pytest.mark.parametrize("name", ["paddle", "paddle-onednn"])
def test_the_predictor_needs_no_python_of_paddle_and_answers_the_same(linear_benchmarked, without_python, name):
    folder = linear_benchmarked / "models/candidates" / name
    if not folder.is_dir():
        pytest.skip(f"the linear example has no candidate {name}")
    rows = [[0.5, 1.5], [-1.0, 2.0]]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(without_python), str(Path(__file__).parents[5])])}
    command = [sys.executable, "-S", "-c", ASK, str(folder), json.dumps(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, answer, has_python = json.loads(done.stdout.splitlines()[-1])
    expected = runtimes.load(folder).run({"x": np.asarray(rows, dtype="float32")})
    assert (file, has_python) == (None, False)
    assert answer == next(iter(expected.values())).tolist()
    assert Candidate.load(folder).runtime == "paddle"

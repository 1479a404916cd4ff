from pathlib import Path

import pytest

from paddleship.errors import CandidateError
from paddleship.image import footprint, requirements
from paddleship.shipped.computing.preprocess import registry as kinds
from paddleship.shipped.computing.runtimes import registry

FOLDER = Path(__file__).parents[3] / "docker/requirements"


def test_pins_of_an_included_file_count(tmp_path):
    (tmp_path / "base.txt").write_text("# of all\nnumpy==2.3.5  # pinned\n\n")
    (tmp_path / "own.txt").write_text("-r base.txt\neinops==0.8.1\n")
    assert requirements.pins(tmp_path / "own.txt") == ["numpy==2.3.5", "einops==0.8.1"]
    assert requirements.names(requirements.pins(tmp_path / "own.txt")) == ["numpy", "einops"]


def test_the_image_of_the_eager_model_holds_what_that_of_paddle_inference_does_and_what_paddle_imports():
    eager, inference = (requirements.pins(FOLDER / f"{name}.txt") for name in ("paddle-eager", "paddle"))
    assert eager[: len(inference)] == inference
    assert "safetensors" in requirements.names(eager[len(inference) :])


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda file: file.stem)
def test_every_package_of_an_image_is_pinned(file):
    assert all("==" in pin for pin in requirements.pins(file))


@pytest.mark.parametrize("runtime", registry.found().values(), ids=str)
def test_every_runtime_brings_its_pins_and_the_server_s(runtime):
    pinned = requirements.names(requirements.of(runtime.registration))
    assert set(pinned) > set(requirements.names(requirements.pins(FOLDER / "server.txt")))
    assert len(set(pinned)) == len(pinned)


@pytest.mark.parametrize("kind", kinds.ours().values(), ids=str)
def test_what_a_preprocess_kind_brings_is_what_is_installed_here_and_agrees_with_every_runtime(kind):
    ours = (FOLDER.parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for pin in kind.registration.requirements:
        assert pin in ours
        name = pin.partition("==")[0]
        assert {one for file in FOLDER.glob("*.txt") for one in requirements.pins(file) if one.startswith(f"{name}==")} <= {pin}


def test_outside_the_checkout_the_files_are_found_beside_the_library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert requirements.pins(requirements.folder() / "paddle-eager.txt") == requirements.pins(FOLDER / "paddle-eager.txt")


def test_files_that_are_not_there_say_where_to_run(tmp_path):
    with pytest.raises(CandidateError, match=r"paddle-eager.txt.*cannot be read.*run in a checkout of paddleship, or install"):
        requirements.pins(tmp_path / "paddle-eager.txt")


def test_the_size_of_an_image_counts_what_is_included(tmp_path):
    (tmp_path / "model").mkdir()
    sizes = [footprint.image_bytes(registry.of(name), tmp_path / "model") for name in ("paddle", "paddle-eager")]
    assert sizes[1] > sizes[0] + 50_000_000, "the Python of Paddle and what it imports"
    small, with_pictures = (
        footprint.image_bytes(registry.of("onnxruntime"), tmp_path / "model", further) for further in ((), kinds.get("image").requirements)
    )
    assert with_pictures > small + 1_000_000, "Pillow's libraries"


def test_the_size_of_an_image_counts_what_a_preprocess_kind_needs_once(tmp_path):
    (tmp_path / "model").mkdir()
    without, tokens, pillow = (
        footprint.image_bytes(registry.of(name), tmp_path / "model", kinds.get(kind).requirements)
        for name, kind in (("onnxruntime", "numbers"), ("onnxruntime", "tokens"), ("paddle", "image"))
    )
    assert tokens - without > 5_000_000
    assert pillow - footprint.image_bytes(registry.of("paddle"), tmp_path / "model") > 1_000_000


@pytest.mark.parametrize(
    "pattern",
    [
        "bin",
        "numpy/f2py",
        "**/tests",
        "**/*.pyi",
        "**/deep/tests",
        "openvino/lib_[gn]pu.so",
        "openvino/lib_x.so*",
        "top*",
        "paddle/**/*.py",
    ],
)
def test_the_size_leaves_out_the_files_that_package_removes_by_the_same_pattern(tmp_path, pattern):
    files = (
        "bin/run", "tools/bin/run", "numpy/f2py/a.py", "numpy/f2py/b/c.py", "other/numpy/f2py/a.py", "tests/a.py", "numpy/tests/a.py",
        "numpy/deep/tests/a.py", "deep/tests.py", "numpy/a.pyi", "a.pyi", "openvino/lib_gpu.so", "openvino/lib_cpu.so",
        "openvino/lib_x.so.2", "numpy/openvino/lib_gpu.so", "topping.py", "numpy/top.py",
        "paddle/__init__.py", "paddle/base/core.py", "paddle/base/core.so", "other/paddle/a.py",
    )  # fmt: skip
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    found = list(tmp_path.glob(pattern))
    removed = {file for file in files if any((tmp_path / file).is_relative_to(path) for path in found)}
    assert removed
    assert {file for file in files if footprint.matcher([pattern]).match_file(file)} == removed

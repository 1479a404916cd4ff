import pytest

from paddleship.config import preflight
from paddleship.config.sections.select import Select
from paddleship.errors import ParamsError, Unavailable


def test_more_threads_than_cores_are_refused(monkeypatch):
    monkeypatch.setattr(preflight.host, "core_numbers", lambda: [0, 1])
    preflight.require_cores(2)
    with pytest.raises(ParamsError, match=r"optimize\.threads is 3, .* 2 cores"):
        preflight.require_cores(3)


def test_batches_that_do_not_fit_in_memory_are_refused():
    preflight.require_memory([1, 32], rows=64, row_bytes=100, processes=5)
    with pytest.raises(ParamsError, match="remove 1,000,000,000,000"):
        preflight.require_memory([1, 10**12], rows=64, row_bytes=100, processes=5)


@pytest.mark.parametrize(
    ("select", "words"),
    [
        (Select(candidate="openvino"), r"'openvino' is not proven \(proven: paddle;"),
        (Select(objective="image_bytes"), "'image_bytes' is unknown for paddle"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(select, words):
    preflight.require_choice(Select(candidate="paddle"), {"paddle": None})
    with pytest.raises(ParamsError, match=words):
        preflight.require_choice(select, {"paddle": None})


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ((), "Paddle is not installed: run `make setup`"),
        (("paddlepaddle", "paddlepaddle-gpu"), "paddlepaddle and paddlepaddle-gpu are both installed"),
        (("paddlepaddle", "onnxruntime", "onnxruntime-gpu"), "onnxruntime and onnxruntime-gpu are both installed"),
    ],
)
def test_no_paddle_and_two_builds_of_one_library_are_refused(monkeypatch, installed, words):
    monkeypatch.setattr(preflight, "_installed", lambda name: name in installed)
    with pytest.raises(Unavailable, match=words):
        preflight.require_one_build()


@pytest.mark.parametrize("installed", [("paddlepaddle", "onnxruntime-gpu"), ("paddlepaddle-gpu", "onnxruntime"), ("paddlepaddle",)])
def test_one_build_of_each_library_is_fine(monkeypatch, installed):
    monkeypatch.setattr(preflight, "_installed", lambda name: name in installed)
    preflight.require_one_build()

"""Candidates that Paddle makes of the eager model itself: pruned, and quantised by its own PTQ."""

import numpy as np
import paddle
import pytest
from safetensors.numpy import load_file

from paddleship.model import building
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from tests.paddleship.conversion.helpers import ask, batch, judged


@pytest.mark.parametrize(("name", "sizes"), [("Digits", {}), ("Rows", {"batch": [1, 4]})], ids=["any size", "fixed sizes"])
def test_a_pruned_program_answers_as_if_the_two_smallest_of_each_four_weights_were_zero(
    source_model_of, workshop_of, tmp_path, name, sizes
):
    source_model = source_model_of(name, **sizes)
    outcome = workshop_of(name, sizes=sizes, source_model=source_model).make("paddle-pruned", tmp_path / "pruned")
    assert outcome.made, outcome.reason
    assert len(Candidate.load(tmp_path / "pruned").programs) == len(sizes.get("batch", []))
    own = load_file(source_model.checkpoint / building.WEIGHTS)
    asked = [batch(1, 91), batch(3, 92), batch(9, 93)]
    for inputs_, answer in zip(asked, ask(runtimes.load, tmp_path / "pruned", batches=asked), strict=True):
        hidden = np.maximum(inputs_["x"] @ pruned(own["body.0.weight"]) + own["body.0.bias"], 0)
        right = hidden @ pruned(own["body.2.weight"]) + own["body.2.bias"]
        np.testing.assert_allclose(answer["output"], right, atol=1e-5)


def test_what_a_pruned_program_holds_is_half_zeros_in_fours_and_the_checkpoint_else(source_model_of, workshop_of, tmp_path):
    source_model = source_model_of("Pictures")
    assert workshop_of("Pictures", source_model=source_model).make("paddle-pruned", tmp_path / "pruned").made
    held = [value.numpy() for value in paddle.jit.load(str(tmp_path / "pruned/model")).state_dict().values()]
    own = load_file(source_model.checkpoint / building.WEIGHTS)
    changed = {"second.weight": np.moveaxis(own["second.weight"], 1, 0), "output.weight": own["output.weight"]}
    right = own | {name: pruned(array) for name, array in changed.items()}
    right["second.weight"] = np.moveaxis(right["second.weight"], 0, 1)
    assert {name for name in own if not any(np.array_equal(right[name], array) for array in held)} == set()
    assert len(held) == len(own)


def pruned(weights):
    """Without the two smallest of each four along the first axis."""
    fours = weights.reshape(-1, 4, *weights.shape[1:])
    kept = np.abs(fours).argsort(1).argsort(1) >= 2
    return (fours * kept).reshape(weights.shape)


@pytest.mark.parametrize(
    ("name", "source_model", "words"),
    [
        ("paddle-pruned", "Squares", "that it prunes: it takes Linear and Conv2D, unless a ParamAttr names their weights"),
        ("paddle-pruned", "Narrow", "that it prunes: every Linear and Conv2D here sums fewer than four weights"),
        ("paddle-int8", "Squares", "that it quantises"),
    ],
)
def test_a_model_in_which_paddle_finds_no_layer_to_change_is_a_row(source_model_of, workshop_of, tmp_path, name, source_model, words):
    outcome = workshop_of(source_model, source_model=source_model_of(source_model)).make(name, tmp_path / name)
    assert not outcome.made
    assert outcome.reason == f"Paddle found no layer in this model {words}"


@pytest.mark.parametrize("name", ["paddle-int8", "paddle-pruned"])
def test_without_the_eager_model_what_is_made_of_it_is_a_row(workshop_of, tmp_path, name):
    assert "only the eager model itself, which is not available here" in workshop_of("Digits").make(name, tmp_path / name).reason


@pytest.mark.parametrize(
    ("name", "source_model", "words"),
    [
        ("paddle-int8", "Digits", "cannot quantise this model and export it: it takes no dynamic dimension"),
        ("paddle-int8", "Cell", "cannot quantise this model and export it: AbsmaxObserverLayer.forward()"),
        ("paddle-gpu", "Digits", "built for CPUs"),
        ("paddle-tensorrt-fp16", "Digits", "built for CPUs"),
        ("onnxruntime-cuda", "Digits", "ONNX Runtime is built for CPUs: run `make clean setup RUNTIME=cuda`"),
    ],
)
def test_what_this_paddle_cannot_do_is_a_row_in_plain_words(source_model_of, workshop_of, tmp_path, name, source_model, words):
    outcome = workshop_of(source_model, source_model=source_model_of(source_model)).make(name, tmp_path / name)
    assert not outcome.made
    assert words in outcome.reason


@pytest.mark.parametrize(("name", "proven"), [("Lean", True), ("Digits", False)], ids=["half of the weights are small", "none is"])
def test_a_pruned_model_is_judged_by_its_decisions_and_refused_where_it_needs_the_weights(
    source_model_of, workshop_of, tmp_path, name, proven
):
    outcome = workshop_of(name, source_model=source_model_of(name)).make("paddle-pruned", tmp_path / "pruned")
    assert outcome.made, outcome.reason
    judgement = judged(source_model_of(name), tmp_path / "pruned")
    assert bool(judgement) is proven
    assert {check.name for check in judgement.checks} == {"flip_rate_high", "metric_drop_high", "decided_slope", "decided_offset"}
    assert judgement.metrics["noise_ratio"] > 1000  # other digits than eager's, in both

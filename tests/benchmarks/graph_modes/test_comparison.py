import importlib.util
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.graph_modes import (
    agreement,
    charts,
    claims,
    comparison,
    deploying,
    line_count,
    markdown_page,
    mode_worker,
    network_setup,
    timing,
)
from benchmarks.graph_modes.comparison import ModeResult
from paddleship.benchmark.sampling import Block, Measurement
from paddleship.errors import ParamsError
from paddleship.statistics.estimates import Interval

TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(autouse=True)
def _short_warm_up(monkeypatch):
    monkeypatch.setattr(timing, "_WARM_UP_S", 0.05)


@pytest.fixture(scope="module")
def settings(reviews_params):
    return lambda **given: reviews_params({"graph_modes": {"rounds": 2, "threads": 1, "timeout_s": 120, **given}})


@pytest.fixture(scope="module")
def linear(settings, tmp_path_factory):
    made = network_setup.make("linear", settings(), tmp_path_factory.mktemp("setup") / "linear")
    return replace(made, sizes=replace(made.sizes, steps=3, answers=4))


@pytest.fixture
def silent():
    return lambda _line: None


def timed(quantity, *blocks):
    measured = Measurement("x", blocks={8: [Block(0, place, 0, [value] * 3, [0] * 3) for place, value in enumerate(blocks)]})
    return ModeResult("paddle-eager", timed={quantity: (measured, 8)})


@pytest.mark.slow
def test_two_modes_of_one_network_are_timed_side_by_side_and_settled(linear, settings, silent, tmp_path):
    found = comparison.compare(linear, ["paddle-static"], settings().graph_modes, say=silent)
    assert list(found) == ["paddle-eager", "paddle-static"]
    for row in found.values():
        assert row.measured
        sizes = {quantity: [len(block) for block in row.blocks(quantity)] for quantity in comparison.QUANTITIES}
        assert sizes == {"step_ms": [3, 3], "forward_ms": [4, 4], "request_ms": [4, 4]}
        assert row.peak_memory_bytes > 50e6
    eager, static = found.values()
    assert set(eager.aa_ratio) == set(comparison.QUANTITIES)
    assert not static.aa_ratio
    assert len(eager.losses) == len(static.losses) == mode_worker.FIRST_STEPS + 2 * 3
    np.testing.assert_allclose(eager.losses, static.losses, rtol=1e-5)
    assert (eager.deploys, static.deploys) == (False, True)
    assert static.facts["lines"] > eager.facts["lines"]

    results = claims.settle({"linear": found}, devices=0)
    assert {result.conclusion for result in results} <= {"confirmed", "refuted", "cannot tell", "untested"}
    text = markdown_page.markdown({"linear": found}, results, facts=["Short."], host={"cores": "2"})
    assert "### Static trains 15–30% faster" in text
    assert "does not run without the model's code" in text
    assert "(A/A ratio): step " in text
    for name in (charts.times("linear", found, tmp_path, "a.png"), charts.losses("linear", found, tmp_path, "b.png")):
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.slow
def test_a_mode_whose_weights_were_not_carried_over_is_not_timed_and_one_without_its_framework_names_the_extra(
    linear, settings, silent, tmp_path
):
    other = network_setup.make("linear", settings().model_copy(update={"seed": 8}), tmp_path / "other")
    found = comparison.compare(
        linear,
        ["paddle-static", *([] if TORCH else ["torch-eager"])],
        settings(starts=1).graph_modes,
        say=silent,
        setups=lambda mode: other if mode == "paddle-static" else linear,
    )
    row = found["paddle-static"]
    assert "does not compute the same network" in row.reason
    assert "limit 8" in row.reason
    assert not row.timed
    assert found["paddle-eager"].measured
    if not TORCH:
        assert "paddleship[torch]" in found["torch-eager"].reason


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="PyTorch is not installed (extra `torch`)")
def test_pytorch_with_carried_weights_computes_what_paddle_does(linear, settings, silent):
    found = comparison.compare(linear, ["torch-eager", "torchscript"], settings().graph_modes, say=silent)
    assert [row.reason for row in found.values()] == ["", "", ""]
    assert found["torchscript"].deploys


def test_an_unknown_mode_is_refused_with_the_known_ones(settings):
    with pytest.raises(ParamsError, match=r"modes\.0: .*torchscript"):
        settings(modes=["paddle-magic"])


@pytest.mark.parametrize(
    ("loader", "loads", "reason"),
    [
        ("return lambda inputs: inputs * 2", True, ""),
        ("return lambda inputs: inputs * 3", False, "its answer differs"),
        ("return lambda inputs: inputs[:1] * 2", False, "its answer differs"),
        ("from examples.linear.model import build", False, "the model's code is not here"),
        ("import paddleship", False, "the model's code is not here"),
        ("import time; time.sleep(60)", False, "did not load within"),
    ],
)
def test_a_form_is_tried_where_the_models_code_is_not(loader, loads, reason, tmp_path):
    asked = np.arange(4, dtype=np.float32)
    form = deploying.SavedForm(tmp_path, f"def load(folder):\n    {loader}\n", "load", asked, asked * 2)
    found, why = deploying.loads_without_code(form, site=None, timeout_s=3)
    assert found is loads
    assert reason in why


@pytest.mark.parametrize(("device", "sees"), [("cpu", False), ("gpu", True)])
def test_a_form_is_tried_on_the_device_that_saved_it(device, sees, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    loader = "def load(folder):\n    import os\n    return lambda inputs: inputs * (os.environ['CUDA_VISIBLE_DEVICES'] == '0')\n"
    asked = np.arange(4, dtype=np.float32)
    form = deploying.SavedForm(tmp_path, loader, "load", asked, asked * sees)
    assert deploying.loads_without_code(form, site=None, timeout_s=10, device=device) == (True, "")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.16, 1.29, "confirmed"),
        (1.15, 1.30, "confirmed"),
        (1.0, 1.1, "refuted"),
        (1.4, 1.5, "refuted"),
        (1.1, 1.2, "cannot tell"),
        (1.2, 1.4, "cannot tell"),
        (1.0, 2.0, "cannot tell"),
    ],
)
def test_verdict(low, high, word):
    assert claims.conclude(low, high, claimed=(1.15, 1.30)) == word


@pytest.mark.parametrize(
    ("eager", "static", "word", "reason"),
    [
        (1.2, 1.0, "confirmed", ""),
        (2.0, 1.0, "refuted", "more than claimed"),
        (1.05, 1.0, "refuted", "less than claimed"),
        (0.5, 1.0, "refuted", "the opposite"),
    ],
)
def test_a_refuted_claim_says_in_which_direction(eager, static, word, reason):
    found = {"linear": {"paddle-eager": timed("step_ms", eager, eager), "paddle-static": timed("step_ms", static, static)}}
    result = next(one for one in claims.settle(found, devices=0) if one.claim.quantity == "step_ms" and one.pair)
    assert (result.conclusion, result.reason) == (word, reason)


def test_what_could_not_be_measured_is_untested_with_its_reason():
    missing = ModeResult("paddle-static", reason="it died")
    found = {"linear": {"paddle-eager": timed("step_ms", 1, 1), "paddle-static": missing}}
    settled = claims.settle(found, devices=0)
    assert {(one.conclusion, one.reason) for one in settled if one.pair} == {("untested", "paddle-static: it died")}
    assert settled[-1].conclusion == "untested"
    assert "none" in settled[-1].reason


def test_a_ratio_is_of_blocks_that_lay_next_to_each_other():
    ratio, low, high = comparison.ratio(timed("step_ms", 2, 3, 4), timed("step_ms", 1, 1, 1), "step_ms")
    assert (ratio, low, high) == pytest.approx((3, 2, 4))
    assert comparison.ratio(timed("step_ms", 2), ModeResult("torchscript"), "step_ms") is None


@pytest.mark.parametrize(("low", "high", "word"), [(1.17, 1.28, "confirmed"), (1.4, 1.5, "refuted")])
def test_no_claim_is_settled_within_what_the_reference_shows_against_itself(low, high, word):
    quiet, restless = Interval(1.0, 0.99, 1.01), Interval(1.05, 0.8, 1.25)
    assert claims.conclude(low, high, claimed=(1.15, 1.30), aa_ratio=quiet) == word
    assert claims.conclude(low, high, claimed=(1.15, 1.30), aa_ratio=restless) == "cannot tell"


def test_the_reference_against_itself_reaches_the_verdict():
    eager = timed("step_ms", 1.2, 1.2)
    found = {"linear": {"paddle-eager": eager, "paddle-static": timed("step_ms", 1.0, 1.0)}}
    words = []
    for aa_ratio in ({}, {"step_ms": Interval(1.0, 0.5, 2.0)}):
        eager.aa_ratio = aa_ratio
        words.append(next(one.conclusion for one in claims.settle(found, devices=0) if one.claim.quantity == "step_ms" and one.pair))
    assert words == ["confirmed", "cannot tell"]


@pytest.mark.slow
def test_a_mode_that_dies_in_the_race_is_a_row_with_its_reason_and_the_rest_is_timed(linear, settings, silent, monkeypatch):
    monkeypatch.setattr(timing, "Serving", Dies)
    found = {mode: ModeResult(mode) for mode in ("paddle-eager", "paddle-static")}
    comparison._time(linear, found, settings(starts=1).graph_modes, say=silent)
    assert "died of SIGKILL" in found["paddle-static"].reason
    assert not found["paddle-static"].timed
    assert found["paddle-eager"].measured
    assert found["paddle-eager"].median("forward_ms") > 0


class Dies(timing.Serving):
    def run(self, batch):
        if "Static" in type(self._mode).__name__:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(batch)


def test_a_loss_that_eager_hits_by_luck_does_not_refuse_another_mode():
    truth, lucky, reordered = [1.0, 2.0], [1.0, 2.0], [1.001, 1.998]
    assert agreement.noise_ratio([1.001, 2.002], [lucky], truth) > 8
    assert agreement.noise_ratio([1.001, 2.002], [lucky, reordered], truth) == pytest.approx(1, rel=0.01)


NAN = float("nan")


@pytest.mark.parametrize("wrong", [NAN, 1.1])
def test_a_wrong_answer_is_not_the_same_network(wrong):
    right = {"answer": np.ones(3), "losses": [1.0]}
    found = {"answer": np.array([1, wrong, 1]), "losses": [1.0]}
    agreed = agreement.judge(found, right, right, reordered=[], limit=8)
    assert not agreed.answer_noise <= 8
    assert "answers" in agreed.reason
    assert "losses" not in agreed.reason


@pytest.mark.parametrize(
    ("found", "reference", "truth"),
    [
        ([1.0, NAN], [1.0, 2.0], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, NAN], [1.0, 2.0]),
        ([1.0, NAN], [1.0, NAN], [1.0, NAN]),
        ([1.0], [[1.0]], [[1.0, 2.0]]),
    ],
)
def test_nan_and_another_size_are_never_taken_for_agreement(found, reference, truth):
    assert agreement.noise_ratio(found, [reference], truth) == float("inf")


def example(value):
    """Says what it does.

    And more.
    """
    # a comment

    return [
        value,
    ]


def test_lines_are_those_that_hold_code():
    assert line_count.count([example]) == 4
    assert line_count.count([example, example]) == 4

"""The soak finds a wrong answer, a wrong label, an error and memory that grows, and nothing where all is well."""

import numpy as np
import pytest

from benchmarks.serve import soak, soaking
from benchmarks.serve.soaking import Load, Seen
from paddleship.acceptance.judging import ServedCandidate
from paddleship.acceptance.questions import Question
from paddleship.acceptance.transport import ServerError
from paddleship.config.sections.verify import Verify
from tests.paddleship.proof.test_parity import LABELS, answers, evidence

CLASSES = ("a", "b", "c")
TIMES = np.arange(300.0) * 2


def load():
    return Load([], [], {}, evidence(), ServedCandidate("float32", CLASSES, "classification"), Verify())


def outputs(index=1):
    scores = answers()[index]["logits"]
    return {"logits": scores, "label": np.array([CLASSES[one] for one in scores.argmax(1)], object)}


def test_an_answer_like_eagers_has_no_fault_and_any_other_one_has():
    right = outputs()
    assert soaking.fault_of(load(), 1, right) == ""
    assert "logits is 0.1 from the truth" in soaking.fault_of(load(), 1, right | {"logits": right["logits"] + np.float32(0.1)})
    assert "no output 'logits'" in soaking.fault_of(load(), 1, {"label": right["label"]})
    assert "has the shape [1, 3] instead of [2, 3]" in soaking.fault_of(load(), 1, right | {"logits": right["logits"][:1]})
    assert "instead of" in soaking.fault_of(load(), 1, right | {"label": right["label"][::-1]})
    assert soaking.fault_of(load(), 1, right | {"logits": np.full_like(right["logits"], np.nan)})
    assert LABELS[0] != LABELS[1]


def test_errors_and_refusals_are_counted_apart():
    def refused(_):
        raise ServerError("500: broken", 500)

    seen, question = Seen(), Question(0, {}, [], {})
    for ask in (refused, lambda _: None, lambda _: outputs(), lambda _: outputs(2)):
        soaking._ask_once(load(), seen, "http", ask, question, 1)
    assert (seen.errors["http"], seen.busy["http"], seen.answered, seen.wrong["http"]) == (1, 1, 2, 1)
    assert seen.faults[0] == "http: 500: broken"


@pytest.mark.parametrize(("per_s", "grew"), [(0, False), (1e5, True), (-1e5, False), (1, False)])
def test_memory_that_grows_measurably_is_a_miss_and_noise_is_none(per_s, grew):
    noise = np.random.default_rng(0).normal(size=TIMES.size) * 1e5
    found = soak.growth([*zip(TIMES, 80e6 + per_s * TIMES + noise, strict=True)])
    assert found["memory_grew"] is grew

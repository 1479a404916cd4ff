"""Every output of a candidate of lower precision is judged, not only the one that decides."""

import numpy as np
import pytest

from paddleship.config.sections.verify import Verify
from paddleship.proof import evidence, parity, proving
from paddleship.proof.cases.inputs import Case

ROWS = 256
CASES = (
    Case("row 0 alone", "rows", {"x": np.zeros((1, 1), np.float32)}, (0,)),
    Case("rows 0 to 255", "rows", {"x": np.zeros((ROWS, 1), np.float32)}, tuple(range(ROWS))),
)
RANDOM = np.random.default_rng(0)
EAGER = {
    "price": RANDOM.normal(size=(ROWS, 1)),
    "spread": 3 + 0.1 * RANDOM.normal(size=(ROWS, 1)),
    "embedding": RANDOM.normal(size=(ROWS, 8)),
    "bias": np.full((ROWS, 2), 5.0),
    "nothing": np.zeros((ROWS, 2)),
    "kind": RANDOM.integers(0, 3, (ROWS, 2)),
}
KNOWN_BY_THE_LABELS = Verify(max_metric_drop=0.05)


def answers(**changes):
    """What eager answers, with some outputs replaced."""
    given = {**EAGER, **changes}
    cast = {name: array.astype(np.int64 if name == "kind" else np.float32) for name, array in given.items()}
    return [{name: array[list(case.rows)] for name, array in cast.items()} for case in CASES]


def judge(given, precision="bfloat16"):
    truth = [{name: array.astype(np.float64) if name != "kind" else array for name, array in one.items()} for one in answers()]
    found = evidence.gather(CASES, answers(), truth, task="regression", labels=EAGER["price"])
    return parity.judge(found, given, limits=KNOWN_BY_THE_LABELS, precision=precision)


def rounded(bits):
    """Every number with so many bits of its fraction, as a lower precision has them."""
    mantissa, exponent = zip(*(np.frexp(array) for name, array in EAGER.items() if name != "kind"), strict=True)
    names = [name for name in EAGER if name != "kind"]
    return {name: np.ldexp(np.round(m * 2**bits) / 2**bits, e) for name, m, e in zip(names, mantissa, exponent, strict=True)}


def failed(judgement):
    return {check.name for check in judgement.checks if not check.passed}


@pytest.mark.parametrize(("precision", "bits"), [("bfloat16", 8), ("float16", 11), ("int8", 6), ("float32-2:4", 5)])
def test_honest_rounding_of_every_output_passes(precision, bits):
    judgement = judge(answers(**rounded(bits)), precision)
    assert judgement, judgement.checks
    assert judgement.metrics["output_agreement"] > 0.99 or bits < 8
    assert judgement.metrics["output_flip_rate"] == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"spread": -3 * EAGER["spread"]}, "spread"),
        ({"spread": 6 - EAGER["spread"]}, "spread"),
        ({"embedding": EAGER["embedding"][:, ::-1]}, "embedding"),
        ({"embedding": -EAGER["embedding"]}, "embedding"),
        ({"embedding": 0 * EAGER["embedding"]}, "embedding"),
        ({"bias": 1.05 * EAGER["bias"]}, "bias"),
        ({"nothing": EAGER["nothing"] + 1e-3}, "nothing"),
    ],
    ids=["times -3", "sign of a small part", "columns", "sign", "zeros", "constant", "not nothing"],
)
@pytest.mark.parametrize("precision", ["bfloat16", "int8", "float32-2:4"])
def test_a_wrong_head_fails_and_is_named(changes, named, precision):
    judgement = judge(answers(**changes), precision)
    assert failed(judgement) == {"output_agreement"}
    assert named in str(next(check for check in judgement.checks if not check.passed))


def test_two_outputs_exchanged_fail():
    assert "output_agreement" in failed(judge(answers(price=EAGER["spread"], spread=EAGER["price"])))


def test_the_large_number_of_a_mask_hides_no_wrong_scores():
    kept = RANDOM.random((ROWS, 4)) > 0.4
    scores = RANDOM.normal(size=(ROWS, 4))
    first = np.eye(4, dtype=np.float32)[np.arange(ROWS) % 4]
    case = CASES[1]

    def given(scores):
        return [{"class": first, "scores": np.where(kept, scores, -1e9).astype(np.float32)}]

    known = evidence.gather([case], given(scores), None, task="classification")
    assert parity.judge(known, given(scores * 1.01), limits=Verify(), precision="int8")
    assert failed(parity.judge(known, given(-scores), limits=Verify(), precision="int8")) == {"output_agreement"}


def test_whole_numbers_may_differ_as_often_as_decisions():
    few, many = EAGER["kind"].copy(), EAGER["kind"].copy()
    few[:5, 0] += 1
    many[:50, 0] += 1
    assert judge(answers(kind=few))
    assert failed(judge(answers(kind=many))) == {"output_flip_rate"}


def test_in_float32_the_noise_judges_every_output():
    judgement = judge(answers(spread=-3 * EAGER["spread"]), "float32")
    assert failed(judgement) == {"noise_ratio", "typical_ratio"}
    assert "output_agreement" not in judgement.metrics


def test_rows_of_several_lengths_are_judged_by_all_their_values():
    shapes = [(4, 3), (4, 5)]
    cases = [Case(f"length {size}", "rows", {"x": np.zeros((4, size), np.float32)}, (0, 1, 2, 3)) for _, size in shapes]
    given = [
        {"score": np.arange(8.0).reshape(4, 2).astype(np.float32), "tokens": RANDOM.normal(size=shape).astype(np.float32)}
        for shape in shapes
    ]
    known = evidence.gather(cases, given, None, task="classification", labels=np.ones(4, np.int64))
    limits = Verify(max_flip_rate=0.9, max_metric_drop=0.9)
    assert parity.judge(known, given, limits=limits, precision="int8")
    wrong = [{**one, "tokens": -one["tokens"]} for one in given]
    assert failed(parity.judge(known, wrong, limits=limits, precision="int8")) == {"output_agreement"}


def test_a_classifier_of_one_column_decides_nothing_by_it():
    case = CASES[1]
    given = [{"score": EAGER["price"].astype(np.float32)}]
    known = evidence.gather([case], given, None, task="classification", labels=np.zeros(ROWS, np.int64))
    assert parity.judge(known, given, limits=Verify(), precision="int8")
    assert failed(parity.judge(known, [{"score": -given[0]["score"]}], limits=Verify(), precision="int8")) == {"output_agreement"}


def test_a_regression_is_told_by_its_score_and_a_classifier_by_its_decisions():
    lines = []
    proving._say_outcome("int8", judge(answers(), "int8"), lines.append, precision="int8")
    known = evidence.gather(CASES[1:], [{"s": np.eye(3, dtype=np.float32)[np.arange(ROWS) % 3]}], None, task="classification")
    judgement = parity.judge(known, known.reference, limits=Verify(), precision="int8")
    proving._say_outcome("int8", judgement, lines.append, precision="int8")
    assert lines == [
        "int8: proven by its score in int8, 1, which is the same as eager's",
        "int8: proven by its decisions in int8, of which 0.00% differ from eager's",
    ]

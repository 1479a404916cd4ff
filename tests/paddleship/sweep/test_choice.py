"""The choice: nothing is called better that cannot be told, and the limits are kept."""

import numpy as np
import pytest

from paddleship.config.sections.sweep import Sweep
from paddleship.reports import row_scores
from paddleship.reports.verdict import Check
from paddleship.statistics.estimates import Difference, Interval
from paddleship.sweep import choice
from paddleship.sweep.variant import Missed, SizeOf
from tests.paddleship.sweep.helpers import figures

BETTER, WORSE, CANNOT_TELL = Difference.BETTER, Difference.WORSE, Difference.CANNOT_TELL


@pytest.mark.parametrize(
    ("objective", "one", "other", "expected"),
    [
        ("score", {"score": 0.95}, {"score": 0.9}, BETTER),
        ("score", {"score": 0.9}, {"score": 0.95}, WORSE),
        ("score", {"score": 0.91}, {"score": 0.9}, CANNOT_TELL),
        ("score", {"score": 0.95, "data_sha256": "other rows"}, {"score": 0.9}, CANNOT_TELL),
        ("score", {"score": 0.95, "score_name": "validation_r2"}, {"score": 0.9}, CANNOT_TELL),
        ("score", {"score": Interval(0.901, 0.901, 0.901)}, {"score": Interval(0.9, 0.9, 0.9)}, BETTER),
        ("latency", {"p50": 0.5}, {"p50": 1.0}, BETTER),
        ("latency", {"p50": 1.0}, {"p50": 0.5}, WORSE),
        ("latency", {"p50": 0.95}, {"p50": 1.0}, CANNOT_TELL),
        ("latency", {"p50": 0.5, "measured_on": "another machine"}, {"p50": 1.0}, CANNOT_TELL),
        ("latency", {"p50": 0.5, "valid": False}, {"p50": 1.0}, CANNOT_TELL),
        ("size", {"size": 99}, {"size": 100}, BETTER),
        ("size", {"size": 1000}, {"size": 1009}, CANNOT_TELL),
    ],
)
def test_a_difference_counts_only_where_it_can_be_told(objective, one, other, expected):
    def made(given):
        score = given.pop("score", 0.9)
        return figures(**given, score=score) if isinstance(score, float) else figures(**given).model_copy(update={"score": score})

    assert choice.compare(objective, made(dict(one)), made(dict(other))) == expected


def rows(*wrong, count=1000):
    right = np.ones(count)
    right[[*wrong]] = 0
    return row_scores.pack(right / count)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (range(100), range(130), BETTER),  # whose intervals overlap
        (range(130), range(100), WORSE),
        (range(100), range(103), CANNOT_TELL),
        (range(0, 200, 2), range(1, 250, 2), CANNOT_TELL),
    ],
)
def test_scores_are_compared_row_by_row_where_the_rows_are_known(one, other, expected):
    pair = [figures(1 - len(wrong) / 1000, row_scores=rows(*wrong)) for wrong in (one, other)]
    assert choice.compare("score", *pair) == expected
    assert choice.compare("score", pair[0], pair[1].model_copy(update={"data_sha256": "other rows"})) == CANNOT_TELL


def test_the_best_score_is_chosen_although_its_interval_overlaps_that_of_a_faster_variant():
    variants = {1: figures(0.9, 2.0, row_scores=rows(*range(100))), 2: figures(0.87, 1.0, row_scores=rows(*range(130)))}
    found = chosen(variants)
    assert found.best == 1
    assert found.front == (1, 2)
    assert found.reason == "best in score: 0.9000 against 0.8700 of variant 2 (+0.0300, 95% interval +0.0192 to +0.0408)"


def test_a_better_value_that_was_not_chosen_is_explained():
    variants = {1: figures(0.9, 2.0, row_scores=rows(*range(100))), 2: figures(0.898, 1.0, row_scores=rows(*range(102)))}
    found = chosen(variants)
    assert found.best == 2
    score, latency = found.reason.replace("\xa0", " ").split("; best")
    assert score.startswith("in score, none is measurably better than 1 and 2 (0.9000 to 0.8980; +0.0020, 95% interval -0.00")
    assert latency == " in latency: 1.00 ms against 2.00 ms of variant 1"


def test_no_chain_of_small_differences_leads_away_from_the_best_score():
    """Each is not measurably better than the next, and faster; the first is measurably better than the last."""
    variants = {number: figures(0.99 - 0.005 * number, 10 * 0.9**number) for number in range(40)}
    assert chosen(variants).best in (1, 2, 3, 4)
    circle = {1: figures(0.93, 1.05, 1016), 2: figures(0.9, 1.0, 1008), 3: figures(0.915, 1.12, 1000), 4: figures(0.5, 5.0, 500)}
    assert chosen(circle).best != 4
    assert len(chosen({number: figures(0.9) for number in range(1, 41)}).reason) < 300


def test_what_is_not_valid_or_unknown_is_no_reason_to_be_chosen():
    variants = {1: figures(0.9, 0.5, valid=False), 2: figures(0.9, 1.0), 3: figures(0.9, 5.0)}
    found = chosen(variants, choose="latency")
    assert found.best == 2
    seen = "best in latency: 1.00 ms against 5.00 ms of variant 3 (1 is not compared: the machine was not free)"
    assert found.reason.replace("\xa0", " ") == seen
    unknown = {1: figures(0.9, 1.0).model_copy(update={"score": None}), 2: figures(-0.5, 1.0)}
    assert chosen(unknown).best == 2


@pytest.mark.parametrize("p50", [0.9, 1.2])
def test_a_p50_that_is_not_valid_does_not_meet_the_limit_and_asks_for_another_measurement(p50):
    refused = {1: f"p50 {p50} ms does not meet 1 ms: the speed is not valid, the machine was not free"}
    found = chosen({1: figures(0.95, p50, valid=False), 2: figures(0.9, 0.95)}, max_p50_ms=1.0)
    assert (found.best, found.refused) == (2, refused)
    none = chosen({1: figures(0.95, p50, valid=False)}, max_p50_ms=1.0)
    assert none.reason == f"no variant can be chosen: {refused[1]} (variant 1): measure again on an idle machine"


def test_sizes_of_different_things_and_scores_of_different_metrics_are_not_compared():
    image = figures(size=1000, size_of=SizeOf.IMAGE)
    assert choice.compare("size", figures(size=10), image) == CANNOT_TELL
    one, other = (figures(score, score_code=f"metric theirs:auc {code}") for score, code in ((0.9, "1a"), (0.4, "2b")))
    assert choice.compare("score", one, other) == CANNOT_TELL


def test_a_variant_is_not_beaten_by_a_smaller_one_whose_score_is_lower_by_value():
    large, small = figures(0.9, size=206), figures(0.885, size=180)
    assert not choice.beats(small, large)
    assert choice.beats(figures(0.9, size=180), large)
    assert chosen({1: large, 2: small}).front == (1, 2)


@pytest.mark.parametrize("changes", [{"valid": False}, {"measured_on": "there"}, {"size_of": SizeOf.IMAGE}, {"data_sha256": "e"}])
def test_a_variant_beats_no_other_one_that_it_was_not_compared_with_in_everything(changes):
    assert choice.beats(figures(0.95, 0.5), figures(0.9, 1.0))
    assert not choice.beats(figures(0.95, 0.5, **changes), figures(0.9, 1.0))


def test_figures_without_a_score_are_compared_in_what_they_have():
    slow, fast = (figures(p50=p50).model_copy(update={"score": None}) for p50 in (1.0, 0.5))
    assert choice.beats(fast, slow)
    assert not choice.beats(fast, figures())


def test_the_leaders_are_among_those_that_are_compared_with_each_other():
    hosts = {"a": figures(p50=0.02), "b": figures(p50=0.04), "c": figures(p50=2.0, measured_on="there")}
    assert [*choice.leaders("latency", hosts)] == ["a"]
    assert [*choice.leaders("latency", hosts | {"d": figures(p50=1.0, measured_on="there")})] == ["a", "d"]
    rows_apart = {1: figures(0.95), 2: figures(0.8), 3: figures(0.3, data_sha256="e")}
    assert [*choice.leaders("score", rows_apart)] == [1]


def test_a_score_on_other_rows_is_not_chosen_and_the_reason_names_it():
    found = chosen({1: figures(0.95), 2: figures(0.8), 3: figures(0.3, 0.1, data_sha256="e")})
    assert found.best == 1
    assert found.reason == "best in score: 0.9500 against 0.8000 of variant 2 (3 is not compared: the scores are on different rows)"


def test_what_was_not_compared_is_not_decided_by_its_value():
    apart = {1: figures(0.8), 2: figures(0.9, data_sha256="e")}
    found = chosen(apart)
    assert found.best == 1
    assert found.reason.startswith("in score, 1 and 2 are not compared with each other, because the scores are on different rows; ")
    assert found.reason.endswith("; nothing that was compared tells 1 and 2 apart, and 1 is the first")
    by_latency = chosen({1: apart[1], 2: figures(0.9, 0.99, data_sha256="e")})
    assert by_latency.best == 2
    assert by_latency.reason.endswith("; 2 has the best latency by value")


def test_the_value_is_the_best_of_those_that_are_left_only():
    found = chosen({1: figures(0.904, 2.0), 2: figures(0.902), 3: figures(0.9)})
    assert found.best == 2
    reason = found.reason.replace("\xa0", " ")
    assert "; in latency, 2 and 3 share the best (1.00 ms); " in reason
    assert reason.endswith("; of 2 and 3, which are left, 2 has the best score by value")


def chosen(variants, **settings):
    return choice.choose(variants, Sweep(**settings))


def test_the_front_holds_every_variant_that_no_other_one_beats():
    variants = {1: figures(0.9, 1.0), 2: figures(0.95, 2.0), 3: figures(0.9, 2.0), 4: figures(0.9, 3.0, size=50)}
    assert chosen(variants).front == (1, 2, 4)


def test_a_variant_that_seems_faster_and_is_not_does_not_stay_in_front():
    assert chosen({1: figures(0.95, 1.0), 2: figures(0.9, 0.97)}).front == (1,)


@pytest.mark.parametrize(("objective", "best"), [("score", 2), ("latency", 1), ("size", 3)])
def test_the_choice_is_by_the_objective(objective, best):
    variants = {1: figures(0.9, 1.0, 100), 2: figures(0.95, 2.0, 100), 3: figures(0.9, 2.0, 50)}
    found = chosen(variants, choose=objective)
    assert found.best == best
    assert found.reason.startswith(f"best in {objective}: ")
    assert found.check.passed


def test_what_cannot_be_told_apart_is_decided_by_the_next_objective():
    found = chosen({1: figures(0.905, 2.0, 90), 2: figures(0.9, 1.0, 100), 3: figures(0.7, 0.5, 80)})
    assert found.best == 2
    score, latency = found.reason.replace("\xa0", " ").split("; ")
    assert score == "in score, none is measurably better than 1 and 2 (0.9050 to 0.9000)"
    assert latency == "of 1 and 2, which are left, 2 is best in latency: 1.00 ms against 2.00 ms of variant 1"


def test_the_reason_has_the_digits_that_show_it():
    found = chosen({1: figures(0.9, size=205_990_000), 2: figures(0.9, size=203_010_000)}, choose="size")
    assert found.reason == "best in size: 203\xa0MB against 206\xa0MB of variant 1"
    close = {number: figures(0.5).model_copy(update={"score": Interval(*[score] * 3)}) for number, score in ((1, 0.99998), (2, 0.99999))}
    close = {number: one.model_copy(update={"score_has_interval": False}) for number, one in close.items()}
    assert chosen(close).reason == "best in score: 0.99999 against 0.99998 of variant 1 (by value, without an interval)"


def test_variants_that_are_the_same_in_everything_are_decided_by_their_value():
    found = chosen({1: figures(0.9), 2: figures(0.904)})
    assert found.best == 2
    same = "in latency, 1 and 2 have the same (1.00 ms); in size, 1 and 2 have the same"
    assert same in found.reason.replace("\xa0", " ")
    assert found.reason.endswith("; 2 has the best score by value")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_score": 0.92}, "validation_accuracy 0.9 is below 0.92"),
        ({"max_p50_ms": 0.9}, "p50 1 ms is above 0.9 ms"),
        ({"max_size_bytes": 99}, "100 bytes are above 99"),
    ],
)
def test_a_variant_beyond_a_limit_cannot_be_chosen(settings, words):
    found = chosen({1: figures(0.9, 1.0, 100), 2: figures(0.93, 0.5, 80)}, **settings)
    assert found.best == 2
    assert found.refused == {1: words}
    none = chosen({1: figures(0.9, 1.0, 100)}, **settings)
    assert none.best is None
    assert not none.check.passed
    assert words in none.reason


def test_gates_that_all_variants_missed_are_named_with_the_best_value_and_their_own_next_step():
    def gate(score):
        return (
            Missed(stage="train", check=Check.at_least("validation_accuracy", score, 0.8, advice="train longer, or lower train.min_score")),
        )

    none = choice.choose({}, Sweep(), missed={1: gate(0.5), 2: gate(0.71), 3: gate(0.6)})
    assert none.reason == (
        "no variant can be chosen: train: validation_accuracy is 0.71 (limit 0.8; variant 2, the nearest of 3): train longer, or lower "
        "train.min_score, or widen sweep.space"
    )
    assert none.check.advice in none.reason
    assert choice.choose({1: figures()}, Sweep(), missed={2: gate(0.5)}).best == 1


def test_only_the_limits_that_were_set_and_not_met_are_to_be_moved():
    none = chosen({1: figures(0.9, 3.0), 2: figures(0.9, 2.0), 3: figures(0.5, 0.5)}, max_p50_ms=1.0, min_score=0.8)
    assert none.reason == (
        "no variant can be chosen: p50 2 ms is above 1 ms (variant 2, the nearest of 2): raise sweep.max_p50_ms, or widen sweep.space; "
        "validation_accuracy 0.5 is below 0.8 (variant 3): lower sweep.min_score, or widen sweep.space"
    )


def test_a_variant_within_the_limits_is_chosen_although_one_beyond_them_beats_it():
    assert chosen({1: figures(0.9, 1.0, 100), 2: figures(0.95, 0.5, 200)}, max_size_bytes=150).best == 1


def test_a_circle_of_unclear_differences_leaves_somebody_in_front(monkeypatch):
    monkeypatch.setattr(choice, "beats", lambda _one, _other: True)
    assert choice._front({1: figures(), 2: figures()}) == (1, 2)

"""What comes next: every variant once, nothing again after a restart, and better values where Optuna has learnt."""

import pytest

from paddleship.config.sections.sweep import Sweep
from paddleship.sweep import space
from paddleship.sweep.study import Study

LISTS = {"a": [1, 2, [3]], "b": [1, 2, 3]}


def all_of(study, reach=lambda _point: (1.0, 1.0, 1.0)):
    found = []
    while (point := study.next()) is not None:
        found.append(point)
        study.tell(point, reach(point))
    return found


@pytest.mark.parametrize("method", ["grid", "random", "optuna"])
def test_every_variant_of_a_finite_space_comes_once(method):
    found = all_of(Study(Sweep(space=LISTS, method=method, trials=50), seed=0))
    assert sorted(map(space.key, found)) == sorted(map(space.key, space.combinations(Sweep(space=LISTS))))


@pytest.mark.parametrize("method", ["grid", "random", "optuna"])
def test_no_more_variants_come_than_trials_and_none_that_is_known(method):
    settings = Sweep(space=LISTS, method=method, trials=4)
    first = all_of(Study(settings, seed=0))
    assert len(first) == 4
    again = Study(settings.model_copy(update={"trials": 6}), seed=0)
    for point in first:
        again.know(point)
        again.tell(point, (1.0, 1.0, 1.0))
    more = all_of(again)
    assert len(more) == 2
    assert not {*map(space.key, first)} & {*map(space.key, more)}


@pytest.mark.parametrize("method", ["random", "optuna"])
def test_drawn_values_are_in_their_range_and_short(method):
    wide = {"rate": {"low": 1e-5, "high": 1e-1, "log": True}, "epochs": {"low": 2, "high": 9}}
    for point in all_of(Study(Sweep(space=wide, method=method, trials=12), seed=3)):
        assert 1e-5 <= point["rate"] <= 1e-1
        assert len(f"{point['rate']:g}") <= 9
        assert isinstance(point["epochs"], int)
        assert 2 <= point["epochs"] <= 9


def test_a_restart_draws_other_values_than_the_first_time():
    settings = Sweep(space={"rate": {"low": 0.0, "high": 1.0}}, method="random", trials=8)
    first = Study(settings, seed=0).next()
    again = Study(settings, seed=0)
    again.know(first)
    assert again.next() != first


def test_a_failed_variant_is_no_reason_to_stop():
    study = Study(Sweep(space=LISTS, method="optuna", trials=9), seed=0)
    assert len(all_of(study, reach=lambda _point: None)) == 9


def test_optuna_comes_nearer_to_the_best_values_than_chance():
    def distances(method):
        settings = Sweep(space={"x": {"low": 0.0, "high": 1.0}}, method=method, trials=30)
        found = all_of(Study(settings, seed=1), reach=lambda point: (-abs(point["x"] - 0.3), 1.0, 1.0))
        return sum(abs(point["x"] - 0.3) for point in found[15:]) / 15

    assert distances("optuna") < 0.7 * distances("random")

"""The search for the pass that makes a program wrong."""

import pytest

from benchmarks.aa import model
from paddleship.diagnosis.passes import find, smallest

NAMES = [f"pass_{number}" for number in range(30)]


@pytest.mark.parametrize("wrong", [{"pass_0"}, {"pass_17"}, {"pass_29"}, {"pass_3", "pass_21"}, {"pass_1", "pass_2", "pass_28"}])
def test_the_passes_that_must_all_be_off_are_found(wrong):
    asked = []

    def cures(off):
        asked.append(set(off))
        return wrong <= set(off)

    assert set(smallest(NAMES, cures)) == wrong
    assert len(asked) < 8 * len(wrong) + 4


def test_either_of_two_is_enough_so_one_is_named():
    assert smallest(NAMES, lambda off: bool({"pass_4", "pass_9"} & set(off))) == ["pass_4"]


def test_nothing_is_named_when_nothing_cures():
    assert smallest(NAMES, lambda off: "absent" in off) == []
    assert smallest([], lambda off: "absent" in off) == []
    assert smallest([], lambda off: not off) == []
    assert smallest(NAMES, lambda off: len(off) > 20) == []


def test_no_pass_is_blamed_for_answers_that_need_no_cure(tmp_path):
    folder = model.make(tmp_path / "model")
    assert find(folder, model.batches()[1][0], bool, timeout_s=60) is None

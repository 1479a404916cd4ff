"""The files of the zoo: what is expected of them is well formed, a run that ends otherwise is a miss, and two of them end as expected."""

import re
from dataclasses import replace

import pytest

from benchmarks.zoo import catalogue as models
from benchmarks.zoo.files import catalogue, visiting

KNOWN = catalogue.specimens()
IMAGE, REFUSED = KNOWN["plain"], replace(KNOWN["renamed"], refused="does not fit")
PASSED = "accept   16.0  ran  passed   23 batches"


def test_every_file_has_its_own_name_and_its_expected_error_is_a_pattern():
    assert len(KNOWN) == len(catalogue.split(["files"])[1]) >= 20
    assert not set(KNOWN) & {*models.specimens(), catalogue.PART}
    assert all(re.compile(specimen.refused) for specimen in KNOWN.values())
    assert set(catalogue.SHORT) <= set(KNOWN)


@pytest.mark.parametrize(
    ("names", "short", "others", "files"),
    [
        ([], False, [], len(KNOWN)),
        ([], True, [], len(catalogue.SHORT)),
        (["files"], False, None, len(KNOWN)),
        (["plain", "traps"], False, ["traps"], 1),
        (["traps"], False, ["traps"], 0),
    ],
)
def test_names_choose_files_and_leave_the_rest_to_the_models(names, short, others, files):
    left, chosen = catalogue.split(names, short=short)
    assert (left, len(chosen)) == (others, files)


@pytest.mark.parametrize(
    ("specimen", "code", "output", "misses"),
    [
        (IMAGE, 0, PASSED, []),
        (IMAGE, 0, "accept   –  –", ["exit code 0: nothing"]),
        (IMAGE, 3, "error: a gate", ["exit code 3: a gate"]),
        (REFUSED, 2, "error: it does not fit", []),
        (REFUSED, 0, PASSED, ["exit code 0, and 2 or 3 is right", "the error does not match 'does not fit': nothing"]),
        (REFUSED, 2, "error: another", ["the error does not match 'does not fit': another"]),
        (REFUSED, 1, "Traceback\nerror: it does not fit", ["exit code 1, and 2 or 3 is right", "a traceback"]),
    ],
)
def test_a_run_that_ends_otherwise_than_expected_is_a_miss(specimen, code, output, misses):
    assert visiting.judge(specimen, code, output, "accept")[1] == misses


@pytest.mark.slow
def test_the_short_selection_ends_as_expected():
    ended = visiting.visit(catalogue.split([], short=True)[1], until="train")
    assert all(ended), visiting.table([visited for visited in ended if not visited])

"""Whose containers and networks an acceptance may end."""

import time

import pytest

from paddleship.system import processes
from tasks import image


def labels(owner, *, left_s=60.0):
    return {image._OWNER: owner, image._UNTIL: str(int(time.time() + left_s))}


def test_what_a_living_process_made_stays_however_long_it_takes():
    assert not image._is_left_over(labels(processes.identity(), left_s=-60))


def test_what_a_dead_process_made_is_left_over_at_once():
    realm, _, started = processes.identity().rsplit("/", 2)
    assert image._is_left_over(labels(f"{realm}/{2**22 + 1}/{started}"))


@pytest.mark.parametrize(("left_s", "left_over"), [(60, False), (-60, True)])
def test_what_was_made_out_of_sight_is_left_over_only_after_its_time(left_s, left_over):
    assert image._is_left_over(labels("another-boot/pid:[1]/7/1.00", left_s=left_s)) is left_over

"""Contenders wait for their turn in processes of their own."""

import os

import psutil
import pytest

from paddleship.errors import BadInput
from paddleship.proof.answering import ModelUnderTest, Queue
from paddleship.system.isolate import Isolated


class Numbered:
    """Answers with the number of its process."""

    def run(self, inputs):
        return {"pid": os.getpid(), **inputs}


def refuse():
    raise BadInput("no such folder")


WELL, BROKEN = ModelUnderTest(Numbered, ()), ModelUnderTest(refuse, ())


def test_the_next_contender_is_there_when_its_turn_comes_and_one_that_cannot_load_has_its_reason():
    with Queue([("one", WELL), ("broken", BROKEN), ("two", WELL)], timeout_s=60) as queue:
        seen = [(name, child.call("run", {})["pid"] if isinstance(child, Isolated) else str(child)) for name, _, child in queue]
    assert [name for name, _ in seen] == ["one", "broken", "two"]
    assert seen[1][1] == "no such folder"
    assert len({os.getpid(), seen[0][1], seen[2][1]}) == 3


@pytest.mark.spawned
def test_a_contender_that_loaded_and_was_never_asked_is_ended():
    before = set(psutil.Process().children(recursive=True))
    with Queue([("one", WELL), ("two", WELL)], timeout_s=60) as queue:
        _, _, child = next(iter(queue))
        child.close()
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if "spawn_main" in " ".join(process.cmdline())]

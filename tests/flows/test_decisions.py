"""Which decision of the ledger a promotion continues, and which versions it compares."""

import pytest

from flows import promote
from paddleship.errors import Unavailable
from paddleship.promotion.ledger import Event, Ledger
from tests.paddleship.promotion.test_ledger import entry, shipped

GATES = {"approval": "none"}


@pytest.fixture
def ledger(tmp_path):
    """Version 1 serves."""
    made = Ledger(tmp_path / "ledger.jsonl", "m")
    for event in (Event.DECIDED, Event.SERVING, Event.SETTLED):
        made.append(entry("1", event))
    return made


def test_a_version_that_serves_is_only_brought_in_line(ledger):
    assert promote._known(ledger, shipped("1"), GATES).event == Event.SERVING
    assert promote._known(ledger, shipped("2"), GATES) is None


@pytest.mark.parametrize(("gates", "continued"), [(GATES, True), ({"approval": "human"}, False)])
def test_an_unfinished_decision_is_continued_only_by_the_gates_that_made_it(ledger, gates, continued):
    ledger.append(entry("2", Event.DECIDED, gates=GATES))
    assert (promote._known(ledger, shipped("2"), gates) is not None) == continued
    assert promote._known(ledger, shipped("1"), GATES) is None, "another decision is open"


def test_one_that_serves_already_is_finished_whatever_the_gates_are_now(ledger):
    decided = ledger.append(entry("2", Event.DECIDED, gates=GATES))
    ledger.append(entry("2", Event.SERVING))
    assert promote._known(ledger, shipped("2"), {"approval": "human"}) == decided
    with pytest.raises(Unavailable, match=r"version 2 serves, but the champion in MLflow is version 1: .* `paddleship promote 2`"):
        promote._require_settled(ledger, shipped("1"))
    promote._require_settled(ledger, shipped("2"))

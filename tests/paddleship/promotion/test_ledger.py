"""The ledger: whole lines only, in order, and what served on a day."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from paddleship.errors import BadInput
from paddleship.promotion.ledger import Entry, Ledger, Shipped, missing

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def shipped(version, **changes):
    facts = {"image": f"m:{version}", "image_id": f"sha256:{version}", "candidate_digest": version * 64}
    return Shipped(model="m", version=version, **{**facts, **changes})


def entry(version, event="serving", day=0, **facts):
    return Entry(
        **{"event": event, "action": "promote", "shipped": shipped(version), "why": "better", "at": BEGIN + timedelta(days=day), **facts}
    )


def test_a_rollback_goes_to_the_version_before_although_the_present_one_got_a_target_later(path):
    ledger = Ledger(path, "m")
    for version, day, target in (("1", 0, None), ("2", 1, None), ("2", 2, "m at 127.0.0.1:8080")):
        ledger.append(entry(version, day=day, target=target))
    assert ledger.former().version == "1"
    ledger.append(entry("1", day=3, action="rollback", target="m at 127.0.0.1:8080"))
    with pytest.raises(BadInput, match="no champion came before version 1 of 'm'"):
        ledger.former()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state/ledger.jsonl"


def test_what_was_appended_is_read_again_in_order(path):
    ledger = Ledger(path, "m")
    made = [ledger.append(entry("1")), ledger.append(entry("2", day=1))]
    assert Ledger(path, "m").entries == made


def test_a_torn_last_line_is_no_entry_and_gives_way_to_the_next(path):
    first = Ledger(path, "m").append(entry("1"))
    with path.open("ab") as stream:
        stream.write(b'{"id": "half of an en')
    assert Ledger(path, "m").entries == [first]
    second = Ledger(path, "m").append(entry("2", day=1))
    assert Ledger(path, "m").entries == [first, second]
    assert path.read_bytes().count(b"\n") == 2


def test_a_disk_that_takes_a_part_of_a_line_gets_the_rest_or_the_entry_fails(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, line: write(handle, line[:7]))
    made = Ledger(path, "m").append(entry("1"))
    monkeypatch.undo()
    assert Ledger(path, "m").entries == [made]


def test_a_line_in_the_middle_that_is_no_entry_is_named(path):
    Ledger(path, "m").append(entry("1"))
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(BadInput, match="line 1 of the ledger"):
        _ = Ledger(path, "m").entries


def test_models_share_a_file_and_nothing_else(path):
    Ledger(path, "m").append(entry("1"))
    assert Ledger(path, "n").entries == []


def test_the_last_entry_counts_though_the_clock_was_set_back_before_it(path):
    ledger = Ledger(path, "m", elsewhere=[entry("2", day=4)])
    for version, day in (("1", 3), ("3", 2)):
        ledger.append(entry(version, day=day))
    assert [made.shipped.version for made in ledger.entries] == ["2", "1", "3"]
    assert ledger.serving().shipped.version == "3"
    assert ledger.former() == shipped("1")


def test_it_says_what_served_on_a_day(path):
    ledger = Ledger(path, "m")
    for version, day in (("1", 0), ("2", 3)):
        ledger.append(entry(version, "decided", day=day))
        ledger.append(entry(version, at=BEGIN + timedelta(days=day, hours=1)))
        ledger.append(entry(version, "settled", at=BEGIN + timedelta(days=day, hours=2)))
    ledger.append(entry("3", "refused", day=5))
    assert ledger.serving(BEGIN) is None
    assert ledger.unfinished(BEGIN).shipped.version == "1"
    assert ledger.serving(BEGIN + timedelta(days=2)).shipped.version == "1"
    assert ledger.serving(BEGIN + timedelta(days=3, minutes=5)).shipped.version == "1"
    assert ledger.unfinished(BEGIN + timedelta(days=3, minutes=5)).shipped.version == "2"
    assert ledger.unfinished(BEGIN + timedelta(days=3, hours=1)).shipped.version == "2"
    assert ledger.serving().shipped.version == "2"
    assert ledger.unfinished() is None


def test_entries_of_other_machines_count_once(path):
    ledger = Ledger(path, "m")
    own, foreign = ledger.append(entry("1")), entry("2", day=1)
    assert Ledger(path, "m", elsewhere=[own, foreign]).entries == [own, foreign]
    assert missing([own], [own, foreign]) == [foreign]


def test_rolling_back_again_goes_further_back_and_not_forth(path):
    ledger = Ledger(path, "m")
    for day, version in enumerate("123"):
        ledger.append(entry(version, day=day))
    assert ledger.former() == shipped("2")
    ledger.append(entry("2", day=4, action="rollback"))
    assert ledger.former() == shipped("1")
    ledger.append(entry("4", day=5))
    assert ledger.former() == shipped("2")
    assert ledger.former("3") == shipped("3")


def test_while_a_promotion_is_under_way_the_one_before_it_is_what_to_go_back_to(path):
    ledger = Ledger(path, "m")
    for day, version in enumerate("12"):
        ledger.append(entry(version, day=day))
    ledger.append(entry("3", "decided", day=3))
    assert ledger.former() == shipped("2")
    ledger.append(entry("4", "refused", day=4))
    assert ledger.unfinished().shipped == shipped("3")
    ledger.append(entry("3", "refused", day=5))
    assert ledger.unfinished() is None
    assert ledger.former() == shipped("1")


def test_who_was_never_champion_cannot_come_back(path):
    ledger = Ledger(path, "m")
    with pytest.raises(BadInput, match="names no champion of 'm'"):
        ledger.former()
    ledger.append(entry("1"))
    with pytest.raises(BadInput, match=r"version 1 is the only champion that 'm' has had"):
        ledger.former()
    with pytest.raises(BadInput, match=r"version 7 was never champion of 'm' \(champions so far: 1\)"):
        ledger.former("7")


def test_many_processes_that_append_at_once_lose_nothing(path):
    code = (
        "import sys; from pathlib import Path; from paddleship.promotion.ledger import Entry, Ledger, Shipped\n"
        "shipped = Shipped(model='m', version='1', image='m:1', image_id='1', candidate_digest='1')\n"
        "ledger = Ledger(Path(sys.argv[1]), 'm')\n"
        "for _ in range(40): ledger.append(Entry(event='serving', action='promote', shipped=shipped, why='w'))"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(4)]
    assert [process.wait(300) for process in started] == [0] * 4
    assert len(Ledger(path, "m").entries) == 160

"""How often long work speaks, and how many remaining times it tells."""

import pytest

from paddleship.system import progress
from paddleship.system.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("terminal", "lines"), [(False, 4), (True, 30)])
def test_a_log_gets_a_line_every_15_seconds_and_a_terminal_every_2(clock, monkeypatch, capsys, terminal, lines):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    work = Progress("reading", 600, "rows")
    for _ in range(600):
        clock[0] += 0.1
        work.advance()
    assert len(capsys.readouterr().out.splitlines()) in (lines - 1, lines)


def test_work_with_a_time_limit_tells_no_more_than_what_is_left_of_it(clock, capsys):
    work = Progress("measuring", 5, "starts", every_s=0)
    clock[0] += 60
    work.advance(most_s=40)
    assert "eta 40s" in capsys.readouterr().out
    work.advance(3, most_s=40)
    assert "eta 15s" in capsys.readouterr().out


@pytest.mark.parametrize("eta", [True, False])
def test_a_part_of_longer_work_leaves_the_remaining_time_to_it(clock, capsys, eta):
    work = Progress("epoch 1/8", 10, "rows", every_s=0, eta=eta)
    clock[0] += 1
    work.advance()
    assert ("eta" in capsys.readouterr().out) is eta

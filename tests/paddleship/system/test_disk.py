import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from paddleship.errors import BadInput, Unavailable
from paddleship.system import disk


def full_file():
    Path("/dev/full").write_text("x")


def full_database():
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("pragma max_page_count = 2")
        database.execute("create table t (x)")
        database.execute("insert into t values (zeroblob(100000))")


def full_behind_another():
    try:
        full_file()
    except OSError:
        raise BadInput("the model does not convert") from None


def full_in_words():
    raise RuntimeError(f"(External) write of weights failed: {os.strerror(errno.ENOSPC)} at file_io.cc:12")


@pytest.mark.parametrize("work", [full_file, full_database, full_behind_another, full_in_words])
def test_a_full_disk_is_unavailable_whoever_reports_it(work):
    with (
        pytest.raises(Unavailable, match=r"the run cannot use .*No space left on device.*: free some space"),
        disk.full_is_unavailable("the run"),
    ):
        work()


def test_an_error_that_says_it_already_keeps_its_words():
    with pytest.raises(Unavailable, match=r"^'x' is full"), disk.full_is_unavailable("the run"):
        raise Unavailable(f"'x' is full ({os.strerror(errno.ENOSPC)})")


@pytest.mark.parametrize("error", [BadInput("wrong"), OSError(errno.EACCES, "no", "x"), sqlite3.OperationalError("locked"), ValueError()])
def test_any_other_error_stays_what_it_is(error):
    with pytest.raises(type(error)) as raised, disk.full_is_unavailable("the run"):
        raise error
    assert raised.value is error

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paddleship.shipped.computing import files


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    target = tmp_path / "deep" / "out"
    with files.new_folder(target) as beside:
        (beside / "a").write_text("1")
        assert not target.exists()
    assert (target / "a").read_text() == "1"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_a_failure_keeps_the_old_folder_and_leaves_nothing_beside(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").write_text("1")
    with pytest.raises(IsADirectoryError), files.new_folder(target) as beside:
        beside.write_text("2")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "old"]


def test_what_an_earlier_kill_left_is_not_taken_for_good(tmp_path):
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / "half").write_text("x")
    with files.new_folder(tmp_path / "out") as beside:
        (beside / "whole").write_text("1")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["whole"]


KILLED = """
import os, signal
from pathlib import Path
from paddleship.shipped.computing import files
files.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
files.write_text(Path("a.json"), "half")
"""


def test_what_a_killed_writer_left_goes_with_the_next_write_and_what_a_living_one_writes_stays(tmp_path):
    (tmp_path / ".a.json.schema").write_text("somebody else's")
    assert subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.glob(".a.json.????????")
    with left.open() as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        files.write_text(tmp_path / "a.json", "1")
        assert left.exists()
    files.write_text(tmp_path / "a.json", "2")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.json.schema", "a.json"]


def test_text_is_replaced_whole(tmp_path):
    files.write_text(tmp_path / "new" / "a.json", "1")
    files.write_text(tmp_path / "new" / "a.json", "2")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json"]
    assert (tmp_path / "new" / "a.json").read_text() == "2"
    assert files.sha256(tmp_path / "new" / "a.json").startswith("d4735e3a")


@pytest.mark.parametrize("at_home", [True, False])
def test_a_user_without_a_home_has_one_for_a_while(tmp_path, monkeypatch, at_home):
    (tmp_path / "file").touch()
    place = tmp_path if at_home else tmp_path / "file"
    monkeypatch.setenv("HOME", str(place))
    with files.home():
        lent = Path.home()
        (lent / ".cache").mkdir(exist_ok=True)
        assert (lent == place) == at_home
    assert Path.home() == place
    assert lent.exists() == at_home

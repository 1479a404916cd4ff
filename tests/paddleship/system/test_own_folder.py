"""The folder of one user below a folder of all users."""

import os
from pathlib import Path

import pytest

from paddleship.errors import Unavailable
from paddleship.system import defects, own_folder


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_each_user_has_a_private_folder_of_its_own(shared, monkeypatch):
    mine = own_folder.temporary()
    assert mine.parent == shared
    assert mine.stat().st_mode & 0o777 == 0o700
    mine.chmod(0o755)
    assert own_folder.temporary().stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    (shared / "paddleship-4711").mkdir()
    with pytest.raises(Unavailable, match=r"paddleship-4711 is not a folder of this user \(owner \d+, this user 4711\)"):
        own_folder.temporary()


@pytest.mark.parametrize("taken", ["link", "file"])
def test_a_name_that_another_user_took_is_refused_with_the_way_out(shared, taken):
    path, private = shared / f"paddleship-{os.getuid()}", shared / "private"
    private.mkdir(mode=0o755)
    path.symlink_to(private) if taken == "link" else path.write_text("")
    with pytest.raises(Unavailable, match="set TMPDIR to a folder of your own"):
        own_folder.temporary()
    assert private.stat().st_mode & 0o777 == 0o755


def test_the_traceback_of_a_defect_goes_to_the_users_own_folder(shared):
    (shared / "doctor.defect.log").mkdir()  # of another user, who was first
    line, _ = defects.report(RuntimeError("x"), what="doctor", folder=Path("does-not-exist"))
    assert f"please report it with {own_folder.temporary()}/doctor.defect.log" in line

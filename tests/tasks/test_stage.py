import errno
import shutil

import pytest

from tasks import stage


def full(_params):
    raise OSError(errno.ENOSPC, "No space left on device", "models/x")


def closed(_params):
    raise PermissionError(errno.EACCES, "Permission denied", "models/y")


def broken(_params):
    raise FileNotFoundError(errno.ENOENT, "No such file or directory", "z")


@pytest.mark.parametrize(
    ("verb", "code", "words"),
    [
        (full, 4, "error: full cannot use 'models/x' (No space left on device): free some space there, and run it again"),
        (closed, 4, "error: closed cannot use 'models/y' (Permission denied): allow this user"),
        (broken, 1, "error: broken hit a defect of paddleship"),
    ],
)
def test_a_disk_that_is_full_or_closed_is_no_defect(verb, code, words, request, tmp_path, monkeypatch, capsys):
    shutil.copy(request.config.rootpath / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["verb"])
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        stage.main(verb)
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert words in said
    assert ("Traceback" in said) == (code == 1)

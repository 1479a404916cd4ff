import errno
import shutil
import sys

import pytest

from paddleship.errors import ModelError
from paddleship.numerics import differences
from paddleship.stage import frame
from paddleship.system import isolate


def full(_params):
    raise OSError(errno.ENOSPC, "No space left on device", "models/x")


def full_and_blames_the_model(_params):
    try:
        full(None)
    except OSError:
        raise ModelError("'a:b' does not convert: correct it") from None


def closed(_params):
    raise PermissionError(errno.EACCES, "Permission denied", "models/y")


def broken(_params):
    raise FileNotFoundError(errno.ENOENT, "No such file or directory", "z")


def broken_in_a_child(_params):
    isolate.run("the comparison", differences.elementwise_distance, None, None, timeout_s=60)


def misused(_params):
    raise ModelError("'a:b' does not exist: correct the name")


def leaves(_params):
    sys.exit(3)  # the exit code of a gate


@pytest.mark.parametrize(
    ("verb", "code", "words"),
    [
        (full, 4, "error: full cannot use 'models/x' (No space left on device): free some space there, and run it again"),
        (full_and_blames_the_model, 4, "error: full_and_blames_the_model cannot use 'models/x' (No space left on device): free some space"),
        (closed, 4, "error: closed cannot use 'models/y' (Permission denied): allow this user"),
        (misused, 2, "error: 'a:b' does not exist: correct the name"),
        (leaves, 2, f"error: your code called sys.exit(3) at {__file__}:"),
        (broken, 1, "error: broken hit a defect of paddleship (FileNotFoundError: "),
        (broken_in_a_child, 1, "error: broken_in_a_child hit a defect of paddleship (the comparison: AttributeError: "),
    ],
)
def test_every_failure_is_one_line_and_the_traceback_of_a_defect_is_in_the_file_that_it_names(
    verb, code, words, request, tmp_path, monkeypatch, capsys
):
    shutil.copy(request.config.rootpath / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["verb"])
    monkeypatch.setattr("sys.path", sys.path[:])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        frame.main(verb)
    assert ended.value.code == code
    (said,) = capsys.readouterr().err.splitlines()
    assert words in said
    logs = [path for path in (tmp_path / "reports").glob("*.log") if str(path.relative_to(tmp_path)) in said]
    assert len(logs) == (code == 1)
    for log in logs:
        assert f"in {verb.__name__}" in log.read_text()
        assert ("in elementwise_distance" in log.read_text()) == (verb is broken_in_a_child)

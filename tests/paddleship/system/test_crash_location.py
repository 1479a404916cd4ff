import os
import tempfile
from pathlib import Path

import pytest

from paddleship.errors import ProcessDied
from paddleship.system import crash_location, isolate


class Crasher:
    def abort(self):
        tempfile.mkdtemp()
        os.abort()  # <- abort

    def exit(self):
        os._exit(3)

    def folder(self):
        return tempfile.mkdtemp()

    def keep_rewritten(self):
        folder = crash_location.rewritten_code(os.getpid())
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)


def line(mark):
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{1 + next(number for number, text in enumerate(lines) if text.endswith(f'# <- {mark}'))}"


def test_a_crash_has_the_line_of_the_users_code_and_an_exit_has_none():
    for method, where in (("abort", line("abort")), ("exit", None)):
        with isolate.Isolated("crasher", Crasher, timeout_s=20) as child, pytest.raises(ProcessDied) as raised:
            child.call(method)
        assert raised.value.where == where


def test_the_innermost_line_of_the_user_is_the_one_and_a_rewritten_line_has_its_origin(tmp_path):
    rewritten = tmp_path / "forward_x.py"
    (tmp_path / "forward_x.py.lines.json").write_text(f'{{"7": ["{__file__}", 3]}}')
    stack = f'\n  File "{os.__file__}", line 1 in f\n  File "{rewritten}", line 7 in g\n  File "{__file__}", line 9 in h\n'
    assert crash_location.locate(f"Fatal Python error: Aborted{stack}") == f"{__file__}:3"
    assert crash_location.locate(stack) is None


def test_temporary_files_of_a_child_that_crashed_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with isolate.Isolated("crasher", Crasher, timeout_s=20) as child:
        assert Path(child.call("folder")).is_relative_to(tmp_path)
        rewritten = Path(child.call("keep_rewritten"))
        assert rewritten.exists()
        with pytest.raises(ProcessDied):
            child.call("abort")
    assert list(tmp_path.iterdir()) == []
    assert not rewritten.exists()

"""The report of a defect: one line, an exit code, and a traceback in a file."""

from pathlib import Path

from paddleship.system import defects


def failed():
    try:
        raise RuntimeError("the server answered 500")
    except RuntimeError as error:
        return error


def test_a_defect_is_a_line_that_names_the_file_with_its_traceback(tmp_path):
    line, code = defects.report(failed(), what="train", folder=tmp_path)
    assert (
        line
        == f"train hit a defect of paddleship (RuntimeError: the server answered 500): please report it with {tmp_path}/train.defect.log"
    )
    assert "Traceback" in (tmp_path / "train.defect.log").read_text()
    assert code == 1


def test_if_the_disk_is_full_that_is_the_reason_and_not_a_defect(tmp_path):
    (tmp_path / "train.defect.log").symlink_to("/dev/full")
    line, code = defects.report(failed(), what="train", folder=tmp_path)
    assert line.startswith("train cannot use ")
    assert "(No space left on device): free some space there, and run it again" in line
    assert line.endswith("(it ended with RuntimeError: the server answered 500)")
    assert code == 4


def test_a_folder_that_cannot_be_written_does_not_hide_the_defect(tmp_path):
    (tmp_path / "train.defect.log").mkdir()
    line, code = defects.report(failed(), what="train", folder=Path(tmp_path))
    assert "cannot be written (Is a directory): please report it" in line
    assert code == 1

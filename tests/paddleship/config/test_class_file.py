"""Classes in a file: what a line means, and what is refused by its number."""

import pytest

from paddleship.config import class_file, loading
from paddleship.errors import ParamsError


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"cat\ndog\n", ["cat", "dog"]),
        (b"cat\r\ndog", ["cat", "dog"]),
        ("\u2028\n \n\u3000\n\x85".encode(), ["\u2028", " ", "\u3000", "\x85"]),  # characters at which Python ends lines, too
        (b"two words\n# 1\n", ["two words", "# 1"]),
    ],
)
def test_each_line_is_a_name_as_it_is_written(tmp_path, content, names):
    (tmp_path / "classes.txt").write_bytes(content)
    assert class_file.read(str(tmp_path / "classes.txt")) == names


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty: write the name"),
        (b"cat\n\ndog\n", "line 2 of data.classes.file .* is empty: remove it"),
        (b"cat\ndog\ncat\n", "line 3 of data.classes.file .* holds 'cat', as line 1 does"),
        (b"\xef\xbb\xbfcat\n", "line 1 of data.classes.file .* begins with a byte order mark"),
        (b"cat\n\xff\n", "line 2 of data.classes.file .* is not UTF-8"),
    ],
)
def test_a_file_that_names_no_classes_is_refused_by_line(tmp_path, content, words):
    (tmp_path / "classes.txt").write_bytes(content)
    with pytest.raises(ParamsError, match=words):
        class_file.read(str(tmp_path / "classes.txt"))


def test_a_file_that_changes_is_read_again(tmp_path):
    file = tmp_path / "classes.txt"
    for text in ("cat\n", "cat\ndog\n"):
        file.write_text(text)
        assert class_file.read(str(file)) == text.split()


def test_a_file_that_is_not_there_is_missed_when_it_is_read(base_params):
    """Not before: a script of data.fetch may bring it."""
    data = loading.parse(loading.merge(base_params, {"data": {"classes": {"file": "data/raw/reviews/none.txt"}}})).data
    with pytest.raises(ParamsError, match=r"'data/raw/reviews/none.txt' cannot be read \(No such file"):
        _ = data.class_names


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (
            {"file": "elsewhere.txt"},
            "'elsewhere.txt' is neither below data.raw .* nor below code.watch .*: its changes would make no stage",
        ),
        ({"fil": "a"}, r"data.classes: must be a list of names, or \{file: PATH\}"),
        ("cat", r"data.classes: must be a list of names, or \{file: PATH\} \(got 'cat'\)"),
    ],
)
def test_other_forms_and_files_that_no_stage_watches_are_refused(base_params, classes, words):
    with pytest.raises(ParamsError, match=words):
        loading.parse(loading.merge(base_params, {"data": {"classes": classes}}))

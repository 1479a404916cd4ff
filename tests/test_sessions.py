"""A session of a page is run and compared; a wrong answer fails."""

import pytest

from tests.sessions import Session, commands, comparable, find

PAGE = """
```python
# notes/one.txt
first line
```

```text
# notes/two.txt is not written: no language of files
```

```console
$ cat notes/one.txt
first line
$ false
$ echo $?
1
$ echo "took 12.5 s"; echo penguins:aaaaaaaaaaaa
took 3.0 s
penguins:0123456789ab
$ echo penguins:0123456789ab
penguins:0123456789ab
```
"""


@pytest.fixture
def session(tmp_path):
    (tmp_path / "notes").mkdir()
    return Session(tmp_path, tmp_path)


def test_files_are_written_commands_run_and_digests_carried_on(session):
    session.play(PAGE)
    assert session.replacements == {"0123456789ab": "aaaaaaaaaaaa"}
    assert (session.folder / "notes/one.txt").read_text() == "first line\n"


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("$ cat notes/one.txt\nfirst line", "$ cat notes/one.txt\nsecond line"),
        ("$ echo $?\n1\n", ""),
        ("$ echo $?\n1\n", "$ echo $?\n2\n"),
        ("took 3.0 s", "took 3.0 minutes"),
    ],
)
def test_a_page_that_shows_something_else_fails(session, line, instead):
    with pytest.raises(AssertionError):
        session.play(PAGE.replace(f"\n{line}", f"\n{instead}"))


def test_more_than_the_page_shows_fails_unless_it_has_an_ellipsis(session):
    session.play("```console\n$ printf 'one\\ntwo\\n'\none\n…\n```\n")
    with pytest.raises(AssertionError, match="prints more"):
        session.play("```console\n$ printf 'one\\ntwo\\n'\none\n```\n")


def test_commands_are_taken_apart():
    assert commands("$ one\na\nb\n$ two\n") == [("one", ["a", "b"]), ("two", [])]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("train  9.3 ran  passed, 1 warning  x", "train  10.3  ran  passed  x"),
        ("cold start 2449 ms, 962 requests/s", "cold start 900 ms, 1,357 requests/s"),
        ('"data":[-5.24,4.6]', '"data":[5.25,4.7]'),
        ("error: … (evidence: …)", "error: train (evidence: /a/b)"),
    ],
)
def test_what_depends_on_the_machine_is_not_compared(shown, printed):
    assert find([shown], [printed])[1] is None


def test_counts_are_compared():
    assert comparable("342 rows of 344") == "342 rows of 344"
    assert find(["342 rows of 344"], ["341 rows of 344"])[1] == "342 rows of 344"

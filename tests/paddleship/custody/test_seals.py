import pytest

from paddleship.custody import seals
from paddleship.custody.differing import show_both
from paddleship.custody.seals import Seal
from paddleship.errors import BadInput


def edit(out, old, new):
    text = (out / "seal.json").read_text()
    assert old in text
    (out / "seal.json").write_text(text.replace(old, new))


@pytest.fixture
def out(tmp_path):
    """An out of one file, sealed."""
    (tmp_path / "rows").write_text("a")
    Seal("prepare", {}, {}, "", {}, seals.contents(tmp_path)).write(tmp_path)
    return tmp_path


def test_a_sealed_out_is_read(out):
    assert seals.read(out, "prepare").files.keys() == {"rows"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda out: (out / "rows").write_text("b"), "rows changed since prepare wrote this folder"),
        (lambda out: (out / "rows").unlink(), "rows is missing since prepare wrote this folder"),
        (lambda out: (out / "more").write_text("b"), "more was added since prepare wrote this folder"),
        (lambda out: (out / "seal.json").unlink(), "cannot be read"),
        (lambda out: (out / "seal.json").write_text("{"), "cannot be read"),
        (lambda out: (out / "seal.json").write_text("[]"), "is no seal"),
        (lambda out: (out / "seal.json").write_text('{"stage": "prepare"}'), "is no seal"),
        (lambda out: edit(out, '"code_sha256": ""', '"code_sha256": "1"'), "was edited: its content has another digest"),
        (lambda out: edit(out, '"params": {}', '"params": {"seed": 1}'), "was edited: its content has another digest"),
    ],
)
def test_an_out_that_is_not_as_its_stage_wrote_it_is_refused(out, change, words):
    change(out)
    with pytest.raises(BadInput, match=words) as refused:
        seals.read(out, "prepare")
    assert "run `paddleship run --again prepare`" in str(refused.value)


def test_the_seal_of_another_stage_is_refused(out):
    with pytest.raises(BadInput, match="reads version 2 of 'train'"):
        seals.read(out, "train")


def test_a_digest_covers_files_inputs_params_code_and_versions():
    empty = Seal("train", {}, {}, "", {}, {})
    others = [
        Seal("train", {"prepare": "1"}, {}, "", {}, {}),
        Seal("train", {}, {"seed": 1}, "", {}, {}),
        Seal("train", {}, {}, "1", {}, {}),
        Seal("train", {}, {}, "", {"numpy": "1"}, {}),
        Seal("train", {}, {}, "", {}, {"weights": "1"}),
    ]
    assert len({seal.digest for seal in [empty, *others]}) == 6


def test_two_long_values_are_shown_where_they_differ():
    one, two = show_both("x" * 200 + "a", "x" * 200 + "b")
    assert one != two
    assert len(one) < 100

"""`paddleship images compare`: which rows it takes, what it prints, and the page that it writes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from paddleship.cli import images
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.errors import BadInput
from paddleship.pages import image_comparison
from tests.made_images import candidate, compared
from tests.stage_code import REPOSITORY


def contestants(*data):
    return [SimpleNamespace(candidate=candidate(), data_sha256=one) for one in data]


@pytest.mark.parametrize(("data", "found"), [(("da7a", None), True), (("0ther", "da7a"), True), (("0ther", None), False)])
def test_the_held_out_rows_of_a_checkout_are_asked_if_an_image_was_made_from_its_data(tmp_path, monkeypatch, data, found):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    (tmp_path / "data/prepared").mkdir(parents=True)
    dataset.write({"test": Rows({"text": ["a"]}, np.array([0]), ["0"])}, {"data_sha256": "da7a"}, tmp_path / "data/prepared")
    if found:
        assert images._rows(None, *contestants(*data), label=None, most=5).held_out_of == "da7a"
    else:
        with pytest.raises(BadInput, match="an image holds no rows"):
            images._rows(None, *contestants(*data), label=None, most=5)


def test_elsewhere_rows_are_asked_for_with_the_columns_that_they_need(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="pass --rows FILE, a table with the columns text and, for a score, the labels"):
        images._rows(None, *contestants("da7a", "da7a"), label=None, most=5)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "a", "label": "yes"}))
    assert len(images._rows(tmp_path / "rows.jsonl", *contestants("da7a", "da7a"), label=None, most=5).rows) == 1


def test_the_terminal_and_the_page_begin_with_the_same_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    row = {"number": 17, "row": {"text": "bad"}, "label": "no", "champion": "no", "challenger": "yes"}
    made, page = compared(drop=(0.05, 0.02, 0.08), examples=[row], unknown=["a"]), tmp_path / "comparison.html"
    images._show(made)
    images._write(page, made)
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == image_comparison.answer(made)
    assert f'<p class="answer">{image_comparison.answer(made)}</p>' in page.read_text()
    assert "not certain: whether a learned from these rows is not known" in printed
    assert "Rows that they decide differently:" in printed
    assert ["17", "bad", "no", "no", "yes"] in [line.split() for line in printed.splitlines()]
    assert f"page: {page}" in printed
    with pytest.raises(BadInput, match=r"--html '.*' cannot be written \(.*\): give another file"):
        images._write(tmp_path, made)

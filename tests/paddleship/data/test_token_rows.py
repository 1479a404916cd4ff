"""Rows of text for the kind tokens: an existing tokenizer that changed, pairs from a table, and how many rows are truncated."""

import json
import re
from pathlib import Path

import pytest
import yaml

from paddleship.config import loading
from paddleship.data import dataset, truncation
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError
from paddleship.model.checkpoint_import.source import refitted
from paddleship.shipped.computing.preprocess.token_training import Recipe, train

NAMES = ("ids", "seen", "side")
INPUTS = [{"name": name, "dtype": "int64", "shape": ["batch", "length"]} for name in NAMES]
TEXTS = [f"the {('red', 'blue')[n % 2]} cup, nr {n}{' and so on' * (20 if n % 10 == 3 else 0)}" for n in range(80)]


def values(reviews_params, entry, **data):
    return reviews_params(
        {
            "preprocess": {"inputs": {"ids": {"kind": "tokens", "column": "text", "max_length": 16, "vocabulary_size": 200, **entry}}},
            "data": {"inputs": ["text"], "validation": 0.2, "test": 0.2, **data},
            "model": {"inputs": INPUTS if "mask" in entry else INPUTS[:1]},
        }
    )


def prepared(params, rows, folder):
    splits, _ = dataset.clean(rows, params.data, RowValidator.of(params))
    schema = dataset.describe(splits, params)
    dataset.write(splits, schema, folder)
    return splits, schema


def test_a_tokenizer_that_changed_after_the_data_was_prepared_is_refused(reviews_params, tmp_path):
    file, folder = tmp_path / "tokenizer.json", tmp_path / "prepared"
    folder.mkdir()
    content = train(tuple(TEXTS), Recipe("bpe", 200, "NFKC", False))
    file.write_text(content, encoding="utf-8")
    params = values(reviews_params, {"tokenizer": str(file)})
    _, schema = prepared(params, [{"text": text, "label": n % 2} for n, text in enumerate(TEXTS)], folder)
    assert schema["preprocess"]["inputs"]["ids"]["definition"] == content
    made, _, _ = dataset.read_preprocess(folder)
    assert refitted(made, Path("weights.pdparams")) == []
    file.write_text(content.replace("[CLS]", "[BOS]"), encoding="utf-8")
    with pytest.raises(DataError, match=r"the file '.*/tokenizer\.json', which the input 'ids' is made with, changed .* --again prepare"):
        dataset.read_preprocess(folder)


def test_a_table_gives_pairs_and_the_schema_has_one_tokenizer_for_all_inputs_of_a_text(reviews_params, tmp_path):
    lines = ["question,answer,label"] + [f"{n},{text.replace(',', ';')},{n % 2}" for n, text in enumerate(TEXTS)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    entry = {"pair": True, "mask": "seen", "types": "side"}
    params = values(
        reviews_params,
        entry,
        raw=str(tmp_path / "pairs.csv"),
        reader="csv",
        kwargs={"vectors": {"text": ["question", "answer"]}},
    )
    validator = RowValidator.of(params)
    rows = dataset.read_raw(params.data, validator.text_columns)
    assert rows[0]["text"] == ["0", "the red cup; nr 0"]
    (tmp_path / "prepared").mkdir()
    splits, schema = prepared(params, rows, tmp_path / "prepared")
    assert json.loads(splits["train"].columns["text"][0])[1].startswith("the ")
    assert list(schema["preprocess"]["inputs"]) == ["ids"]
    assert [(spec["low"], spec["high"], spec["pad"]) for spec in schema["inputs"][1:]] == [(1, 1, 0), (0, 1, 0)]
    preprocess, _, _ = dataset.read_preprocess(tmp_path / "prepared")
    batch = preprocess.collate(dataset.encode(preprocess, dataset.read(tmp_path / "prepared", "test")))
    assert set(batch) == {*NAMES}
    assert (batch["seen"] == (batch["ids"] != 0)).all()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["a", " "], "row 1 of data.reader does not fit model.inputs: input 'text' is empty"),
        (["a"], "row 1 of data.reader does not fit model.inputs: input 'text' must be two texts in JSON (got '[\"a\"]')"),
        ("a", "input 'text' must be two texts in JSON (got 'a')"),
        (["a", 3], "must be two texts in JSON"),
    ],
)
def test_a_pair_that_is_none_is_named_with_its_row(reviews_params, value, words):
    params = values(reviews_params, {"pair": True})
    with pytest.raises(DataError) as caught:
        dataset.clean([{"text": ["a", "b"], "label": 0}, {"text": value, "label": 1}], params.data, RowValidator.of(params))
    assert words in str(caught.value)


def test_an_input_that_an_entry_names_must_be_one_of_the_model(reviews_params):
    with pytest.raises(DataError, match=r"preprocess\.inputs names 'shown', which is not one of model\.inputs"):
        RowValidator.of(values(reviews_params, {"mask": "shown"}))


def test_the_share_of_truncated_rows_is_reported(reviews_params, tmp_path):
    params = values(reviews_params, {})
    splits, _ = prepared(params, [{"text": text, "label": n % 2} for n, text in enumerate(TEXTS)], tmp_path)
    made, _, _ = dataset.read_preprocess(tmp_path)
    assert [one.kind for one in refitted(made, Path("weights.pdparams"))] == ["refitted-preprocess"]
    found = truncation.find(made, splits.values())
    assert found.facts == {"rows": 8, "share": 0.1, "longest": {"text": {"length": found.longest["text"][0], "kept": 16}}}
    assert found.longest["text"][0] > 60
    (finding,) = found.findings()
    assert (finding.kind, finding.severity) == ("truncated-rows", "note")
    assert "8 of 80 rows (10.0%) are truncated: 'text' has up to" in finding.message
    assert not truncation.Truncation(4, 80, {"text": (20, 16)}).findings()


def test_the_params_of_the_page_are_valid(base_params):
    page = (Path(__file__).parents[3] / "docs/how-to/tokens.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)]
    parsed = [loading.parse(loading.merge(base_params, block)).preprocess.entries for block in blocks]
    assert [list(entries) for entries in parsed] == [["input_ids", "attention_mask", "token_type_ids"], ["ids"], ["ids", "side"]]

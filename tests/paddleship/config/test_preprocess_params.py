"""The params of preprocess kinds: for each input, or of one input in the short form; each fault in one line."""

from pathlib import Path

import pytest
import yaml

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.errors import ParamsError

BASE = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())
INPUTS = {"ids": {"kind": "characters", "column": "title", "max_length": 9}, "price": {"kind": "numbers"}}


def parsed(overlay, base=BASE):
    return loading.parse(loading.merge(base, {"preprocess": overlay})).preprocess


def test_an_entry_has_the_defaults_of_its_kind_and_the_column_of_its_name():
    assert parsed({"inputs": INPUTS}).entries == {
        "ids": {
            "kind": "characters",
            "column": "title",
            "unicode_form": "NFKC",
            "max_length": 9,
            "multiple_of": 16,
            "vocabulary_size": 4096,
        },
        "price": {"kind": "numbers", "column": "price", "log": False, "missing": "drop", "indicator": None},
    }


def test_the_short_form_is_an_entry_of_one_input():
    (name, entry), *more = parsed({"vocabulary_size": 99}).entries.items()
    assert (name, entry["kind"], entry["column"], entry["vocabulary_size"], more) == ("ids", "characters", "text", 99, [])
    assert parsed({"kind": "tensors"}).entries == {}


def test_each_form_that_is_laid_over_the_other_replaces_it():
    above = loading.merge(BASE, {"preprocess": {"unicode_form": "NFC", "inputs": INPUTS}})
    assert above["preprocess"] == {"unicode_form": "NFC", "inputs": INPUTS}
    assert loading.parse(loading.merge(above, {"preprocess": {"kind": "tensors"}})).preprocess.entries == {}
    assert loading.merge(above, {"preprocess": {"unicode_form": "NFD"}})["preprocess"]["inputs"] == INPUTS


def test_params_that_were_dumped_are_read_again():
    for overlay in ({}, {"inputs": INPUTS}):
        once = loading.parse(loading.merge(BASE, {"preprocess": overlay}))
        assert Params.model_validate(once.model_dump(mode="json")) == once


def of_ids(**keys):
    return {"inputs": {"ids": {"kind": "characters", **keys}}}


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        (
            of_ids(kind="charactres"),
            "preprocess.inputs.ids: there is no preprocess kind 'charactres' (did you mean 'characters'? registered",
        ),
        (
            of_ids(kind="zzz"),
            "'zzz' (registered kinds: categories, characters, image, numbers, own, tensors, tokens): correct kind",
        ),
        (of_ids(kind=["a"]), "preprocess.inputs.ids: there is no preprocess kind ['a']"),
        (of_ids(max_lenght=3), "preprocess.inputs.ids: unknown key 'max_lenght' of the kind 'characters' (did you mean 'max_length'?)"),
        (
            of_ids(kind="numbers", max_length=3),
            "unknown key 'max_length' of the kind 'numbers' (known keys are column, indicator, kind, log, missing)",
        ),
        (
            of_ids(kind="numbers", missing="mode"),
            "preprocess.inputs.ids.missing: must be 'drop', 'mean' or 'median' (got 'mode'; did you mean 'mean'?)",
        ),
        (of_ids(max_length=0), "preprocess.inputs.ids.max_length: must be greater than or equal to 1 (got 0)"),
        (of_ids(max_length=True), "preprocess.inputs.ids.max_length: must be a whole number (got true)"),
        (of_ids(vocabulary_size=2), "preprocess.inputs.ids.vocabulary_size: must be greater than or equal to 3"),
        ({"inputs": {"ids": 3}}, "preprocess.inputs.ids: must be a mapping with the kind of the input (got 3)"),
        ({"kind": "charactres"}, "preprocess: there is no preprocess kind 'charactres' (did you mean 'characters'?"),
        ({"kind": "numbers"}, "preprocess: kind 'numbers' must be written for each input: preprocess: {inputs: {NAME: {kind: numbers"),
        ({"max_lenght": 3}, "unknown key 'preprocess.max_lenght' (did you mean 'max_length'?)"),
        ({"max_length": 0}, "preprocess.max_length: must be greater than or equal to 1 (got 0)"),
    ],
)
def test_a_fault_is_named_with_path_value_and_reason(overlay, words):
    with pytest.raises(ParamsError) as caught:
        parsed(overlay)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_file_with_both_forms_is_refused():
    both = BASE | {"preprocess": {"inputs": INPUTS, "kind": "characters", "max_length": 12}}
    with pytest.raises(ParamsError, match=r"preprocess: inputs has the kind of each input \(got also kind, max_length\): write them below"):
        loading.parse(both)


def test_a_kind_that_sets_its_sizes_leaves_the_dimensions_of_other_inputs_alone():
    rows = {"name": "rows", "dtype": "float32", "shape": ["batch", "steps"]}
    overlay = {
        "preprocess": {"inputs": {"ids": {"kind": "characters", "column": "text"}}},
        "model": {"inputs": [*BASE["model"]["inputs"], rows], "dimensions": {"steps": {"high": 9}}},
    }
    assert loading.parse(loading.merge(BASE, overlay)).model.rules[0].high == 9
    overlay["model"]["dimensions"]["length"] = {"high": 9}
    with pytest.raises(
        ParamsError, match=r"dimensions of 'ids' \(got length\): preprocess.inputs.ids.max_length and preprocess.inputs.ids"
    ):
        loading.parse(loading.merge(BASE, overlay))

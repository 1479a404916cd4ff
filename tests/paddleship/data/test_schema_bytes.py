"""Params that were written before inputs had kinds of their own give the same schema and profile, byte for byte."""

import hashlib
import json

import pytest

from paddleship.data import dataset, profile
from paddleship.data.row_validation import RowValidator
from paddleship.shipped.computing.features import Features

TEXT = [
    {"text": f" Ｒoom {index % 97} was{' very' * (index % 5)} {('好', 'bad', 'fine')[index % 3]}\n{index}", "label": index % 2}
    for index in range(400)
]
NUMBERS = [{"x": [index / 7, -index], "y": [index / 3]} for index in range(300)]
IDS = [{"ids": [(index * step) % 50 for step in range(1, 3 + index % 9)], "id": f"Ａ{index}", "label": index % 2} for index in range(300)]
LINEAR = {
    "preprocess": {"kind": "tensors"},
    "data": {"inputs": ["x"], "label": "y", "task": "regression", "classes": []},
    "model": {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]},
}
STANDARDISED = LINEAR | {"preprocess": {"inputs": {"x": {"kind": "numbers", "log": False}}}}
WHOLE = {"preprocess": {"kind": "tensors"}, "data": {"inputs": ["ids", "id"]}}


@pytest.mark.parametrize(
    ("rows", "overlay", "schema_sha256", "profile_sha256"),
    [
        (
            TEXT,
            {},
            "42c041d35e42cc3f374d90a8d54dadf29ec174ff5b871774929aaea8f400de17",
            "e936ba3f6d3ab02ac41e685a3bae3b9b78012323a7918ddef8390758515831d2",
        ),
        (
            TEXT,
            {"preprocess": {"unicode_form": None, "vocabulary_size": 9, "max_length": 12, "multiple_of": 5}},
            "3d9d4724c6fb0621307b344b48315102b10983f9fbfc6d39d1cda1cb6a472d1b",
            "fd80123e53eb54b108c6997e9d6de00c5d0e8dd9536c3298056acd21e1db898e",
        ),
        (
            NUMBERS,
            LINEAR,
            "d670a21a110b9c94b8fac8c0a28fe24d717dc72873a51f98b97a6f5ab341c8eb",
            "0c28fdc0a0473d01e3e0a4f7515ad2acd11094e7e1bbe7abb361f49c789808d2",
        ),
        (
            NUMBERS,
            STANDARDISED,
            "3e572789088bdedc3655671d3d5270532ff7f96bf86a0ba3de1d3485db22dee0",
            "6a615f1e15d5a5c45740eab24f2f0eea832b757a61a8e4f6cd162bfb814e97da",
        ),
        (
            IDS,
            WHOLE,
            "40e3e5b9aa8624328b88084b273c41aefee977e223a32f98638ce738037309a4",
            "0765c1d43ba649a89aaa73d834ff7bc1ee14717d4330f7508adea327508a9013",
        ),
    ],
    ids=["reviews", "a few characters", "linear", "standardised", "ids beside a column that no input reads"],
)
def test_the_schema_and_the_profile_of_old_params_are_the_same_bytes(
    rows, overlay, schema_sha256, profile_sha256, reviews_params, tmp_path
):
    params = reviews_params(overlay)
    splits, _ = dataset.clean(rows, params.data, RowValidator.of(params))
    dataset.write(splits, dataset.describe(splits, params), tmp_path)
    preprocess, config, specs = dataset.read_preprocess(tmp_path)
    examples = dataset.encode(preprocess, dataset.read(tmp_path, "train"))
    profile.write(profile.make(Features(specs, config), examples, {}), tmp_path)
    schema = json.loads((tmp_path / "schema.json").read_text(encoding="utf-8"))
    del schema["files"]  # Parquet files name the version of the library that wrote them
    found = json.dumps(schema, ensure_ascii=False).encode(), (tmp_path / profile.FILE).read_bytes()
    assert [hashlib.sha256(one).hexdigest() for one in found] == [schema_sha256, profile_sha256]

"""Tokens: trained and existing tokenizers; ids, masks, types and pairs; truncation; what equals what."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.features import Features
from paddleship.shipped.computing.preprocess import build, with_further
from paddleship.shipped.computing.preprocess.tokens import Tokens
from paddleship.shipped.computing.spec import TensorSpec

IDS = TensorSpec("ids", "int64", ("batch", "length"))
TEXTS = [f"The {('red', 'blue')[n % 2]} cup, nr {n % 7} 质量很好" for n in range(60)]
SMALL = {"column": "text", "spec": IDS, "vocabulary_size": 90, "max_length": 16, "multiple_of": 4}


def fitted(*, texts=TEXTS, **params):
    return Tokens(**SMALL | params).fit(texts)


def rebuilt(one, **spec):
    """The encoder as a candidate has it: from the fields that are stored, with the limits of the data."""
    return type(one)(column=one.column, spec=one.limited(TEXTS), **{**one.stored(), **spec})


def tokens(one, row):
    return [one._loaded.tokenizer.id_to_token(int(identity)) for identity in row]


def test_text_becomes_the_ids_of_trained_tokens_between_special_ones():
    made = fitted()
    row = made.encode("The red  cup")
    assert tokens(made, row) == ["[CLS]", "The", "red", "cup", "[SEP]"]
    assert row.dtype == np.int64
    assert tokens(made, made.encode("ｒed ☃")) == ["[CLS]", "red", "[UNK]", "[SEP]"]
    assert tokens(fitted(special_tokens=False), fitted(special_tokens=False).encode("red")) == ["red"]
    assert tokens(fitted(lowercase=True), fitted(lowercase=True).encode("RED"))[1] == "red"


def test_the_range_is_the_vocabulary_and_rows_are_padded_to_a_multiple_with_the_id_of_padding():
    made = rebuilt(fitted())
    assert (made.spec.low, made.spec.high, made.spec.pad) == (0, 39, 0)
    batch = made.collate([made.encode("The red"), made.encode("The blue cup, nr 3")])
    assert batch.shape == (2, 8)
    assert batch[0].tolist() == [*made.encode("The red").tolist(), 0, 0, 0, 0]
    rule = made.sizes(0, TEXTS)
    assert (rule.name, rule.low, rule.high, rule.multiple_of) == ("length", 4, 16, 4)
    fixed = fitted(spec=TensorSpec("ids", "int64", ("batch", 16)))
    assert fixed.collate([fixed.encode("The red")]).shape == (1, 16)


@pytest.mark.parametrize("model", ["bpe", "wordpiece", "unigram"])
def test_equal_texts_in_any_order_train_the_same_tokenizer_byte_for_byte_in_another_process(model):
    code = (
        "import sys, json, hashlib\nfrom paddleship.shipped.computing.preprocess.token_training import Recipe, train\n"
        "print(hashlib.sha256(train(tuple(json.load(sys.stdin)), Recipe(sys.argv[1], 200, 'NFKC', False)).encode()).hexdigest())"
    )
    lines = Path(__file__).read_text(encoding="utf-8").splitlines() + TEXTS
    made = {
        subprocess.run([sys.executable, "-c", code, model], input=json.dumps(order), capture_output=True, text=True, check=True).stdout
        for order in (lines, lines[::-1])
    }
    assert len(made) == 1


def test_the_mask_and_the_types_are_further_inputs_of_the_same_value():
    entry = {"kind": "tokens", "column": "text", **fitted(mask="seen", types="side", pair=True, texts=['["a b", "c"]']).stored()}
    specs = [TensorSpec(name, "int64", ("batch", "length")) for name in ("ids", "seen", "side")]
    made = build({"inputs": {"ids": entry}}, [one.limited([]) for one in build({"inputs": {"ids": entry}}, specs).encoders])
    batch = made.collate(made.encode({"text": ['["a b", "c"]', '{"text": "a", "pair": "c"}']}))
    assert {name: array.tolist() for name, array in batch.items() if name != "ids"} == {
        "seen": [[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0]],
        "side": [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]],
    }
    limits = {one.spec.name: (one.spec.low, one.spec.high, one.spec.pad) for one in made.encoders}
    assert limits["seen"] == (1, 1, 0)
    assert limits["side"] == (0, 1, 0)
    assert [one.name for one in made.requests] == ["text"]
    with pytest.raises(DataError, match=r"preprocess\.inputs\.ids\.mask names 'x', which has an entry of its own"):
        with_further({"ids": {**entry, "mask": "x"}, "x": {"kind": "tensors", "column": "x"}})


def test_a_text_that_is_truncated_is_reported_with_its_tokens():
    made = fitted()
    assert made.cut("The red cup") is None
    long = "The red cup " * 20
    assert made.cut(long) == (62, 16)
    assert tokens(made, made.encode(long))[-1] == "[SEP]"
    assert made.cut("red" + " " * 600) == (3, 3)
    assert made.encode("red" + " " * 10_000_000 + "cup").tolist() == made.encode("red").tolist()


def test_texts_that_the_tokenizer_reads_alike_are_the_same_content():
    made = Tokens(**SMALL)
    assert made.same(" ｒed  cup") == made.same("red cup") == fitted().same("red cup")
    assert made.same("red cup") != made.same("Red cup")
    assert Tokens(**SMALL, lowercase=True).same("Red cup") == "red cup"
    pairs = Tokens(**SMALL, pair=True)
    assert pairs.same('["a", "ｂ"]') == pairs.same('{"text": "a ", "pair": "b"}')
    assert made.same("  ") == ""


@pytest.mark.parametrize(
    ("params", "value", "words"),
    [
        ({}, 3, r"must be text \(got int\)"),
        ({}, "  ", "is empty"),
        ({"pair": True}, "a", "must be two texts in JSON"),
        ({"pair": True}, '["a"]', "must be two texts in JSON"),
        ({"pair": True}, '["a", 3]', "must be two texts in JSON"),
        ({"pair": True}, "[" * 100_000, "must be two texts in JSON"),
        ({"pair": True}, '{"text": "a", "other": "b"}', "must be two texts in JSON"),
        ({"pair": True}, '["a", " "]', "is empty"),
    ],
)
def test_a_value_that_is_no_text_or_no_pair_is_refused(params, value, words):
    texts = ['["a b", "c"]'] if params else TEXTS
    with pytest.raises(RequestError, match=words):
        fitted(texts=texts, **params).encode(value)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"spec": TensorSpec("ids", "float32", ("batch", "length"))}, "is float32"),
        ({"spec": TensorSpec("ids", "int64", ("batch", 32))}, "has 32 places, and max_length is 16"),
        ({"max_length": 18}, "has max_length 18 and multiple_of 4"),
        ({"tokenizer": "nowhere.json"}, r"'nowhere.json', which cannot be read \(No such file"),
        ({"tokenizer": __file__}, "the tokenizer cannot be read"),
        ({"max_length": 2, "multiple_of": 1}, "has max_length 2, and the tokenizer adds 3 special tokens"),
        ({"pad_token": "[NO]"}, r"has a tokenizer with no token '\[NO\]'"),
        ({"spec": TensorSpec("ids", "int64", ("batch", "length"), high=20)}, "has high 20, and the tokenizer gives 39: remove high"),
        ({"spec": TensorSpec("ids", "int64", ("batch", "length"), pad=3)}, "has pad 3, and the tokenizer gives 0: remove pad"),
    ],
)
def test_params_that_do_not_fit_are_refused_with_the_input(params, words):
    with pytest.raises(DataError, match=words):
        fitted(**params).limited(TEXTS)


def test_an_existing_tokenizer_is_used_as_it_is_apart_from_truncation_and_padding(tmp_path):
    theirs = json.loads(fitted(model="wordpiece").definition)
    theirs["padding"] = {
        "strategy": {"Fixed": 50}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 7, "pad_type_id": 0, "pad_token": "x",
    }  # fmt: skip
    theirs["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(theirs, indent=2), encoding="utf-8")
    made = rebuilt(fitted(tokenizer=str(path)))
    assert made.definition == path.read_text(encoding="utf-8")
    assert len(made.encode("The red cup")) == 5
    assert made.spec.pad == 7
    assert made.changed_file() is None
    assert pickle.loads(pickle.dumps(made)).encode("red").tolist() == made.encode("red").tolist()  # noqa: S301 it goes to other processes
    path.write_text(json.dumps(theirs), encoding="utf-8")
    assert made.changed_file() == str(path)
    path.unlink()
    assert made.changed_file() is None


def test_drift_is_measured_on_length_unknown_tokens_and_ids():
    made = fitted(mask="seen")
    specs = [made.limited([]), TensorSpec("seen", "int64", ("batch", "length"), 1, 1)]
    features = Features(specs, {"inputs": {"ids": {"kind": "tokens", "column": "text", **made.stored()}}})
    assert features.names == ("text.tokens", "text.unknown_share", "text.log_id")
    values = dict(zip(features.names, features.of({"ids": made.encode("red ☃")}), strict=True))
    assert values["text.tokens"] == 4
    assert values["text.unknown_share"] == 0.25


def test_the_positions_of_tokens_are_parts_of_the_text():
    made = fitted(special_tokens=False)
    assert made.positions("The red") == [(0, 3), (4, 7)]
    with pytest.raises(DataError, match="set special_tokens: false"):
        fitted().positions("The red")


def test_the_library_is_imported_without_the_hub_and_looks_up_nothing(tmp_path):
    (tmp_path / "huggingface_hub.py").write_text("raise SystemExit('the hub was imported')")
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\ndef refused(*a, **k): raise SystemExit('a socket was opened')\nsocket.socket = socket.getaddrinfo = refused\n"
    )
    code = "from tests.paddleship.shipped.computing.test_tokens import fitted; print(len(fitted().encode('The red cup')))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[4])])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "5", done.stderr

"""Preprocess kinds are found by themselves, ours and those of installed packages; each input has one."""

import json
import subprocess
import sys

import numpy as np
import pytest

from paddleship.errors import CandidateError, DataError, RegistrationError, RequestError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.features import Features
from paddleship.shipped.computing.preprocess import registry
from paddleship.shipped.computing.preprocess.numbers import Numbers
from paddleship.shipped.computing.preprocess.registration import Kind
from paddleship.shipped.computing.spec import TensorSpec

IDS = TensorSpec("ids", "int64", ("batch", "length"))
PRICE = TensorSpec("price", "float32", ("batch",))
STARS = TensorSpec("stars", "int64", ("batch",), low=1, high=5)
TITLE = {"kind": "characters", "column": "title", "vocabulary": ["a", "b"], "max_length": 3, "multiple_of": 2}
CONFIG = {"inputs": {"price": {"kind": "numbers", "column": "cost", "mean": [100.0], "deviation": [50.0]}, "ids": TITLE}}
COLUMNS = {"title": ["abba", "b"], "cost": [150, 50.0], "stars": [5, 1]}
PLAIN = """
from dataclasses import dataclass
from paddleship.shipped.computing.preprocess.registration import InputEncoder, Kind

@dataclass(frozen=True, kw_only=True)
class Plain(InputEncoder):
    {field}

KIND = Kind({name!r}, Plain, "as it is", requirements=({pin!r},))
"""


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Put a distribution with one module and an entry point on the import path."""

    def make(module, source):
        (tmp_path / f"{module}.py").write_text(source)
        about = tmp_path / f"{module}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{module} = {module}:KIND\n")
        monkeypatch.syspath_prepend(tmp_path)
        for function in (registry.found, registry.distributions):
            function.cache_clear()

    yield make
    for function in (registry.found, registry.distributions):
        function.cache_clear()
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_every_input_is_made_as_its_kind_says_and_in_the_order_of_the_model():
    chosen = preprocess.build(CONFIG, [IDS, PRICE, STARS])
    assert [(spec.name, spec.dtype) for spec in chosen.requests] == [("title", "str"), ("cost", "float64"), ("stars", "int64")]
    batch = chosen.collate(chosen.encode(COLUMNS))
    assert list(batch) == ["ids", "price", "stars"]
    assert (batch["ids"].tolist(), batch["price"].tolist(), batch["stars"].tolist()) == ([[2, 3, 3, 0], [3, 0, 0, 0]], [1, -1], [5, 1])
    assert [array.dtype.name for array in batch.values()] == ["int64", "float32", "int64"]
    assert chosen.cuts(COLUMNS) == [{"input": "title", "row": 0, "length": 4, "kept": 3}]
    assert chosen.longest_text == 3


def test_what_does_not_fit_is_named_by_its_column():
    chosen = preprocess.build(CONFIG, [IDS, PRICE, STARS])
    for column, value, words in [
        ("title", 3, "'title' must be text"),
        ("cost", "dear", "'cost' cannot"),
        ("stars", 6, "'stars' is outside"),
    ]:
        with pytest.raises(RequestError, match=words):
            chosen.encode({**COLUMNS, column: [value, value]})


def test_two_inputs_may_be_made_from_one_column_which_a_client_sends_once():
    both = {"inputs": {"ids": TITLE, "again": {**TITLE, "vocabulary": ["b"]}}}
    chosen = preprocess.build(both, [IDS, TensorSpec("again", "int32", ("batch", "other"))])
    assert [spec.name for spec in chosen.requests] == ["title"]
    assert chosen.collate(chosen.encode({"title": ["ab"]}))["again"].tolist() == [[1, 2]]
    assert len(chosen.cuts({"title": ["abba"]})) == 1
    assert chosen.longest_text == 3
    with pytest.raises(DataError, match=r"inputs 'ids' and 'title' read the column 'title' in two forms \(str\['batch'\] and int64"):
        preprocess.build(both | {"inputs": {"ids": TITLE}}, [IDS, TensorSpec("title", "int64", ("batch",))])


def test_text_of_two_columns_has_a_dimension_each():
    two = {"inputs": {"ids": TITLE, "more": {**TITLE, "column": "body"}}}
    chosen = preprocess.build(two, [IDS, TensorSpec("more", "int64", ("batch", "length"))])
    with pytest.raises(RequestError, match="'ids' and 'more' share the dimension 'length', and have sizes 1 and 2 in one row"):
        chosen.encode({"title": ["a"], "body": ["ab"]})
    assert preprocess.build(two, [IDS, TensorSpec("more", "int64", ("batch", "other"))]).longest_text == 6


def test_features_are_those_of_each_kind():
    names = Features([IDS, PRICE, STARS], CONFIG).names
    assert names == ("title.length", "title.unknown_share", "title.rarity", "cost", "stars")


def test_an_entry_for_an_input_that_the_model_lacks_is_refused():
    with pytest.raises(CandidateError, match="has the input 'price', which the model does not"):
        preprocess.build(CONFIG, [IDS])


def numbers(spec=PRICE, **fields):
    return Numbers(column=spec.name, spec=spec, **fields)


def test_numbers_are_standardised_with_the_training_rows_in_full_precision():
    values = [1.6e12 + step for step in (0, 1, 2)]  # milliseconds, which float32 holds to 131,072
    fitted = numbers().fit([np.float64(value) for value in values])
    assert [float(fitted.encode(value)) for value in values] == pytest.approx([-1.2247449, 0, 1.2247449])
    again = Numbers(column="price", spec=PRICE, **json.loads(json.dumps(fitted.stored())))
    assert float(again.encode(values[0])) == float(fitted.encode(values[0]))


def test_lists_of_numbers_are_standardised_one_by_one_and_what_never_varies_stays_finite():
    fitted = numbers(TensorSpec("x", "float32", ("batch", 2))).fit([[1, 7], [3, 7]])
    assert fitted.encode([3, 8]).tolist() == [1, 1]


def test_the_logarithm_of_numbers_is_standardised_where_params_say_so():
    fitted = numbers(log=True).fit([0.0, np.e - 1])
    assert fitted.encode(np.e - 1) == pytest.approx(1)
    with pytest.raises(RequestError, match=r"must be above -1 for its logarithm \(got -1\)"):
        numbers(log=True).accept(-1)


def test_numbers_beyond_the_dtype_and_inputs_that_are_no_floats_are_refused():
    with pytest.raises(RequestError, match="too far from the training rows for float32"):
        numbers(mean=[0.0], deviation=[1e-300]).encode(1e10)
    for spec in (STARS, TensorSpec("x", "float32", ("batch", "length"))):
        with pytest.raises(DataError, match="standardised numbers are floats of fixed shape, and"):
            numbers(spec)


def test_a_kind_of_an_installed_package_is_registered_with_what_it_pins(offer):
    offer("their_kind", PLAIN.format(name="plain", field="pass", pin="theirs==1.0"))
    assert registry.get("plain").description == "as it is"
    assert registry.registered("plain").entry_point.value == "their_kind:KIND"
    assert {"theirs", "their_kind"} <= set(registry.distributions())


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nowhere_at_all", "cannot be loaded .*No module named 'nowhere_at_all'"),
        ("KIND = 3", "is int, not a Kind"),
        (PLAIN.format(name="plain", field="pass", pin="theirs>=1"), "requires 'theirs>=1': pin it"),
        (
            PLAIN.format(name="plain", field="size: int = 0", pin="a==1"),
            "field 'size' of the preprocess kind 'plain' is neither a param nor",
        ),
    ],
)
def test_an_entry_point_that_is_no_kind_is_refused_by_name(offer, source, words):
    offer("their_fault", source)
    with pytest.raises(RegistrationError, match=f"entry point their_fault = their_fault:KIND of their_fault .*{words}"):
        registry.found()


def test_two_kinds_of_one_name_are_refused_and_both_are_named(offer):
    offer("their_second", PLAIN.format(name="numbers", field="pass", pin="a==1"))
    with pytest.raises(
        RegistrationError, match=r"two preprocess kinds are called 'numbers', in .*preprocess.numbers and in their_second:KIND"
    ):
        registry.found()


def test_a_kind_that_is_gone_names_those_that_are_there():
    registered = r"\(registered kinds: categories, characters, image, numbers, own, tensors, tokens\)"
    with pytest.raises(CandidateError, match=rf"no preprocess kind 'away' {registered}: install"):
        preprocess.build({"inputs": {"price": {"kind": "away", "column": "price"}}}, [PRICE])


def test_one_kind_is_the_default():
    assert [name for name, one in registry.ours().items() if one.registration.default] == [registry.default().name]
    assert isinstance(registry.default(), Kind)


def test_finding_the_kinds_imports_what_an_image_has():
    script = "import sys; from paddleship.shipped.computing.preprocess import registry; registry.found(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"paddle", "pydantic", "pyarrow", "paddleship.config"} & set(modules)

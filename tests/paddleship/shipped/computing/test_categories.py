"""Categories: names in, ids out, and names that no training row has."""

import numpy as np
import pytest

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess.categories import Categories
from paddleship.shipped.computing.spec import TensorSpec

CITY = TensorSpec("city", "int64", ("batch",))
NAMES = ["Oslo", "Rome", "Oslo", "Łódź", "Oslo", "Rome"]


def fitted(**params):
    return Categories(column="town", spec=CITY, **params).fit(NAMES)


def test_names_have_ids_by_frequency_and_others_have_0():
    towns = fitted()
    assert towns.names == ["Oslo", "Rome", "Łódź"]
    assert [int(towns.encode(name)) for name in ("Oslo", "Rome", "Łódź", "Paris")] == [1, 2, 3, 0]
    assert towns.encode("Oslo").dtype == np.int64
    assert towns.collate([towns.encode(name) for name in NAMES]).shape == (6,)
    assert (towns.limited(NAMES).low, towns.limited(NAMES).high) == (0, 3)
    assert towns.stored() == {"unicode_form": "NFKC", "unknown": True, "names": ["Oslo", "Rome", "Łódź"]}


def test_names_are_compared_after_normalisation():
    assert int(fitted().encode(" Ｏslo ")) == 1
    assert fitted().same("Oslo ") == fitted().same("Oslo")


def test_names_beyond_the_most_frequent_are_unknown():
    towns = fitted(most=2)
    assert [int(towns.encode(name)) for name in ("Oslo", "Łódź")] == [1, 0]


def test_without_unknown_ids_begin_at_0_and_other_names_are_refused():
    towns = fitted(unknown=False)
    assert [int(towns.encode(name)) for name in towns.names] == [0, 1, 2]
    assert (towns.limited(NAMES).low, towns.limited(NAMES).high) == (0, 2)
    with pytest.raises(RequestError, match=r"input 'town' is 'Paris', which no training row has"):
        towns.encode("Paris")
    with pytest.raises(DataError, match=r"column 'town' has 3 names in the training rows, and 2 are kept: raise most"):
        fitted(unknown=False, most=2)


@pytest.mark.parametrize(("value", "message"), [(3, r"must be the name of a category \(got int\)"), ("  ", "is empty")])
def test_what_is_no_name_is_refused(value, message):
    with pytest.raises(RequestError, match=message):
        fitted().encode(value)


@pytest.mark.parametrize("spec", [TensorSpec("city", "float32", ("batch",)), TensorSpec("city", "int64", ("batch", 2))])
def test_an_input_that_is_not_one_integer_is_refused(spec):
    with pytest.raises(DataError, match=r"a category is one integer, and model.inputs gives 'city'"):
        Categories(column="town", spec=spec)


def test_a_declared_range_must_hold_all_ids():
    with pytest.raises(DataError, match=r"makes ids from 0 to 3: remove low and high"):
        Categories(column="town", spec=TensorSpec("city", "int64", ("batch",), low=0, high=2)).fit(NAMES).limited(NAMES)


def test_drift_is_measured_on_rank_and_share_of_unknown_names():
    measures = dict(fitted().features())
    assert {name: measure(np.asarray(0)) for name, measure in measures.items()} == {"town.rank": 0.0, "town.unknown": 1.0}
    assert set(dict(fitted(unknown=False).features())) == {"town.rank"}

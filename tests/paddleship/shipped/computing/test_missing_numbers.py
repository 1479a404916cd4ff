"""The kind numbers fills missing numbers as a pipeline of scikit-learn does, and takes none of them unless params say so."""

import json

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.features import Features
from paddleship.shipped.computing.preprocess import with_further
from paddleship.shipped.computing.preprocess.numbers import Numbers
from paddleship.shipped.computing.spec import TensorSpec

X = TensorSpec("x", "float32", ("batch", 2))
LACKS = TensorSpec("lacks", "float32", ("batch", 2))
PRICE = TensorSpec("price", "float32", ("batch",))
ROWS = [[1.0, np.nan], [3.0, 7.0], [np.nan, 9.0], [8.0, 1.5], [0.0, np.nan]]


def numbers(spec=X, **fields):
    return Numbers(column=spec.name, spec=spec, **fields)


def again(encoder, **fields):
    """The encoder as a candidate stores it."""
    return Numbers(column=encoder.column, spec=encoder.spec, **json.loads(json.dumps(encoder.stored())), **fields)


@pytest.mark.parametrize("strategy", ["mean", "median"])
@pytest.mark.parametrize("log", [False, True])
def test_what_is_filled_and_standardised_is_what_scikit_learn_makes_of_it(strategy, log):
    logarithm = [FunctionTransformer(np.log1p)] if log else []
    theirs = make_pipeline(SimpleImputer(strategy=strategy), *logarithm, StandardScaler()).fit(np.array(ROWS))
    ours = again(numbers(missing=strategy, log=log).fit(ROWS))
    new = [[np.nan, np.nan], [5.0, np.nan], [np.nan, -0.5]]
    for row in [*ROWS, *new]:
        assert ours.encode(row) == pytest.approx(theirs.transform([row])[0], rel=1e-6, abs=1e-7)


def test_null_of_a_single_number_is_filled():
    fitted = numbers(PRICE, missing="median").fit([1.0, np.nan, 2.0, 9.0])
    assert fitted.fill == [2.0]
    assert fitted.encode(np.nan) == fitted.encode(2.0) == fitted.encode(None)


def test_without_the_param_a_missing_number_is_refused_and_nothing_about_it_is_stored():
    fitted = numbers(PRICE).fit([1.0, 3.0])
    assert fitted.stored() == {"log": False, "mean": [2.0], "deviation": [1.0]}
    for value in (np.nan, None):
        with pytest.raises(RequestError, match=r"input 'price' must be finite numbers that float64 can hold \(got (nan|'None')\)"):
            fitted.encode(value)
    (refused,) = dict(fitted.malformed(1.0)).values()
    assert np.isnan(refused)
    assert not dict(numbers(PRICE, missing="mean").malformed(1.0))


@pytest.mark.parametrize("value", ["nan", "NaN", np.inf, -np.inf, "inf"])
def test_infinity_and_text_are_no_missing_numbers(value):
    with pytest.raises(RequestError, match="must be finite numbers"):
        numbers(PRICE, missing="mean", mean=[0.0], deviation=[1.0], fill=[0.0]).accept(value)


def test_the_logarithm_refuses_a_number_beside_a_missing_one():
    with pytest.raises(RequestError, match=r"above -1 for its logarithm \(got -2\)"):
        numbers(missing="mean", log=True).accept([np.nan, -2.0])


def test_the_indicator_is_a_further_input_that_says_which_numbers_are_missing():
    fitted = numbers(missing="mean", indicator="lacks").fit(ROWS)
    config = {"inputs": {"x": {"kind": "numbers", "column": "x", **fitted.stored()}}}
    made = preprocess.build(config, [X, LACKS])
    (row,) = made.encode({"x": [[np.nan, 7.0]]})
    assert row["lacks"].tolist() == [1, 0]
    assert row["x"].tolist() == fitted.encode([3.0, 7.0]).tolist()  # the mean of the first is 3
    assert [spec.name for spec in made.requests] == ["x"]
    assert made.missing == ("x",)
    limited = {one.spec.name: one.limited([]) for one in made.encoders}
    assert (limited["lacks"].low, limited["lacks"].high) == (0, 1)
    assert limited["x"] == X
    assert Features([X, LACKS], config).names == ("x.missing_share", "x[0]", "x[1]")


def test_an_indicator_needs_numbers_that_may_be_missing():
    with pytest.raises(
        DataError, match=r"preprocess.inputs.x.indicator is 'lacks', and rows with a missing number are dropped: set missing"
    ):
        numbers(indicator="lacks")
    assert with_further({"x": {"kind": "numbers", "indicator": "lacks"}})["lacks"]["gives"] == "indicator"


def test_drift_sees_the_share_of_missing_numbers():
    config = {"inputs": {"x": {"kind": "numbers", "column": "x", **numbers(missing="mean").fit(ROWS).stored()}}}
    features = Features([X], config)
    assert features.of_values({"x": [[np.nan, 1.0]]}, 0) == [0.5]
    assert Features([X], {"inputs": {"x": {"kind": "numbers", "column": "x", **numbers().fit([[1, 2]]).stored()}}}).names == (
        "x[0]",
        "x[1]",
    )


def test_a_column_takes_missing_numbers_only_if_all_its_encoders_do():
    entry = {"kind": "numbers", "column": "x", "mean": [0.0, 0.0], "deviation": [1.0, 1.0], "fill": [0.0, 0.0]}
    other = {"y": {**entry, "missing": "mean"}}
    specs = [X, TensorSpec("y", "float32", ("batch", 2))]
    assert preprocess.build({"inputs": {"x": {**entry, "missing": "median"}, **other}}, specs).missing == ("x",)
    assert preprocess.build({"inputs": {"x": entry, **other}}, specs).missing == ()

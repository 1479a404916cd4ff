"""Requests, good and bad, for the fuzzers of all transports: rows of a model that answers what it is asked, and what to spoil of them."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.paddleship.shipped.serving.candidates import make_all_datatypes

DTYPES = ("bool", "int8", "int64", "float16", "float32")
DATATYPES = dict(zip(DTYPES, ("BOOL", "INT8", "INT64", "FP16", "FP32"), strict=True))
MOST_ROWS, FEW = 8, 100
LONG = (pytest.mark.long, pytest.mark.timeout(3600))
GOOD = pytest.mark.parametrize("count", [30, pytest.param(2_000, marks=LONG)])
BAD = pytest.mark.parametrize(("count", "mutants"), [(FEW, 1), pytest.param(5_000, 20, marks=LONG)])
SEEDS = st.integers(0, 2**32)


def make(folder):
    return make_all_datatypes(folder, DTYPES)


def examples(count):
    """So many requests; a few are the same each time."""
    few = count <= FEW
    return settings(max_examples=count, deadline=None, database=None, derandomize=few, suppress_health_check=[*HealthCheck])


def columns():
    """A good request, as arrays by name."""
    finite = {"allow_nan": False, "allow_infinity": False}

    def of(rows):
        shape = (rows, 3)
        numbers = {name: arrays.arrays(name, shape, elements=finite if name.startswith("float") else None) for name in DTYPES}
        return st.fixed_dictionaries(numbers)

    return st.integers(1, MOST_ROWS).flatmap(of)


SIZES = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 5)
SHAPES = st.lists(SIZES, max_size=5) | st.lists(st.just(1), min_size=30, max_size=40)
NAMES = st.sampled_from([*DTYPES, *(f"{name}_out" for name in DTYPES), *DATATYPES.values(), "BYTES", "", "FP64", "BF16", "tiny"]) | st.text(
    max_size=8
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)


@st.composite
def broken(draw, content):
    """Bytes with some of them removed, replaced or added."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 20)) | st.just(len(content)))
    return content[:start] + draw(st.binary(max_size=12)) + content[end:]


def mutants(content, seed, count):
    """The bytes, and so many times the bytes with some of them removed, replaced or added."""
    yield content
    chance = random.Random(seed)  # noqa: S311 for tests
    for _ in range(count):
        start = chance.randrange(len(content) + 1)
        yield content[:start] + chance.randbytes(chance.randrange(8)) + content[start + chance.randrange(8) :]


def same(answered, asked):
    assert answered.keys() == {f"{name}_out" for name in asked}
    for name, values in asked.items():
        assert answered[f"{name}_out"].dtype == values.dtype
        assert np.array_equal(answered[f"{name}_out"], values)

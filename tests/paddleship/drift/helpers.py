"""Rows of a table, ids and an image, and a request sample of them."""

import numpy as np

from paddleship.data import profile
from paddleship.drift.samples import Sample
from paddleship.shipped.computing.features import Bins, Features
from paddleship.shipped.computing.spec import TensorSpec

SPECS = [
    TensorSpec("x", "float32", ("batch", 3)),
    TensorSpec("k", "int64", ("batch",)),
    TensorSpec("ids", "int64", ("batch", "length")),
]
FEATURES = Features(SPECS, {"kind": "tensors"})


def rows(random, count, *, shift=0.0, kinds=(0.5, 0.3, 0.15, 0.05), longest=40):
    x = np.stack([random.normal(size=count) + shift, random.lognormal(size=count), random.integers(3, size=count)], axis=1)
    lengths, ids = random.integers(2, longest, count), random.zipf(1.5, (count, longest)).clip(1, 5000)
    kind = random.choice(len(kinds), count, p=kinds)
    return [{"x": x[row].astype(np.float32), "k": kind[row], "ids": ids[row, : lengths[row]]} for row in range(count)]


def made(random, count):
    return profile.make(FEATURES, rows(random, count), {})


def counted(training, requests):
    bins = [Bins.from_dict(item) for item in training["features"]]
    counts = [np.zeros(len(one)) for one in bins]
    for row in requests:
        for one, value, places in zip(bins, FEATURES.of(row), counts, strict=True):
            places[one.index(value)] += 1
    return Sample("m", "onnxruntime", "0" * 64, training, len(requests), tuple(counts))

"""Candidates of images that are compared, and comparisons of two of them."""

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.promotion.image_comparison import ComparedImage, ImageComparison
from paddleship.promotion.latency import NAMES, Latency
from paddleship.promotion.score_comparison import Comparison
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.statistics.estimates import Interval, difference

SAME, FASTER, SLOWER = Interval(1.0, 0.98, 1.02), Interval(1.5, 1.4, 1.6), Interval(0.5, 0.45, 0.55)
CLASSES = ("no", "yes")


def candidate(model="one", **changes):
    """A classification of texts."""
    facts = {
        "name": "onnxruntime",
        "model": model,
        "runtime": "onnxruntime",
        "precision": "float32",
        "threads": 1,
        "inputs": (TensorSpec("ids", "int64", ("batch", "length")),),
        "outputs": (TensorSpec("scores", "float32", ("batch", 2)),),
        "preprocess": {"kind": "characters", "column": "text", "input": "ids"},
        "weights_sha256": "a" * 64,
        "task": "classification",
        "classes": CLASSES,
    }
    return Candidate(**facts | changes)


def compared(
    *,
    drop=(0.0, 0.0, 0.0),
    speedup=SAME,
    flips=3,
    labelled=True,
    names=("a", "b"),
    examples=(),
    packaged=False,
    unknown=(),
    failure="",
    columns=None,
    noise=1.01,
):
    """Two images whose second loses `drop` of the accuracy 0.9 of the first, and is `speedup` as fast."""
    loss = Interval(*drop) if drop and labelled else None
    answers = Comparison(
        rows=100,
        metric="accuracy",
        champion=0.9 if loss else None,
        challenger=0.9 - loss.value if loss else None,
        drop=loss,
        flips=flips,
        flip_rate=Interval(flips / 100, 0.005, 0.09),
        examples=list(examples),
        labelled=labelled,
    )
    itself = Interval(1.0, 0.99, noise)
    typical = {name: Interval(ms, 0.95 * ms, 1.05 * ms) for name, ms in zip(NAMES, (1.0, 1.0, 1 / speedup.value), strict=True)}
    latency = Latency(speedup, itself, difference(speedup, itself, effect=0.05), {}, (), typical)
    if failure:
        latency = Latency(None, None, None, {}, (failure,))
    images = [
        ComparedImage(name, f"registry/{name}", f"sha256:{name}", candidate(name), packaged, size, [0.8, 0.7, 0.9], 40_000_000, 50_000_000)
        for name, size in zip(names, (150_000_000, 200_000_000), strict=True)
    ]
    rows = Rows(columns or {"text": ["x"] * 100}, np.zeros(100), ["x"] * 100)
    return ImageComparison((images[0], images[1]), answers, latency, rows, "rows.csv", 100, list(unknown), {"cores": "2"})

"""Features of rows for a linear model: n-grams of the characters of a text, categories one-hot, numbers standardised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.model.training import Split
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder

_NGRAMS = (1, 3)
_CATEGORIES = 1_000  # of a column; the rest counts as one
_NUMBERS = 4_096  # of a column in a row
_BATCH = 4_096  # rows of the held-out parts at a time


class Features:
    """The features of the inputs that a linear model can read. `buckets`: the n-grams of a text are hashed into so many features."""

    def __init__(self, encoders: Sequence[InputEncoder], *, buckets: int) -> None:
        self._columns = [(one, _made(one, buckets)) for one in encoders]

    def fit(self, rows: Rows, split: Split, count: int) -> Any:
        """Fit on the first `count` rows, and return their matrix."""
        return _joined([one.fit_transform(_values(encoder, rows, split, range(count))) for encoder, one in self._columns])

    def answers(self, answer: Callable[[Any], Any], rows: Rows, split: Split) -> Any:
        """The outputs of a model for all rows of a part."""
        batches = [range(start, min(start + _BATCH, len(rows))) for start in range(0, len(rows), _BATCH)]
        return np.concatenate([answer(self._matrix(rows, split, indices)) for indices in batches])

    def _matrix(self, rows: Rows, split: Split, indices: range) -> Any:
        return _joined([one.transform(_values(encoder, rows, split, indices)) for encoder, one in self._columns])


def readable(encoder: InputEncoder) -> bool:
    """Whether there are features for this input."""
    return encoder.content is not None and int(np.prod(_fixed(encoder))) <= _NUMBERS


def sizes(encoders: Sequence[InputEncoder], rows: Rows) -> Any:
    """How many characters and numbers each row has."""
    total = np.zeros(len(rows), np.int64)
    for one in encoders:
        total += [len(text) for text in rows.columns[one.column]] if one.content is Content.TEXT else int(np.prod(_fixed(one)))
    return total


def _fixed(encoder: InputEncoder) -> list[int]:
    """The sizes of a row that are the same in all rows."""
    return [size for size in encoder.spec.shape[1:] if isinstance(size, int)]


def _made(encoder: InputEncoder, buckets: int) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    makers: Mapping[Content | None, Callable[[], Any]] = {
        Content.TEXT: lambda: make_pipeline(
            HashingVectorizer(
                analyzer="char", ngram_range=_NGRAMS, n_features=buckets, lowercase=False, norm=None, alternate_sign=False, dtype=np.float32
            ),
            TfidfTransformer(sublinear_tf=True),
        ),
        Content.CATEGORY: lambda: OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=_CATEGORIES, dtype=np.float32),
        Content.NUMBERS: StandardScaler,
    }
    return makers[encoder.content]()


def _values(encoder: InputEncoder, rows: Rows, split: Split, indices: range) -> Any:
    if encoder.content is Content.TEXT:
        return [encoder.same(rows.columns[encoder.column][index]) for index in indices]
    encoded = [split.examples[index][encoder.spec.name] for index in indices]
    return np.asarray(encoded, np.float64 if encoder.content is Content.NUMBERS else None).reshape(len(encoded), -1)


def _joined(blocks: Sequence[Any]) -> Any:
    """The columns of several matrices side by side; sparse if one of them is."""
    from scipy import sparse

    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack([sparse.csr_matrix(block) for block in blocks], format="csr", dtype=np.float32)
    return np.hstack(blocks)

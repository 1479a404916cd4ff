"""The limits of connections and of JSON bodies, derived from the sizes that a model accepts and from the available memory.

The error message of a refused request names the limit, and docs/reference/server.md lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paddleship.shipped.computing.spec import Dimension, TensorSpec
from paddleship.shipped.serving.limits import in_flight_bytes, row_values

_PARSED_VALUE_BYTES = 48  # orjson needs up to 24 of a Python number, 8 of its place in a list, and its own
_PARSED_PER_TEXT_BYTE = 24  # measured: the worst JSON, [{"a":1},…], takes 23 times its size
_VALUE_BYTES = 64  # a float64 is written in up to 24 characters; the rest is for commas, brackets and indentation
_ESCAPED_BYTES = 12  # as \ud83d\ude00
_SPARE_TEXT_BYTES = 16 * 2**10  # of each row, for text that is cut
_BASE64 = 4 / 3
_MARKS_OF_TEXT = 5  # of one base64 text: two quotes and a comma
_ENVELOPE_BYTES = 64 * 2**10  # for names, ids, parameters; a body of this size is cheap to parse whatever it holds
_ENVELOPE_MARKS = 16 * 2**10
MARKS = {ord(","): 1, ord("["): 1, ord('"'): 2, ord("{"): 64}  # memory cost of the value that each character starts


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of every connection, independent of the model. Sending a body and reading an answer must keep the rate in each window.

    `max_drained_bytes` of a refused body are read, so that the client can use the connection again, at `drained_bytes_per_s`
    over all connections.
    """

    max_connections: int = 512
    max_head_bytes: int = 64 * 2**10
    max_drained_bytes: int = 512 * 2**20
    drained_bytes_per_s: int = 64 * 2**20
    max_pipelined: int = 8
    head_timeout_s: float = 10
    body_window_s: float = 10
    min_bytes_per_s: int = 128 * 2**10
    idle_timeout_s: float = 60


@dataclass(frozen=True)
class BodyLimits:
    """Limits of the body of a request. `max_marks` limits the sum over MARKS; None for text, which may contain these characters.

    `raw`: a body that is not JSON is the value of the one column, as it is.
    """

    max_batch: int
    max_bytes: int
    max_marks: int | None
    raw: bool = False
    unchecked_bytes: int = _ENVELOPE_BYTES


def of_bodies(
    requests: Sequence[TensorSpec],
    *,
    max_batch: int,
    longest_text: int | None,
    memory_bytes: int,
    largest_bytes: int | None = None,
    dimensions: Sequence[Dimension] = (),
) -> BodyLimits:
    """The limits of a model with the inputs `requests`.

    Of the texts of a row, `longest_text` characters are read; its columns of bytes have `largest_bytes` at most, and are sent as base64.
    """
    most = in_flight_bytes(memory_bytes)
    texts, files = ([spec for spec in requests if spec.dtype == dtype] for dtype in ("str", "bytes"))
    numbers = [spec for spec in requests if spec not in (*texts, *files)]
    values = min(max_batch * row_values(numbers, dimensions), most / _PARSED_VALUE_BYTES)
    room = max_batch * _BASE64 * (largest_bytes or 0) + values * _VALUE_BYTES + _ENVELOPE_BYTES
    raw = bool(files) and len(requests) == 1
    if longest_text is not None:
        room += max_batch * (_ESCAPED_BYTES * longest_text + _SPARE_TEXT_BYTES * len(texts))
        return BodyLimits(max_batch, int(min(room, most // _PARSED_PER_TEXT_BYTE)), None, raw)
    marks = 2 * int(values) + _MARKS_OF_TEXT * max_batch * len(files) + _ENVELOPE_MARKS
    return BodyLimits(max_batch, int(min(room, most / 2)), marks, raw)

"""The limits of connections and messages, derived from the sizes that a model accepts and from the available memory."""

from __future__ import annotations

from dataclasses import dataclass

from paddleship.shipped.serving.limits import in_flight_bytes, row_values
from paddleship.shipped.serving.model import ServedModel

_VALUE_BYTES = 10  # of the longest number that is no raw content
_CHARACTER_BYTES = 4
_SPARE_TEXT_BYTES = 16 * 2**10  # of each row, for text that is cut
UNCHECKED_BYTES = 64 * 2**10  # for names, ids, parameters; a message of this size is cheap to decode whatever it holds
_FIELDS = 1024  # of a message, besides values of BYTES
_READERS_SHARE, _FEWEST_READERS, _MOST_READERS = 4, 2, 256
MAX_STREAMS, MAX_REQUESTS = 128, 512  # of a connection, and of all
IDLE_S, HANDSHAKE_S = 60, 10
_READ_S, _BYTES_PER_S = 10, 2**20
WAIT_S, WRITE_S = 10, 30


@dataclass(frozen=True)
class MessageLimits:
    """The largest message, the fields that it may have, and what its packed numbers may take once they are decoded.

    Larger messages than UNCHECKED_BYTES are checked before they are decoded. At most `readers` messages of requests and `other_readers`
    of each other method are read at a time, each within `read_s`.
    """

    max_bytes: int
    max_fields: int
    max_decoded_bytes: int
    readers: int
    other_readers: int = 2

    @property
    def read_s(self) -> float:
        return _READ_S + self.max_bytes / _BYTES_PER_S


def of_messages(model: ServedModel) -> MessageLimits:
    """The limits of the messages to a model."""
    rows, most = model.limits.max_batch, in_flight_bytes(model.limits.memory_bytes)
    texts, files = ([spec for spec in model.requests if spec.dtype == dtype] for dtype in ("str", "bytes"))
    numbers = [spec for spec in model.requests if spec not in (*texts, *files)]
    room = rows * _VALUE_BYTES * row_values(numbers, model.candidate.dimensions) + rows * (model.largest_bytes or 0) + UNCHECKED_BYTES
    room += rows * (_CHARACTER_BYTES * (model.longest_text or 0) + _SPARE_TEXT_BYTES * len(texts))
    largest = int(min(room, most / 2))
    readers = min(max(most // _READERS_SHARE // largest, _FEWEST_READERS), _MOST_READERS)
    return MessageLimits(largest, _FIELDS + rows * len((*texts, *files)), most, readers)

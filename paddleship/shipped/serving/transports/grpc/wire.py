"""Check what a large message would take once it is decoded, from the fields of its wire format: some take 50 times their bytes."""

from __future__ import annotations

from collections.abc import Iterator

from paddleship.errors import RequestError
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.grpc.limits import MessageLimits

_INPUTS, _SHAPE, _CONTENTS = 5, 3, 5  # numbers of ModelInferRequest.inputs and of fields of an input
_BYTES = 2  # the wire type of bytes, and of what is in them
_INTEGERS = (2, 3, 4, 5)  # numbers in InferTensorContents of whole numbers, each in one byte or more
_INTEGER_BYTES = 8
_LONGEST_VARINT = 10
_BROKEN = "the message is not a ModelInferRequest: send one of the Open Inference Protocol"


def check(message: bytes, limits: MessageLimits) -> None:
    """Raises RequestError for what is no message, and ServingError for one that has too many fields or numbers."""
    _Check(message, limits).tensors()


def start_of_bytes(number: int, size: int) -> bytes:
    """What stands before the content of a field of bytes."""
    start = bytearray([number << 3 | _BYTES])
    while size > 0x7F:
        start.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*start, size])


class _Check:
    def __init__(self, message: bytes, limits: MessageLimits) -> None:
        self._message, self._limits = message, limits
        self._count = self._decoded = 0

    def tensors(self) -> None:
        for number, start, end in self._fields(0, len(self._message)):
            for inner, inner_start, inner_end in self._fields(start, end) if number == _INPUTS else ():
                self._add(inner_end - inner_start if inner == _SHAPE else 0)
                for field, first, last in self._fields(inner_start, inner_end) if inner == _CONTENTS else ():
                    self._add(last - first if field in _INTEGERS else 0)

    def _add(self, count: int) -> None:
        self._decoded += _INTEGER_BYTES * count
        if self._decoded > self._limits.max_decoded_bytes:
            raise ServingError(Kind.TOO_LARGE, "the request has more numbers than this server decodes: send fewer rows, or raw contents")

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The number of each field, and where its content begins and ends; empty for one that is a number."""
        while start < end:
            self._count += 1
            if self._count > self._limits.max_fields:
                raise ServingError(
                    Kind.TOO_LARGE, f"the request has more than {self._limits.max_fields} fields: send fewer rows, or raw contents"
                )
            key, start = self._varint(start)
            size = 0
            match key & 7:
                case 0:
                    _, start = self._varint(start)
                case 1:
                    start += 8
                case 2:  # bytes
                    size, start = self._varint(start)
                case 5:
                    start += 4
                case _:
                    raise RequestError(_BROKEN)
            if start + size > end:
                raise RequestError(_BROKEN)
            yield key >> 3, start, start + size
            start += size

    def _varint(self, start: int) -> tuple[int, int]:
        """The number that begins there, and where it ends."""
        value = 0
        for place, byte in enumerate(self._message[start : start + _LONGEST_VARINT]):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value, start + place + 1
        raise RequestError(_BROKEN)

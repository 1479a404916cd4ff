"""Memory that the processes of a server share: the state of each one, and what it published last, which outlives it."""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum

_BUFFER_BYTES = 64 * 2**10  # several times what a process publishes
_HEADER = struct.Struct("=Q")  # how many processes were replaced
_SLOT = struct.Struct("=BBxxxxxxQ")  # state, the buffer that is valid, and how often it was written
_LENGTH = struct.Struct("=I")


class ProcessState(IntEnum):
    """The state of a process, as far as the others need to know it."""

    STARTING = 0  # its model is loading, for the first time since the server was started
    REPLACING = 1  # one has ended, and the model of the next one is loading: it does not listen
    READY = 2
    FAILING = 3  # the model does not answer a known batch as before


class Board:
    """A slot for each process, shared by a parent with the processes that it forks. Only one process writes to a slot."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._stride = _SLOT.size + 2 * _BUFFER_BYTES
        self._memory = mmap.mmap(-1, _HEADER.size + count * self._stride)

    @property
    def replaced(self) -> int:
        """How many processes were replaced; only the parent counts them."""
        return int(_HEADER.unpack_from(self._memory)[0])

    def count_replaced(self) -> None:
        _HEADER.pack_into(self._memory, 0, self.replaced + 1)

    def state(self, slot: int) -> ProcessState:
        return ProcessState(self._memory[self._place(slot)])

    def set_state(self, slot: int, state: ProcessState) -> None:
        self._memory[self._place(slot)] = state

    def publish(self, slot: int, content: bytes) -> None:
        """Replace what the slot holds; a process that is killed meanwhile leaves what was there before. Raises ValueError for too much."""
        if len(content) > _BUFFER_BYTES - _LENGTH.size:
            raise ValueError(f"{len(content)} bytes do not fit into a slot of {_BUFFER_BYTES - _LENGTH.size}")
        place = self._place(slot)
        state, valid, writes = _SLOT.unpack_from(self._memory, place)
        buffer = self._buffer(slot, 1 - valid)
        _LENGTH.pack_into(self._memory, buffer, len(content))
        self._memory[buffer + _LENGTH.size : buffer + _LENGTH.size + len(content)] = content
        _SLOT.pack_into(self._memory, place, state, 1 - valid, writes + 1)

    def read(self, slot: int) -> bytes:
        """What was published last; empty if nothing was."""
        while True:
            _, valid, writes = _SLOT.unpack_from(self._memory, self._place(slot))
            buffer = self._buffer(slot, valid)
            (length,) = _LENGTH.unpack_from(self._memory, buffer)
            content = self._memory[buffer + _LENGTH.size : buffer + _LENGTH.size + min(length, _BUFFER_BYTES)]
            if _SLOT.unpack_from(self._memory, self._place(slot))[2] == writes:
                return content

    def _place(self, slot: int) -> int:
        return _HEADER.size + slot * self._stride

    def _buffer(self, slot: int, which: int) -> int:
        return self._place(slot) + _SLOT.size + which * _BUFFER_BYTES

"""What a process knows of the others of its server."""

from __future__ import annotations

from collections.abc import Iterator

from paddleship.shipped.serving.processes.board import Board, ProcessState

_LISTENS = (ProcessState.STARTING, ProcessState.READY, ProcessState.FAILING)


class Peers:
    """The other processes, as the one in a slot of the board sees them. `before` is what the process that it replaces published last."""

    def __init__(self, board: Board, slot: int) -> None:
        self.slot, self.count, self._board = slot, board.count, board
        self.before = board.read(slot)

    @property
    def waits(self) -> bool:
        """Whether this process listens only once its model is loaded: all but the first one, which says meanwhile that it is alive."""
        return self.slot > 0 or self._board.state(self.slot) is ProcessState.REPLACING

    @property
    def replaced(self) -> int:
        """How many processes of the server were replaced so far."""
        return self._board.replaced

    @property
    def are_starting(self) -> bool:
        """Whether the parent knows of a process, this one included, that its model has never been ready: its end would end the server."""
        return ProcessState.STARTING in self._states()

    @property
    def are_failing(self) -> bool:
        """Whether the model of a process does not answer a known batch as before."""
        return ProcessState.FAILING in self._states()

    def set_state(self, state: ProcessState) -> None:
        self._board.set_state(self.slot, state)

    def publish(self, content: bytes) -> None:
        """Let the others read this. Raises ValueError if it is too large."""
        self._board.publish(self.slot, content)

    def published(self) -> Iterator[tuple[bool, bytes]]:
        """What each of the others published last, and whether it is alive and listens."""
        for slot in range(self.count):
            if slot != self.slot:
                yield self._board.state(slot) in _LISTENS, self._board.read(slot)

    def _states(self) -> list[ProcessState]:
        return [self._board.state(slot) for slot in range(self.count)]

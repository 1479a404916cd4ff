"""The memory that requests and answers may have while they are in the server."""

from __future__ import annotations

from paddleship.shipped.serving.errors import Kind, ServingError


class Budget:
    """The bytes of requests and answers in memory, over all connections. For one thread at a time, the one that reads requests.

    `unread` are the bytes of answers that clients have not read yet, which a transport measures.
    """

    def __init__(self, total: int) -> None:
        self.total, self.used, self.unread = total, 0, 0

    def take(self, count: int) -> None:
        """Reserve `count` more bytes. Raises ServingError (BUSY) if that exceeds the budget."""
        if self.used + self.unread + count > self.total:
            raise ServingError(Kind.BUSY, f"the server's memory for requests and answers ({self.total} bytes) is in use: try again later")
        self.used += count

    def hold(self, count: int) -> None:
        """Count `count` bytes of an answer, which are in memory already."""
        self.used += count

    def give_back(self, count: int) -> None:
        self.used -= count

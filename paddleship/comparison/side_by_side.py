"""Two images under the same limits: started with restricted rights, asked single rows, and measured in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from paddleship.acceptance.observing import TIMEOUT_S
from paddleship.acceptance.transport import Server
from paddleship.acceptance.transports import server_at
from paddleship.containers import image_test
from paddleship.containers.sandbox import Sandbox, in_sandbox
from paddleship.data.dataset import Rows
from paddleship.errors import Unavailable
from paddleship.promotion import answers, latency
from paddleship.promotion.latency import Latency
from paddleship.system import locks

_RACED = 8  # different rows that latency is measured with


@dataclass(frozen=True)
class ServedImage:
    """An image of the engine, the model that its server has, and its name in messages."""

    title: str
    image_id: str
    model: str


@dataclass(frozen=True)
class Limits:
    """Those of each container."""

    memory_bytes: int
    ready_timeout_s: float


@contextmanager
def started(client: Any, served: ServedImage, limits: Limits) -> Iterator[Sandbox]:
    """Run the image locked down."""
    with in_sandbox(client, served.image_id, memory_bytes=limits.memory_bytes) as sandbox:
        yield sandbox


def ready(sandbox: Sandbox, served: ServedImage, limits: Limits) -> Server:
    """Wait until the server is ready. Raises Unavailable."""
    server = server_at(sandbox.host, sandbox.port, model=served.model, timeout_s=TIMEOUT_S)
    try:
        image_test.wait_until_ready(server, sandbox, deadline=time.perf_counter() + limits.ready_timeout_s)
    except image_test.NotReadyError as obstacle:
        raise Unavailable(f"{served.title} does not serve here: {obstacle}") from None
    return server


@contextmanager
def serving(client: Any, served: ServedImage, limits: Limits) -> Iterator[Server]:
    """Run the image until it is ready. Raises Unavailable."""
    with started(client, served, limits) as sandbox:
        yield ready(sandbox, served, limits)


def encoded(server: Server, rows: Rows, pads: Mapping[str, float]) -> list[bytes]:
    """The requests that latency is measured with: the first rows, one each."""
    few = rows.take(range(min(len(rows), _RACED)))
    with closing(server.connect()) as client:
        return [server.encode(one.tensors) for one in answers.single_rows(few, client.metadata(), pads)]


def race(
    client: Any, champion: ServedImage, challenger: ServedImage, requests: Sequence[bytes], limits: Limits, *, effect: float, seconds: float
) -> Latency:
    """The speed of both at the same time, while nothing else of paddleship measures on this machine. Raises Unavailable."""

    @contextmanager
    def servers() -> Iterator[Mapping[str, latency.Connect]]:
        with ExitStack() as stack:
            images = {latency.CHAMPION: champion, latency.AGAIN: champion, latency.CHALLENGER: challenger}
            running = {name: stack.enter_context(started(client, served, limits)) for name, served in images.items()}
            yield {name: ready(running[name], served, limits).connect for name, served in images.items()}

    with locks.turn_on_machine("benchmark"):
        return latency.race(servers, requests, effect=effect, seconds=seconds)

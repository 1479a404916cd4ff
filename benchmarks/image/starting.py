"""Start a container of an image: the seconds to its first answer, and its memory when it is idle."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from paddleship.acceptance.transport import Server, ServerError
from paddleship.acceptance.transports import server_at
from paddleship.config.params import Params
from paddleship.containers.sandbox import locked_down
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.promotion.answers import single_rows

_POLL_S, _IDLE_S, _LONGEST_S = 0.01, 2.0, 60.0


def measure(client: Any, image_id: str, params: Params) -> dict[str, float]:
    """Seconds from the request for a container to an answer for a held-out row, those of the processor, which depend less on other load,
    and MB of memory without the file cache after it.
    """
    row = dataset.read(Path(params.paths.prepared), "test").take([0])
    network = client.networks.create("paddleship-image-bench", internal=True)
    container = None
    try:
        began = time.perf_counter()
        options = locked_down(memory_bytes=params.accept.memory_bytes)
        container = client.containers.run(image_id, detach=True, network=network.name, **options)
        container.reload()
        address = container.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
        _first_answer(server_at(address, 8000, model=params.name), row, deadline=began + _LONGEST_S)
        seconds = time.perf_counter() - began
        time.sleep(_IDLE_S)
        stats = container.stats(stream=False)
    finally:
        if container is not None:
            container.remove(force=True)
        network.remove()
    usage, processor_ns = stats["memory_stats"], stats["cpu_stats"]["cpu_usage"]["total_usage"]
    cached = usage["stats"].get("total_inactive_file", usage["stats"].get("inactive_file", 0))
    return {
        "first_answer_s": seconds,
        "processor_s": processor_ns / 1e9,
        "idle_mb": (usage["usage"] - cached) / 1e6,
        "peak_mb": usage.get("max_usage", 0) / 1e6,
    }


def _first_answer(server: Server, row: Rows, *, deadline: float) -> None:
    while True:
        try:
            with closing(server.connect()) as client:
                (question,) = single_rows(row, client.metadata(), {})
                client.ask(question.tensors)
                return
        except ServerError:
            if time.perf_counter() > deadline:
                raise
            time.sleep(_POLL_S)

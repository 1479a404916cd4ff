"""`python -m benchmarks.serve.in_process CANDIDATE SECONDS`: answers a second from JSON to JSON without HTTP, one by one and in batches.

Standard input has a body in each line. Prints the rates by the number of requests that are answered together, as JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.shipped.serving import limits
from paddleship.shipped.serving.batching import Answering
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.settings import Settings
from paddleship.shipped.serving.transports.http.bodies import Body
from paddleship.shipped.serving.transports.http.http_request import HttpRequest
from paddleship.shipped.serving.transports.http.inference import JsonModel

TOGETHER = (1, 8, 32)


def main() -> None:
    silence_paddle()
    folder, seconds, bodies = Path(sys.argv[1]), float(sys.argv[2]), sys.stdin.buffer.read().splitlines()
    model = ServedModel(folder)
    model.warm_up()
    print(json.dumps({count: _rate(model, bodies, count, seconds) for count in TOGETHER}))


def _rate(model: ServedModel, bodies: Sequence[bytes], count: int, seconds: float) -> float:
    answering, of_json, loop = Answering(model, Settings(batching=True, padding=True)), JsonModel(model), asyncio.new_event_loop()
    budget, turn, answered = Budget(limits.in_flight_bytes(limits.available_memory())), itertools.cycle(bodies), 0

    def asked() -> HttpRequest:
        body = Body({}, of_json.limits, budget)
        body.content += next(turn)
        return HttpRequest(of_json, body, is_gone=bool, loop=loop)

    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        requests = [asked() for _ in range(count)]
        answering.answer(deque(requests))
        answered += sum(bool(one.answer.result()) for one in requests)
    rate = answered / (time.perf_counter() - began)
    loop.close()
    return rate


if __name__ == "__main__":
    main()

"""`python -m paddleship.shipped.serving --candidate FOLDER`: serve one candidate over HTTP until SIGTERM.

SIGUSR1, some seconds before, makes clients with open connections go elsewhere without an error.
"""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing.paddle_logs import silence_paddle

if TYPE_CHECKING:
    import uvicorn


def main() -> None:
    arguments = _parser().parse_args()
    silence_paddle()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    failures: list[BaseException] = []

    def stop(failure: BaseException) -> None:
        failures.append(failure)
        server.should_exit = True

    server = _server(arguments, stop)
    with suppress(SystemExit):  # how uvicorn ends when it cannot listen; the lines below say it better
        server.run()
    if failures:
        message = str(failures[0]) if isinstance(failures[0], PaddleshipError) else repr(failures[0])
        print(f"error: {message}", file=sys.stderr)
        sys.exit(failures[0].exit_code if isinstance(failures[0], PaddleshipError) else 1)
    if not server.started:
        print(f"error: port {arguments.port} on {arguments.host} is unavailable: choose another with --port", file=sys.stderr)
        sys.exit(4)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m paddleship.shipped.serving", description="Serve one candidate.")
    parser.add_argument("--candidate", type=Path, required=True, help="folder that holds candidate.json")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    parser.add_argument(
        "--max-batch", type=int, help="rows that one request may have (default, and at most: what the candidate is proven with)"
    )
    parser.add_argument(
        "--sample", type=Path, metavar="FOLDER", help="count features of the requests in a file there, for `paddleship drift`"
    )
    parser.add_argument("--memory-bytes", type=int, help="memory that limits are derived from (default: this container's or machine's)")
    return parser


def _server(arguments: argparse.Namespace, stop: Callable[[BaseException], None]) -> uvicorn.Server:
    from paddleship.shipped.serving import limits
    from paddleship.shipped.serving.app import create_app
    from paddleship.shipped.serving.connections import Guard, make_server, send_clients_away
    from paddleship.shipped.serving.model import ServedModel
    from paddleship.shipped.serving.sample import SUFFIX

    memory = arguments.memory_bytes or limits.available_memory()
    guard = Guard(limits.ConnectionLimits(), limits.in_flight_bytes(memory))

    sample = arguments.sample and arguments.sample / f"{socket.gethostname()}-{arguments.port}{SUFFIX}"

    def load() -> ServedModel:
        return ServedModel(arguments.candidate, max_batch=arguments.max_batch, memory_bytes=memory, sample=sample)

    server = make_server(create_app(load, guard, on_failure=stop), guard, host=arguments.host, port=arguments.port)
    signal.signal(signal.SIGUSR1, lambda *_: send_clients_away(server))
    return server


if __name__ == "__main__":
    main()

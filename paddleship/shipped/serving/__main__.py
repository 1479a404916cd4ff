"""`python -m paddleship.shipped.serving --candidate FOLDER`: serve one candidate until SIGTERM, over HTTP and other transports."""

from __future__ import annotations

import argparse
import socket
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.shipped.serving import logs, options, transports
from paddleship.shipped.serving.transports import http

if TYPE_CHECKING:
    from paddleship.shipped.serving.options import Options
    from paddleship.shipped.serving.service import Service


def main() -> None:
    arguments = _parser().parse_args()
    silence_paddle()
    logs.configure(logs.Format(arguments.log_format))
    failure: BaseException | None
    try:
        failure = _serve(arguments)
    except PaddleshipError as error:
        failure = error
    if failure:
        print(f"error: {failure if isinstance(failure, PaddleshipError) else repr(failure)}", file=sys.stderr)
        sys.exit(failure.exit_code if isinstance(failure, PaddleshipError) else 1)


def _serve(arguments: argparse.Namespace) -> BaseException | None:
    """Serve until SIGTERM, or until the model cannot be loaded: why not, if so."""
    service = _service(arguments)
    http.serve(service, host=arguments.host, port=arguments.port, also=_also(service, arguments))
    return service.failure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m paddleship.shipped.serving", description="Serve one candidate.")
    parser.add_argument("--candidate", type=Path, required=True, help="folder that holds candidate.json")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    parser.add_argument(
        "--also",
        type=_named_port,
        action="append",
        metavar="NAME:PORT",
        help=f"another transport beside HTTP ({', '.join(transports.names())}); may be repeated (default: those of the image)",
    )
    parser.add_argument(
        "--max-batch", type=int, help="rows that one request may have (default, and at most: what the candidate is proven with)"
    )
    parser.add_argument(
        "--sample", type=Path, metavar="FOLDER", help="count features of the requests in a file there, for `paddleship drift`"
    )
    parser.add_argument(
        "--log-format", choices=[*map(str, logs.Format)], default="text", help="json: JSON lines, one for each request too (default: text)"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="answer only clients with a token of this file, which has one a line"
    )
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve over TLS with this certificate chain (PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="key of the certificate (PEM)")
    parser.add_argument("--no-batching", action="store_true", help="answer every request in a batch of its own")
    parser.add_argument(
        "--slo-ms", type=float, metavar="MS", help="refuse a request that would take longer (default: benchmark.slo_p99_ms of the image)"
    )
    parser.add_argument("--memory-bytes", type=int, help="memory that limits are derived from (default: this container's or machine's)")
    return parser


def _named_port(text: str) -> tuple[str, int]:
    name, _, port = text.partition(":")
    if name not in transports.names() or not port.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no transport with its port: write one of {', '.join(transports.names())} as NAME:PORT"
        )
    return name, int(port)


def _also(service: Service, arguments: argparse.Namespace) -> list[AbstractAsyncContextManager[None]]:
    """The transports beside HTTP. Raises CandidateError."""
    from paddleship.shipped.serving import settings

    chosen = arguments.also or settings.read(arguments.candidate).also.items()
    return [transports.get(name).listening(service, host=arguments.host, port=port) for name, port in chosen]


def _service(arguments: argparse.Namespace) -> Service:
    from paddleship.shipped.serving import limits, settings
    from paddleship.shipped.serving.budget import Budget
    from paddleship.shipped.serving.model import ServedModel
    from paddleship.shipped.serving.sample import SUFFIX
    from paddleship.shipped.serving.service import Service

    memory = arguments.memory_bytes or limits.available_memory()
    sample = arguments.sample and arguments.sample / f"{socket.gethostname()}-{arguments.port}{SUFFIX}"

    def load() -> ServedModel:
        return ServedModel(arguments.candidate, max_batch=arguments.max_batch, memory_bytes=memory, sample=sample)

    given = settings.read(arguments.candidate)
    if arguments.no_batching:
        given = replace(given, batching=False, padding=False)
    if arguments.slo_ms is not None:
        given = replace(given, slo_p99_ms=arguments.slo_ms)
    return Service(load, Budget(limits.in_flight_bytes(memory)), given, _options(arguments))


def _options(arguments: argparse.Namespace) -> Options:
    return options.Options(
        tokens=options.read_tokens(arguments.token_file) if arguments.token_file else None,
        certificate=arguments.tls_certificate,
        key=arguments.tls_key,
        logs_requests=arguments.log_format == logs.Format.JSON,
    )


if __name__ == "__main__":
    main()

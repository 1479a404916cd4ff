"""`python -m paddleship.shipped.serving --candidate FOLDER`: serve one candidate until SIGTERM, over HTTP and other transports."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.shipped.serving import options, settings, transports
from paddleship.shipped.serving.processes import supervisor
from paddleship.shipped.serving.processes.supervisor import ERROR, ExitStatus
from paddleship.shipped.serving.telemetry import logs
from paddleship.shipped.serving.transports import http

if TYPE_CHECKING:
    from paddleship.shipped.serving.options import Options
    from paddleship.shipped.serving.processes.peers import Peers
    from paddleship.shipped.serving.service import Service
    from paddleship.shipped.serving.settings import Settings

_MOST_PROCESSES = 64


def main() -> None:
    arguments = _parser().parse_args()
    silence_paddle()
    logs.configure(logs.Format(arguments.log_format))
    status = _attempt(lambda: _run(arguments))
    if status.line:
        print(status.line, file=sys.stderr)
    sys.exit(status.code)


def _attempt(serve: Callable[[], ExitStatus]) -> ExitStatus:
    try:
        return serve()
    except PaddleshipError as error:
        return _failed(error)


def _failed(failure: BaseException) -> ExitStatus:
    if isinstance(failure, PaddleshipError):
        return ExitStatus(failure.exit_code, f"{ERROR}{failure}")
    return ExitStatus(1, f"{ERROR}{failure!r}")


def _run(arguments: argparse.Namespace) -> ExitStatus:
    """Serve until SIGTERM, in one process or below a supervisor. Raises PaddleshipError."""
    given = settings.read(arguments.candidate)
    count = arguments.processes or given.processes
    if count == 1:
        return _serve(arguments, given, None)
    supervisor.require_free(arguments.host, arguments.port, option="--port")
    for name, port in _also(arguments, given):
        supervisor.require_free(arguments.host, port, option=f"--also {name}:PORT")
    return supervisor.supervise(count, lambda peers: _attempt(lambda: _serve(arguments, given, peers)))


def _serve(arguments: argparse.Namespace, given: Settings, peers: Peers | None) -> ExitStatus:
    """Serve in this process until SIGTERM, or until the model cannot be loaded. Raises PaddleshipError."""
    service = _service(arguments, given, peers)
    also = [transports.get(name).listening(service, host=arguments.host, port=port) for name, port in _also(arguments, given)]
    http.serve(service, host=arguments.host, port=arguments.port, also=also)
    return _failed(service.failure) if service.failure else ExitStatus()


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
    parser.add_argument(
        "--processes",
        type=_process_count,
        metavar="N",
        help="processes, each with the model, that share the ports and the memory (default: those of the image)",
    )
    parser.add_argument(
        "--max-requests-per-client",
        type=_request_count,
        metavar="N",
        help="requests that one client may have in flight: one token, or without tokens one address (default: any number)",
    )
    parser.add_argument(
        "--otlp-endpoint",
        metavar="URL",
        default=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
        help="collector of OpenTelemetry that gets a span of each request whose client records its trace "
        "(default: OTEL_EXPORTER_OTLP_ENDPOINT of the environment, or none)",
    )
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


def _process_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_PROCESSES:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: give 1 to {_MOST_PROCESSES}")
    return int(text)


def _request_count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of requests: give at least 1")
    return int(text)


def _also(arguments: argparse.Namespace, given: Settings) -> list[tuple[str, int]]:
    """The transports beside HTTP, with their ports."""
    return arguments.also or [*given.also.items()]


def _service(arguments: argparse.Namespace, given: Settings, peers: Peers | None) -> Service:
    from paddleship.shipped.computing.runtimes import nvidia
    from paddleship.shipped.serving import limits
    from paddleship.shipped.serving.budget import Budget
    from paddleship.shipped.serving.model import ServedModel
    from paddleship.shipped.serving.sample import SUFFIX
    from paddleship.shipped.serving.service import Service

    share = peers.count if peers is not None else 1
    whole = arguments.memory_bytes or limits.available_memory()
    memory = whole // share
    name = f"{socket.gethostname()}-{arguments.port}{f'-{peers.slot}' if peers is not None and peers.slot else ''}"
    sample = arguments.sample and arguments.sample / f"{name}{SUFFIX}"

    def load() -> ServedModel:
        nvidia.require_model(given.gpu)
        return ServedModel(arguments.candidate, max_batch=arguments.max_batch, memory_bytes=memory, sample=sample, share=share)

    if arguments.no_batching:
        given = replace(given, batching=False, padding=False)
    if arguments.slo_ms is not None:
        given = replace(given, slo_p99_ms=arguments.slo_ms)
    return Service(load, Budget(limits.in_flight_bytes(whole) // share), given, _options(arguments), peers)


def _options(arguments: argparse.Namespace) -> Options:
    return options.Options(
        tokens=options.read_tokens(arguments.token_file) if arguments.token_file else None,
        certificate=arguments.tls_certificate,
        key=arguments.tls_key,
        logs_requests=arguments.log_format == logs.Format.JSON,
        requests_per_client=arguments.max_requests_per_client,
        collector=arguments.otlp_endpoint or None,
        service_name=os.environ.get("OTEL_SERVICE_NAME") or None,
    )


if __name__ == "__main__":
    main()

"""`python -m paddleship.serving --candidate FOLDER`: serve one candidate over HTTP until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import suppress
from pathlib import Path

from paddleship.errors import PaddleshipError
from paddleship.quiet import quiet


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paddleship.serving", description="Serve one candidate (Open Inference Protocol v2).")
    parser.add_argument("--candidate", type=Path, required=True, help="folder that holds candidate.json")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    parser.add_argument("--max-batch", type=int, default=256, help="rows that one request may have (default: 256)")
    arguments = parser.parse_args()

    import uvicorn

    from paddleship.serving.app import create_app

    quiet()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    failures: list[BaseException] = []

    def stop(failure: BaseException) -> None:
        if not isinstance(failure, PaddleshipError):
            logging.getLogger("paddleship.serving").error("the model cannot be loaded", exc_info=failure)
        failures.append(failure)
        server.should_exit = True

    app = create_app(arguments.candidate, max_batch=arguments.max_batch, on_failure=stop)
    config = uvicorn.Config(app, host=arguments.host, port=arguments.port, access_log=False, log_config=None, timeout_graceful_shutdown=30)
    server = uvicorn.Server(config)
    with suppress(SystemExit):  # how uvicorn ends when it cannot listen; the lines below say it better
        server.run()
    if failures:
        message = str(failures[0]) if isinstance(failures[0], PaddleshipError) else repr(failures[0])
        print(f"error: {message}", file=sys.stderr)
        sys.exit(failures[0].exit_code if isinstance(failures[0], PaddleshipError) else 1)
    if not server.started:
        print(f"error: port {arguments.port} on {arguments.host} cannot be listened on: choose another with --port", file=sys.stderr)
        sys.exit(4)


if __name__ == "__main__":
    main()

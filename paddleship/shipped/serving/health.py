"""`python -m paddleship.shipped.serving.health`: exit 0 when the server in this container is ready, for HEALTHCHECK."""

from __future__ import annotations

import sys

from paddleship.shipped.serving.transports import http


def main() -> None:
    sys.exit(0 if http.is_ready(host="127.0.0.1", port=8000) else 1)


if __name__ == "__main__":
    main()

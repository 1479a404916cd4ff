"""`python -m paddleship.shipped.serving.health`: exit 0 when the server in this container is ready, for HEALTHCHECK."""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException


def main() -> None:
    connection = HTTPConnection("127.0.0.1", 8000, timeout=2)
    try:
        connection.request("GET", "/v2/health/ready")
        sys.exit(0 if connection.getresponse().status == 200 else 1)
    except (OSError, HTTPException):
        sys.exit(1)


if __name__ == "__main__":
    main()

"""`python constant.py PORT BYTES`: the server's HTTP stack, uvicorn, which reads a body and answers a constant."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn


def main() -> None:
    port, size = map(int, sys.argv[1:])
    head = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-length", b"%d" % size), (b"content-type", b"application/json")],
    }
    body = {"type": "http.response.body", "body": b"0" * size}

    async def answer(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send(head)
        await send(body)

    uvicorn.run(answer, host="127.0.0.1", port=port, access_log=False, proxy_headers=False, log_level="error", lifespan="off", ws="none")


if __name__ == "__main__":
    main()

"""`python name_server.py [ADDRESS]`: a name server on 127.0.0.1, or ADDRESS, that prints the name of every look-up and knows none.

It imports only the standard library, because it runs in a container too.
"""

import socket
import sys

_NO_SUCH_NAME = (0x8183).to_bytes(2)
_HEADER = 12


def question(query: bytes) -> tuple[str, bytes]:
    """The name that a query asks for, and its whole question."""
    labels, at = [], _HEADER
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), query[_HEADER : at + 5]


def main() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1] if sys.argv[1:] else "127.0.0.1", 53))
        print("ready", flush=True)
        while True:
            query, client = server.recvfrom(4096)
            name, asked = question(query)
            print(name, flush=True)
            server.sendto(query[:2] + _NO_SUCH_NAME + (1).to_bytes(2) + bytes(6) + asked, client)


if __name__ == "__main__":
    main()

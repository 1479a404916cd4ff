"""A real HTTP server with a will of its own."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from paddleship.acceptance.transports import server_at


@pytest.fixture
def serve():
    """Start a server that gives `answers` in turn, the last one for ever."""
    servers = []

    def start(*answers):
        remaining = list(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = remaining.pop(0) if len(remaining) > 1 else remaining[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return server_at(*server.server_address, model="tiny")

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()

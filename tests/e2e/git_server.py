"""A git server over HTTP that asks for a user and a password: `python -m tests.e2e.git_server HOST PORT REPOSITORY`.

Git's own program (`git http-backend`) answers, so that it can do what the servers of a team can.
"""

import base64
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

USER = "team"
PASSWORD = "of-a-test-only-" + "7" * 33
_EXPECTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class _Handler(BaseHTTPRequestHandler):
    repository: Path

    def do_GET(self):
        if self.headers["Authorization"] != _EXPECTED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        asked = {
            "GIT_PROJECT_ROOT": str(self.repository.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path.replace("/origin.git", f"/{self.repository.name}", 1),
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers["Content-Type"] or "",
            "CONTENT_LENGTH": self.headers["Content-Length"] or "",
            "HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or "",
            "GIT_PROTOCOL": self.headers["Git-Protocol"] or "",
            "REMOTE_USER": USER,
        }
        done = subprocess.run(["git", "http-backend"], input=self._body(), env=os.environ | asked, stdout=subprocess.PIPE, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def _body(self):
        if self.headers["Transfer-Encoding"] != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


def main(host, port, repository):
    _Handler.repository = Path(repository).resolve()
    with ThreadingHTTPServer((host, int(port)), _Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

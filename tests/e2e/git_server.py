"""A git server over HTTP that asks for a user and a password: `python -m tests.e2e.git_server HOST PORT REPOSITORY`."""

import base64
import socketserver
import sys
from wsgiref.simple_server import WSGIServer, make_server

from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import WSGIRequestHandlerLogger, make_wsgi_chain

USER = "team"
PASSWORD = "of-a-test-only-" + "7" * 33


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


def main(host, port, repository):
    answer = make_wsgi_chain(DictBackend({"/origin.git": Repo(repository)}))
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    def guarded(request, start_response):
        if request.get("HTTP_AUTHORIZATION") == expected:
            return answer(request, start_response)
        start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"')])
        return [b""]

    with make_server(host, int(port), guarded, _Server, WSGIRequestHandlerLogger) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Notifications by a real Prefect server to receivers on loopback: HTTP for webhooks, SMTP for e-mail."""

import json
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Failed

from paddleship.config.sections.notify import Notify
from paddleship.errors import BadInput
from paddleship.orchestration import notifications
from tests.flows.helpers import wait_for

PROMOTED = 'version 2 of "linear" is champion'


@pytest.fixture
def server(prefect_url):
    with temporary_settings({PREFECT_API_URL: prefect_url}):
        yield
        notifications.set_up(Notify())


@contextmanager
def serving(receiver):
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        yield receiver.server_address[1]
    finally:
        receiver.shutdown()
        receiver.server_close()


@pytest.fixture
def hook():
    """The port of an HTTP receiver, and the bodies that it got."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments):
            """Quiet."""

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield port, bodies


@pytest.fixture
def mailbox():
    """The port of an SMTP receiver, and the messages that it got."""
    messages = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().strip().upper():
                if line == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    messages.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(b"221 bye\r\n" if line == b"QUIT" else b"250 ok\r\n")

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield port, messages


@flow(name="promote")
def promoted():
    return Completed(message=PROMOTED)


@flow(name="any")
def ended(name):
    return Failed(name=name, message="accuracy is 0.7")


def test_a_webhook_gets_each_failure_missed_gate_and_promotion_once(server, hook, monkeypatch):
    port, bodies = hook
    monkeypatch.setenv("PADDLESHIP_NOTIFY_WEBHOOK", f"http://127.0.0.1:{port}/x")
    for _ in range(2):
        notifications.set_up(Notify(channels=["webhook"]))
    ended("GateFailed", return_state=True)
    ended("Unavailable", return_state=True)
    promoted(return_state=True)

    def ours():
        """What was sent of the flows of this test: others run beside it on the same server."""
        return [one for one in map(json.loads, bodies) if one["text"] in ("accuracy is 0.7", PROMOTED)]

    wait_for(lambda: len(ours()) >= 3, seconds=30)
    assert sorted((one["occasion"], one["text"]) for one in ours()) == [
        ("failed", "accuracy is 0.7"),
        ("gate-missed", "accuracy is 0.7"),
        ("promoted", PROMOTED),
    ]
    (promotion,) = (one for one in ours() if one["occasion"] == "promoted")
    assert promotion["subject"].startswith("promote: ")


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # which apprise imports
def test_an_email_says_what_failed(server, mailbox, monkeypatch, tmp_path):
    port, messages = mailbox
    (tmp_path / "address").write_text(f"mailto://127.0.0.1:{port}?from=a@example.org&to=b@example.org\n")
    monkeypatch.setenv("PADDLESHIP_NOTIFY_EMAIL_FILE", str(tmp_path / "address"))
    notifications.set_up(Notify(channels=["email"], occasions=["gate-missed"]))
    ended("GateFailed", return_state=True)
    (message,) = wait_for(lambda: [one for one in messages if b"any missed a gate" in one], seconds=30)
    assert b"accuracy is 0.7" in message


def test_a_channel_without_an_address_is_refused_before_anything_is_changed(monkeypatch):
    monkeypatch.delenv("PADDLESHIP_NOTIFY_SLACK", raising=False)
    with pytest.raises(BadInput, match="neither PADDLESHIP_NOTIFY_SLACK nor PADDLESHIP_NOTIFY_SLACK_FILE is set"):
        notifications.set_up(Notify(channels=["slack"]))

"""Notifications by a real Prefect server to receivers on loopback: HTTP for webhooks, SMTP for e-mail, and Slack's host behind a proxy."""

import datetime
import json
import socketserver
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Failed

from paddleship.config.sections.notify import Notify
from paddleship.errors import BadInput
from paddleship.orchestration import drift_check, notifications
from paddleship.servers.local_state import Local
from tests.flows.helpers import prefect_api, wait_for

PROMOTED = 'version 2 of "of-this-test" is champion'  # other tests promote versions of linear on the same server
SLACK = "hooks.slack.com"
SLACK_PATH = f"/services/T{'0' * 8}/B{'0' * 8}/{'x' * 24}"


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


def test_a_webhook_gets_each_failure_missed_gate_and_promotion_by_one_automation_each(server, prefect_url, hook, monkeypatch):
    port, bodies = hook
    monkeypatch.setenv("PADDLESHIP_NOTIFY_WEBHOOK", f"http://127.0.0.1:{port}/x")
    for _ in range(2):
        notifications.set_up(Notify(channels=["webhook"]))
    names = [one["name"] for one in prefect_api(prefect_url, "automations/filter", {}) if one["name"].startswith("notify: ")]
    assert sorted(names) == [f"notify: {occasion} by webhook" for occasion in ("drift", "failed", "gate-missed", "promoted")]
    ended("GateFailed", return_state=True)
    ended("Unavailable", return_state=True)
    promoted(return_state=True)

    def ours():
        """What was sent of the flows of this test, by occasion and text: others run beside it on the same server.

        Prefect's server evaluates an event again if its database was busy, and may then send a message again.
        """
        sent = [one for one in map(json.loads, bodies) if one["text"] in ("accuracy is 0.7", PROMOTED)]
        return {(one["occasion"], one["text"]): one["subject"] for one in sent}

    wait_for(lambda: len(ours()) >= 3)
    assert sorted(ours()) == [("failed", "accuracy is 0.7"), ("gate-missed", "accuracy is 0.7"), ("promoted", PROMOTED)]
    assert ours()["promoted", PROMOTED].startswith("promote: ")


def drifted(*names):
    """The result of a check in which these features drifted, of a model that no other test has: one of a model is told in a minute."""
    features = [SimpleNamespace(name=name, distance=0.5, unseen_share=0.0, verdict="drifted") for name in names]
    sample = SimpleNamespace(model=f"model-{uuid4().hex}", rows=1000, candidate_digest=uuid4().hex)
    return SimpleNamespace(sample=sample, features=features, drifted=features)


def test_a_webhook_gets_the_drift_of_a_check_once_with_all_of_its_features(server, hook, monkeypatch, tmp_path):
    port, bodies = hook
    monkeypatch.setenv("PADDLESHIP_NOTIFY_WEBHOOK", f"http://127.0.0.1:{port}/x")
    notifications.set_up(Notify(channels=["webhook"], occasions=["drift"]))
    checks = []

    def check():
        """Check the drift of another model, twice: Prefect's server reads a new automation late, and acts on no event before that."""
        checks.append(drifted("x[0]", "x[1]"))
        for _ in range(2):
            drift_check.notify(Local(tmp_path), checks[-1], params_file=None)
        return time.monotonic() + 20

    again = check()

    def told():
        nonlocal again
        if time.monotonic() > again:
            again = check()
        sent = list(map(json.loads, bodies))
        return [(one, of) for of in checks for one in sent if of.sample.candidate_digest in one["text"]]

    ((one, result),) = wait_for(told)
    text = f"x[0], x[1] of candidate {result.sample.candidate_digest} (1000 requests)"
    assert one == {"occasion": "drift", "subject": f"drift of {result.sample.model}", "text": text}


@pytest.fixture
def slack(tmp_path, monkeypatch):
    """Slack's host, for processes that start from now on: what a proxy on loopback passes to a server with a certificate for that name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SLACK)]), datetime.datetime.now(datetime.UTC)
    begun = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(days=1))
    certificate = begun.add_extension(x509.SubjectAlternativeName([x509.DNSName(SLACK)]), critical=False).sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "ca.pem").write_bytes(pem)
    (tmp_path / "both.pem").write_bytes(private + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self):
            self.send_response(200)
            self.end_headers()
            self.connection = context.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
            self.close_connection = False

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((self.headers["Host"], self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")  # Slack's answer

        def finish(self):
            super().finish()
            self.connection.close()

        def log_message(self, *_arguments):
            """Quiet."""

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        for variable in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{port}")
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(variable, "127.0.0.1,localhost")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        yield requests


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # which apprise imports
def test_slack_gets_a_missed_gate_a_promotion_and_drift_at_the_address_of_its_webhook(
    slack, warm_commands, with_tables, free_port, monkeypatch, tmp_path
):
    """A server of its own, because the shared one was started without the proxy."""
    local = replace(Local(with_tables(tmp_path / "of-slack")), prefect_port=free_port())
    monkeypatch.setenv("PADDLESHIP_NOTIFY_SLACK", f"https://{SLACK}{SLACK_PATH}")
    url = local._prefect().start()
    try:
        with temporary_settings({PREFECT_API_URL: f"{url}/api"}):
            monkeypatch.setenv("PREFECT_API_URL", f"{url}/api")
            notifications.set_up(Notify(channels=["slack"]))
            ended("GateFailed", return_state=True)
            promoted(return_state=True)
            drift_check.notify(local, drifted("x[0]"), params_file=None)
            wait_for(lambda: len(slack) >= 3)
    finally:
        local.stop()
    assert {(host, path, kind) for host, path, kind, _ in slack} == {(SLACK, SLACK_PATH, "application/json; charset=utf-8")}
    texts = [json.dumps(body) for *_, body in slack]
    for what in (
        "any missed a gate: ",
        "accuracy is 0.7",
        "promote: ",
        "version 2 of",
        "is champion",
        "drift of model-",
        "x[0] of candidate",
    ):
        assert any(what in text for text in texts), (what, texts)
    assert len(slack) == 3


@pytest.mark.parametrize(
    ("channel", "address"),
    [
        ("slack", "https://example.org/hook"),
        ("slack", f"https://{SLACK}/services/T0/B0"),
        ("email", "team@example.org"),
        ("webhook", "hook"),
    ],
)
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # which apprise imports
def test_an_address_that_the_channel_cannot_use_is_refused_before_anything_is_changed(monkeypatch, caplog, channel, address):
    monkeypatch.setenv(f"PADDLESHIP_NOTIFY_{channel.upper()}", address)
    with pytest.raises(
        BadInput, match=f"the address of the channel '{channel}' cannot be used: correct PADDLESHIP_NOTIFY_{channel.upper()}"
    ):
        notifications.set_up(Notify(channels=[channel]))
    assert caplog.text == "", "an address may hold a password"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # which apprise imports
def test_an_email_says_what_failed(server, mailbox, monkeypatch, tmp_path):
    port, messages = mailbox
    (tmp_path / "address").write_text(f"mailto://127.0.0.1:{port}?from=a@example.org&to=b@example.org\n")
    monkeypatch.setenv("PADDLESHIP_NOTIFY_EMAIL_FILE", str(tmp_path / "address"))
    notifications.set_up(Notify(channels=["email"], occasions=["gate-missed"]))
    ended("GateFailed", return_state=True)
    (message,) = wait_for(lambda: [one for one in messages if b"any missed a gate" in one])
    assert b"accuracy is 0.7" in message


def test_a_channel_without_an_address_is_refused_before_anything_is_changed(monkeypatch):
    monkeypatch.delenv("PADDLESHIP_NOTIFY_SLACK", raising=False)
    with pytest.raises(BadInput, match="neither PADDLESHIP_NOTIFY_SLACK nor PADDLESHIP_NOTIFY_SLACK_FILE is set"):
        notifications.set_up(Notify(channels=["slack"]))

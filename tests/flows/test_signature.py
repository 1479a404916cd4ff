"""The signature of an image in a real registry, and a promotion that asks for one."""

import base64
import io
import json
import os
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from paddleship.config import loading
from paddleship.config.sections.promote import Promote
from paddleship.errors import GateFailed, Unavailable
from paddleship.promotion import signatures
from paddleship.promotion.ledger import Entry, Event, Ledger, Shipped
from paddleship.rollout import image_registry as images
from paddleship.rollout import rollout_steps, signature_registry
from paddleship.rollout.rollout_steps import Rollout
from tests.flows import promotion
from tests.paddleship.promotion.test_signatures import new_key, write

NAME = f"paddleship-test/signed-{os.getpid()}"


@pytest.fixture
def pushed(engine, image_registry):
    """An image of one small file in the registry, with another one beside it."""
    made = []
    for tag in ("a", "b"):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            entry = tarfile.TarInfo(tag)
            archive.addfile(entry, io.BytesIO())
        identity = engine.api.import_image_from_data(file.getvalue(), repository=NAME, tag=tag)
        found = engine.images.get(f"{NAME}:{tag}")
        assert found.id in identity
        shipped = Shipped(model="reviews", version="1", image=f"{NAME}:{tag}", image_id=found.id, candidate_digest="d")
        made.append(shipped.model_copy(update={"reference": images.push(engine, image_registry, shipped)}))
    yield made
    for found in [found for found in engine.images.list() if any(NAME in tag for tag in found.tags)]:
        engine.images.remove(found.id, force=True)


@pytest.fixture
def rollout(pushed, engine, image_registry, tmp_path):
    """What `verify` works on, with a key that must have signed; and that key's pair."""
    key = new_key()
    _, verify = write(tmp_path, key)
    params = loading.load(promotion.REPOSITORY / "params.yaml")
    params = params.model_copy(update={"promote": Promote(registry=image_registry, verify_key=str(verify))})
    decision = Entry(event=Event.DECIDED, action="promote", shipped=pushed[0], why="test")
    ledger = Ledger(tmp_path / "ledger.jsonl", "reviews")
    return Rollout(params, engine, None, ledger, decision, [], accept=lambda _: None), key


@pytest.mark.engine
def test_an_image_without_a_signature_of_the_key_is_refused(rollout, pushed):
    steps, key = rollout
    with pytest.raises(GateFailed, match=r"image_signature.*not signed.*sign it with `paddleship sign`"):
        rollout_steps.verify(steps)
    signature_registry.push(pushed[0].reference, new_key())
    with pytest.raises(GateFailed, match="signed by another key"):
        rollout_steps.verify(steps)
    signature_registry.push(pushed[0].reference, key)
    rollout_steps.verify(steps)


@pytest.mark.engine
def test_the_signature_of_another_image_under_the_name_of_this_one_is_refused(rollout, pushed, monkeypatch):
    steps, key = rollout
    other = signatures.payload(pushed[1].reference)
    with monkeypatch.context() as patched:
        patched.setattr(signatures, "payload", lambda _: other)
        signature_registry.push(pushed[0].reference, key)
    with pytest.raises(GateFailed, match=f"signed for {pushed[1].reference.partition('@')[2][:19]}"):
        rollout_steps.verify(steps)


@pytest.mark.engine
def test_a_rollback_does_not_wait_for_a_registry_that_does_not_answer(rollout, pushed):
    steps, _ = rollout
    gone = pushed[0].model_copy(update={"reference": f"127.0.0.1:9/{NAME}@sha256:{'0' * 64}"})
    steps.shipped = gone
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        rollout_steps._require_signature(steps)
    back = steps.decision.model_copy(update={"action": "rollback"})
    rollout_steps._require_signature(replace_decision(steps, back, gone))


def replace_decision(steps, decision, shipped):
    made = replace(steps, decision=decision)
    made.shipped = shipped
    return made


class WithUser(BaseHTTPRequestHandler):
    """A registry without images, for the user ann with the password b."""

    def do_GET(self):
        known = self.headers.get("Authorization") == f"Basic {base64.b64encode(b'ann:b').decode()}"
        self.send_response(404 if known else 401)
        if not known:
            self.send_header("Www-Authenticate", 'Basic realm="images"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_registry_with_users_gets_the_credentials_of_docker(tmp_path, monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), WithUser)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    host = f"127.0.0.1:{server.server_port}"
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    reference, key = f"{host}/{NAME}@sha256:{'0' * 64}", new_key().public_key()
    try:
        with pytest.raises(Unavailable, match=rf"\(it wants a user\).*log in with `docker login {host}`"):
            signature_registry.check(reference, key)
        auth = base64.b64encode(b"ann:b").decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
        assert signature_registry.check(reference, key).measured == "not signed"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.long  # the check itself is above; this is the command beside it
@pytest.mark.engine
@pytest.mark.slow
def test_a_version_is_promoted_after_it_is_signed(versions, image_registry, tmp_path):
    team = versions.copy(tmp_path / "state")
    sign, verify = write(tmp_path, ec.generate_private_key(ec.SECP256R1()), passphrase=b"open")
    team.settings(registry=image_registry, verify_key=str(verify), compare=False)
    refused = team.run("1", "promote", "1")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "image_signature" in refused.stderr
    done = team.run("1", "sign", "1", "--key", str(sign), PADDLESHIP_SIGN_PASSPHRASE="open")  # noqa: S106 of a key of this test
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("version 1 of linear is signed: ")
    promoted = team.run("1", "promote", "1")
    assert promoted.returncode == 0, promoted.stdout + promoted.stderr
    assert "open" not in Path(team.ledger).read_text()

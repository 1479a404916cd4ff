"""A Docker target with a real engine and a real proxy, and servers that only say who they are."""

import json
import os
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

import docker
from benchmarks.promote.constant_load import sending
from paddleship.config.sections.promote import Target
from paddleship.containers import image
from paddleship.errors import BadInput, Unavailable
from paddleship.rollout.docker_target import DockerTarget

REPOSITORY = Path(__file__).parents[2]
OTHER = {"one": "two", "two": "one"}
SERVER = """
import os, socket, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

name = os.environ["NAME"]
if name == "broken":
    sys.exit("no such model")

class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 65536

    def do_GET(self):
        self.answer(name.encode())

    def do_POST(self):
        time.sleep(float(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(name.encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

if name == "late":  # for others than itself
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever).start()
    time.sleep(2)
    ThreadingHTTPServer((socket.gethostbyname(socket.gethostname()), 8000), Handler).serve_forever()
ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def images(engine, proxy_image, tmp_path_factory):
    """The ids of images whose servers are called one, two, late and broken."""
    context = tmp_path_factory.mktemp("context")
    for name in ("health.py", "transports/__init__.py", "transports/http/__init__.py", "transports/http/health.py"):
        copy = context / "paddleship/shipped/serving" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((REPOSITORY / "paddleship/shipped/serving" / name).read_text())
    (context / "server.py").write_text(SERVER)
    made = {}
    for name in ("one", "two", "late", "broken"):
        lines = ["FROM python:3.11-slim", "COPY . /app", "WORKDIR /app", f"ENV NAME={name}", 'CMD ["python", "server.py"]']
        (context / "Dockerfile").write_text("\n".join(lines))
        made[name] = engine.images.build(path=str(context), rm=True)[0].id
    yield made
    for identity in made.values():
        engine.images.remove(identity, force=True)


@pytest.fixture(scope="module")
def settings():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Target(kind="docker", name=f"unit-{os.getpid()}-{port}", port=port, drain_s=20)


@pytest.fixture(scope="module")
def target(engine, settings, images):
    """One that all tests share, since a proxy takes seconds to start; nothing serves at first."""
    made = DockerTarget(engine, settings, memory_bytes=200_000_000)
    assert serving(made) is None
    yield made
    made.remove()


@pytest.fixture
def old(target, images):
    """What serves, one or two, before something else does."""
    name = next((name for name in OTHER if images[name] == serving(target)), None)
    if name is None:
        put(target, images["one"])
    return name or "one"


def serving(target):
    """The id of the image that gets the requests; None where there is no proxy yet, or nothing behind it."""
    slot = target._active() if target._container(target._proxy_name) is not None else None
    return target._server(slot).image.id if slot else None


def put(target, identity, *, before=None):
    slot = target.start(identity, before=before)
    target.wait_until_ready(slot, timeout_s=300)
    target.switch(slot)
    target.retire()


def says(settings, seconds=None):
    data = str(seconds).encode() if seconds is not None else None
    with urllib.request.urlopen(f"http://127.0.0.1:{settings.port}/", data, timeout=60) as answer:
        return answer.read().decode()


def containers(engine, settings):
    found = engine.containers.list(all=True, filters={"label": f"io.paddleship.target={settings.name}"})
    return sorted(container.name.removeprefix(f"paddleship-{settings.name}-") for container in found)


@pytest.mark.long  # a promotion and a rollback do the same in flows/test_promote
def test_clients_see_no_error_while_servers_are_replaced(engine, target, settings, images, old):
    with sending(settings.port, "/", b"0.001") as seen:
        for name in (OTHER[old], old):
            put(target, images[name])
            assert says(settings) == name
            assert serving(target) == images[name]
    assert seen.errors == []
    assert seen.sent > 500
    assert len(containers(engine, settings)) == 2


def test_a_request_that_the_old_server_has_is_answered_by_it(target, settings, images, old):
    said = []
    slow = threading.Thread(target=lambda: said.append(says(settings, 4)))
    slow.start()
    put(target, images[OTHER[old]])
    slow.join()
    assert said == [old]


def test_a_server_that_does_not_start_leaves_the_old_one_serving(target, settings, images, old):
    slot = target.start(images["broken"], before=images[old])
    with pytest.raises(Unavailable, match=r"not ready after \d\d?\.\d s \(.*no such model\), and the old one still answers"):
        target.wait_until_ready(slot, timeout_s=20)
    assert says(settings) == old
    put(target, images[OTHER[old]])
    assert says(settings) == OTHER[old]


@pytest.mark.parametrize(("hang", "same"), [("pause", True), ("pause", False), pytest.param("stop", True, marks=pytest.mark.long)])
def test_a_server_that_hangs_is_replaced_and_stays_until_the_new_one_serves(engine, target, settings, images, old, hang, same):
    hanging = target._server(target._active())
    image_id = images[old if same else OTHER[old]]
    if hang == "pause":
        hanging.pause()
    else:  # it runs for the engine
        assert hanging.exec_run(["sh", "-c", "kill -STOP -1"]).exit_code == 0
    slot = target.start(image_id, before=images[old])
    target.wait_until_ready(slot, timeout_s=300)
    assert target._server(slot).id != hanging.id
    hanging.reload()  # it is there
    target.switch(slot)
    assert says(settings) == (old if same else OTHER[old])
    target.retire()
    assert len(containers(engine, settings)) == 2


def test_a_server_that_hangs_stays_where_the_new_one_does_not_start_and_the_message_says_so(target, settings, images, old):
    hanging = target._server(target._active())
    hanging.pause()
    slot = target.start(images["broken"], before=images[old])
    with pytest.raises(Unavailable, match="and the old one does not answer either") as seen:
        target.wait_until_ready(slot, timeout_s=20)
    assert "\n" not in str(seen.value)
    hanging.unpause()
    assert says(settings) == old


def test_the_same_image_again_changes_nothing(engine, target, settings, images, old):
    before = containers(engine, settings)
    put(target, images[old])
    assert containers(engine, settings) == before


def test_a_proxy_that_was_started_anew_sends_to_the_server_that_served_before(engine, target, settings, images, old):
    target.wait_until_ready(target.start(images[OTHER[old]], before=images[old]), timeout_s=300)
    engine.containers.get(f"paddleship-{settings.name}-proxy").remove(force=True)
    put(target, images[old], before=images[old])
    assert says(settings) == old
    assert len(containers(engine, settings)) == 2


def test_the_proxy_answers_in_json_where_no_server_can(target, settings, old):
    slot = target._active()
    target._proxy.ask(f"set server model/{slot} state maint")
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            says(settings)
    finally:
        target._proxy.ask(f"set server model/{slot} state ready")
    assert (refused.value.code, json.load(refused.value)) == (503, {"error": "no server is ready: try again later"})


@pytest.mark.parametrize(("header_bytes", "status"), [(14_000, 200), (17_000, 400)])
def test_the_proxy_takes_heads_of_15_kib(target, settings, old, header_bytes, status):
    with closing(HTTPConnection("127.0.0.1", settings.port, timeout=60)) as connection:
        connection.request("GET", "/", headers={"x": "y" * header_bytes})
        assert connection.getresponse().status == status


def test_an_answer_of_the_proxy_that_was_lost_is_asked_for_again(target, images, old, monkeypatch):
    asked, ask = [], target._proxy.ask

    def loses_the_first(command):
        asked.append(command)
        return ask(command) if len(asked) > 1 else ""

    monkeypatch.setattr(target._proxy, "ask", loses_the_first)
    assert serving(target) == images[old]
    assert asked == ["show servers state model"] * 2


def test_a_proxy_that_answers_nothing_is_a_clear_error(target, monkeypatch):
    monkeypatch.setattr(target._proxy, "ask", lambda _: "")
    with pytest.raises(Unavailable, match=r"answers nothing to `show stat -1 4 -1`: see `docker logs"):
        target._proxy.sessions("a")


@pytest.mark.parametrize("looked", [True, False])
def test_a_port_in_use_is_a_clear_error(engine, settings, images, monkeypatch, looked):
    """Also where another program opens it after the look."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        there = DockerTarget(engine, settings.model_copy(update={"name": f"{settings.name}-taken", "port": port}), memory_bytes=200_000_000)
        if not looked:
            monkeypatch.setattr(there, "require_address", lambda: None)
        with pytest.raises(Unavailable, match=f"the port 127.0.0.1:{port} of promote.target cannot be opened"):
            there.start(images["one"], before=None)
    assert engine.networks.list(names=[f"paddleship-{settings.name}-taken"]) == []
    there.remove()


def test_another_address_is_a_clear_error(engine, target, settings, images, old):
    moved = DockerTarget(engine, settings.model_copy(update={"port": settings.port + 1}), memory_bytes=200_000_000)
    with pytest.raises(BadInput, match=f"stands at 127.0.0.1:{settings.port}, and promote.target says 127.0.0.1:{settings.port + 1}"):
        moved.start(images[OTHER[old]], before=None)
    assert says(settings) == old


def test_a_server_gets_no_request_before_the_proxy_found_it_ready(target, settings, images):
    put(target, images["late"])
    assert says(settings) == "late"


def test_a_container_that_others_remove_too_is_gone_when_its_removal_returns(engine, images):
    name = f"unit-removal-{os.getpid()}"
    identity = engine.containers.run(images["one"], name=name, detach=True).id
    found = [engine.containers.get(identity) for _ in range(8)]
    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(image.remove_container, found))
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(name)


def test_a_network_that_others_remove_too_is_gone_when_its_removal_returns(engine):
    identity = engine.networks.create(f"unit-removal-{os.getpid()}", internal=True).id
    found = [engine.networks.get(identity) for _ in range(8)]
    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(image.remove_network, found))
    with pytest.raises(docker.errors.NotFound):
        engine.networks.get(identity)

"""Whose containers and networks an acceptance may end, and an engine that goes away."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from docker.errors import APIError

from paddleship.containers import image, ownership
from paddleship.containers.sandbox import Sandbox
from paddleship.errors import Unavailable
from paddleship.system import processes


def labels(owner, *, left_s=60.0):
    return {ownership.OWNER: owner, ownership.UNTIL: str(int(time.time() + left_s))}


def test_what_a_living_process_made_stays_however_long_it_takes():
    assert not ownership.is_left_over(labels(processes.identity(), left_s=-60))


def test_what_a_dead_process_made_is_left_over_at_once():
    realm, _, started = processes.identity().rsplit("/", 2)
    assert ownership.is_left_over(labels(f"{realm}/{2**22 + 1}/{started}"))


@pytest.mark.parametrize(("left_s", "left_over"), [(60, False), (-60, True)])
def test_what_was_made_out_of_sight_is_left_over_only_after_its_time(left_s, left_over):
    assert ownership.is_left_over(labels("another-boot/pid:[1]/7/1.00", left_s=left_s)) is left_over


class Engine(BaseHTTPRequestHandler):
    """As much of an engine as a client asks before its first question."""

    def do_GET(self):
        body = json.dumps({"ApiVersion": "1.41"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_an_engine_that_goes_away_is_unavailable(monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), Engine)
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    words = r"the Docker engine stopped answering .*: start it, then run the same command again"
    with pytest.raises(Unavailable, match=words):
        _ask_after_the_end_of(server)
    thread.join()


def _ask_after_the_end_of(server):
    with image.engine() as client:
        server.shutdown()
        server.server_close()
        client.images.get("any")


@pytest.mark.engine
def test_what_an_engine_refuses_is_told_with_its_reason(engine):
    with (
        pytest.raises(Unavailable, match=r"the Docker engine refused a request \(.*No such image.*\): see the engine's log"),
        image.engine() as client,
    ):
        client.containers.create("paddleship/no-such-image")


def sandbox(**state):
    container = SimpleNamespace(reload=lambda: None, attrs={"State": state}, stop=lambda **_: None)
    return Sandbox(container, "127.0.0.1", {8000: 8000})


def test_a_container_that_somebody_else_stopped_says_nothing_about_its_image():
    with pytest.raises(Unavailable, match="stopped from outside"):
        sandbox(Running=False, ExitCode=143).require_not_stopped()


@pytest.mark.parametrize(
    "state", [{"Running": True, "ExitCode": 0}, {"Running": False, "ExitCode": 137}, {"Running": False, "ExitCode": 1}]
)
def test_a_container_that_runs_or_died_by_itself_was_not_stopped_by_somebody_else(state):
    sandbox(**state).require_not_stopped()


def test_a_container_that_was_stopped_here_was_not_stopped_by_somebody_else():
    ours = sandbox(Running=True, ExitCode=0)
    ours.stop(timeout_s=1)
    ours.container.attrs["State"] = {"Running": False, "ExitCode": 143}
    ours.require_not_stopped()


@pytest.mark.parametrize(("error", "said"), [(ValueError("two\n  lines"), "two lines"), (ValueError("x" * 500), "x" * 160)])
def test_an_engines_reason_is_one_line(error, said):
    assert image.reason(error) == said


class _BeingRemoved:
    """A container that another process is removing, and whose removal ends as an engine answers it."""

    name = "busy"

    def __init__(self, ended: dict[str, str] | None) -> None:
        self._ended = ended

    def remove(self, **_):
        raise APIError("409", response=SimpleNamespace(status_code=409))

    def wait(self, *, condition):
        assert condition == "removed"
        return {"StatusCode": 0, "Error": self._ended}


def test_a_removal_that_fails_in_another_process_is_an_error():
    image.remove_container(_BeingRemoved(None))
    with pytest.raises(Unavailable, match=r"did not remove busy \(device is busy\): see the engine's log"):
        image.remove_container(_BeingRemoved({"Message": "device is\n busy"}))

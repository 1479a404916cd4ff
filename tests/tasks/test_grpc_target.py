"""A Docker target that offers gRPC beside HTTP, with real images of one process and of two, under a load that never stops."""

import json
import os
import socket
import subprocess

import grpc
import pytest

from benchmarks.promote.constant_load import GrpcClient, calling, sending
from paddleship.acceptance.transports.grpc import malformed, triton
from paddleship.config.sections.promote import Target
from paddleship.containers import image
from paddleship.errors import BadInput, Unavailable
from paddleship.rollout import proxy_runtime
from paddleship.rollout.docker_target import DockerTarget
from tests.flows.helpers import wait_for
from tests.tasks.conftest import edit_params

PATH, METHOD = "/v2/models/linear/infer", f"{triton.METHODS}ModelInfer"
X = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
BODY = json.dumps({"inputs": [{**X, "data": [0.5, 1.5]}]}).encode()
MESSAGE = triton.message(model_name="linear", inputs=[{**X, "contents": {"fp32_contents": [0.5, 1.5]}}])

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def alone(packaged, stage, engine, tmp_path_factory):
    """The id of an image with one process and both transports."""
    checkout = tmp_path_factory.mktemp("alone") / "checkout"
    subprocess.run(["cp", "-a", str(packaged[0]), str(checkout)], check=True)
    edit_params(checkout, package={"transports": ["http", "grpc"]})
    done = stage(checkout, "package")
    assert done.returncode == 0, done.stderr
    receipt = json.loads((checkout / "image.json").read_text())
    yield receipt["image_id"]
    image.untag(engine, receipt["image_id"], receipt["image"], receipt["unaccepted"])


@pytest.fixture(scope="module")
def settings(free_port):
    port, grpc_port = free_port(), free_port()
    return Target(kind="docker", name=f"grpc-{os.getpid()}-{port}", port=port, grpc_port=grpc_port, drain_s=20)


@pytest.fixture(scope="module")
def shared(engine, settings, proxy_image):
    made = DockerTarget(engine, settings, memory_bytes=500_000_000)
    yield made
    made.remove()


@pytest.fixture
def target(shared, alone):
    """The target, which serves the image of one process."""
    put(shared, alone)
    return shared


def put(target, identity):
    slot = target.start(identity, before=None)
    target.wait_until_ready(slot, timeout_s=300)
    target.switch(slot)
    target.retire()


def ask(settings):
    """What is wrong with an answer over gRPC; empty if nothing is."""
    client = GrpcClient("127.0.0.1", settings.grpc_port, METHOD, MESSAGE)
    try:
        return client.ask()
    finally:
        client.close()


def test_no_client_loses_an_answer_over_grpc_or_http_while_servers_of_one_and_two_processes_replace_each_other(
    target, settings, alone, several
):
    two = several[1]["image_id"]
    with calling(settings.grpc_port, METHOD, MESSAGE) as over_grpc, sending(settings.port, PATH, BODY, clients=2) as over_http:
        for identity in (two, alone, two):
            put(target, identity)
            assert target.serving() == identity
    assert (over_grpc.errors, over_http.errors) == ([], [])
    assert over_grpc.sent > 300
    assert over_http.sent > 300


def test_a_server_is_ready_only_once_the_proxy_reaches_it_over_grpc_too(target):
    slot = target._active()
    target._proxy.ask(f"set server {proxy_runtime.GRPC}/{slot} state maint")
    try:
        assert not target._is_ready(slot)
    finally:
        target._proxy.ask(f"set server {proxy_runtime.GRPC}/{slot} state ready")
    wait_for(lambda: target._is_ready(slot))


def test_a_request_over_grpc_that_has_begun_counts_as_one_that_the_server_is_answering(target, settings):
    slot = target._active()
    assert target._proxy.sessions(slot) == 0
    with socket.create_connection(("127.0.0.1", settings.grpc_port)) as connection:
        connection.sendall(malformed.half_sent(METHOD, 100, 1000))
        wait_for(lambda: target._proxy.sessions(slot) == 1)
    wait_for(lambda: target._proxy.sessions(slot) == 0)


def test_an_image_without_grpc_is_refused_and_the_old_server_stays(target, settings, packaged, alone):
    slot = target.start(packaged[1]["image_id"], before=alone)
    with pytest.raises(Unavailable, match=r"does not serve gRPC, which promote.target has the port \d+ for, and the old one still answers"):
        target.wait_until_ready(slot, timeout_s=300)
    assert target._server(slot) is None
    assert (target.serving(), ask(settings)) == (alone, "")


def test_a_target_without_a_port_for_grpc_takes_an_image_without_it_behind_the_same_proxy(engine, target, settings, packaged):
    without = DockerTarget(engine, settings.model_copy(update={"grpc_port": None}), memory_bytes=500_000_000)
    put(without, packaged[1]["image_id"])
    assert without.serving() == packaged[1]["image_id"]
    assert ask(settings).startswith("UNAVAILABLE: ")


def test_the_proxy_answers_in_grpc_where_no_server_can(target, settings):
    slot = target._active()
    target._proxy.ask(f"set server {proxy_runtime.HTTP}/{slot} state maint")
    try:
        assert ask(settings) == "UNAVAILABLE: no server is ready: try again later"
    finally:
        target._proxy.ask(f"set server {proxy_runtime.HTTP}/{slot} state ready")
    wait_for(lambda: ask(settings) == "")


def test_a_client_gets_the_codes_of_the_server_through_the_proxy(target, settings):
    with grpc.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(METHOD)(triton.message(model_name="another"), timeout=20)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_another_port_for_grpc_is_a_clear_error(engine, target, settings):
    moved = DockerTarget(engine, settings.model_copy(update={"grpc_port": 1}), memory_bytes=500_000_000)
    with pytest.raises(BadInput, match=f"stands at 127.0.0.1:{settings.grpc_port} for gRPC, and promote.target says 127.0.0.1:1: take"):
        moved.require_address()


def test_a_proxy_without_a_port_for_grpc_is_a_clear_error(engine, settings, proxy_image, free_port):
    plain = settings.model_copy(update={"name": f"{settings.name}-plain", "port": free_port(), "grpc_port": None})
    there = DockerTarget(engine, plain, memory_bytes=500_000_000)
    there._ensure_proxy()
    try:
        asking = DockerTarget(engine, plain.model_copy(update={"grpc_port": free_port()}), memory_bytes=500_000_000)
        with pytest.raises(BadInput, match=r"has no port for gRPC, and promote.target says 127.0.0.1:\d+: take the old address"):
            asking.require_address()
    finally:
        there.remove()


def test_a_port_for_grpc_in_use_is_a_clear_error(engine, settings, free_port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        changes = {"name": f"{settings.name}-taken", "port": free_port(), "grpc_port": port}
        there = DockerTarget(engine, settings.model_copy(update=changes), memory_bytes=1)
        with pytest.raises(Unavailable, match=f"the port 127.0.0.1:{port} of promote.target cannot be opened"):
            there.require_address()

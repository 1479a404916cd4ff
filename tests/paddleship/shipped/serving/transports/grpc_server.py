"""A server over gRPC for tests: in this process without HTTP, or as the process that runs in the image."""

import asyncio
import socket
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.options import Options
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports import grpc
from tests.paddleship.shipped.serving.transports.http.recording import serving

REPOSITORY, OPEN = Path(__file__).parents[5], Options()


def free_port():
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(done):
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def process(folder, *options):
    """The ports of HTTP and of gRPC of a server process."""
    port = free_port()
    with serving(REPOSITORY, folder, "--also", f"grpc:{port}", *options) as http_port:
        yield http_port, port


@contextmanager
def in_process(folder, *, in_flight_bytes=2**26, load=ServedModel, protection=OPEN, **options):
    """The service and the address of a server in an event loop of another thread."""
    service, port = Service(lambda: load(folder, **options), Budget(in_flight_bytes), options=protection), free_port()
    begun, ended, failures = threading.Event(), threading.Event(), []

    async def serve():
        async with grpc.listening(service, host="127.0.0.1", port=port):
            service.start(failures.append)
            while service.state is State.LOADING and not failures:
                await asyncio.sleep(0.01)
            begun.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert begun.wait(300)
        assert not failures, failures
        yield service, f"127.0.0.1:{port}"
    finally:
        ended.set()
        thread.join(timeout=30)
        service.close()

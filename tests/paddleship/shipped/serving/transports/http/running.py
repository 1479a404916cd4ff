"""A server of a candidate in a thread of the test, on a port of its own."""

import threading
import time
from contextlib import contextmanager

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.options import Options
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.transports import http as transport
from paddleship.shipped.serving.transports.http.app import App
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.server import around, make_server


@contextmanager
def server(folder, options=Options()):  # noqa: B008 it is frozen
    """The port of a server that is ready."""
    service = Service(lambda: ServedModel(folder), Budget(2**26), options=options)
    guard = Guard(ConnectionLimits(), service.budget, service)
    app = around(App(service, guard, on_failure=print), service)
    made = make_server(app, guard, host="127.0.0.1", port=0, options=options)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        while not made.started:
            time.sleep(0.01)
        port = made.servers[0].sockets[0].getsockname()[1]
        while not transport.is_ready(host="127.0.0.1", port=port):
            assert service.failure is None
            time.sleep(0.01)
        yield port
    finally:
        made.should_exit = True
        thread.join()

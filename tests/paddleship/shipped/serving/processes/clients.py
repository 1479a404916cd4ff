"""Clients with one kept-alive connection each, and a server of several processes that they ask."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.stage_code import REPOSITORY

BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]})
SCORES = [7, -3]  # of x
TINY = "/v2/models/tiny/infer"


def until(what, condition):
    deadline = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


def get(address, path):
    """The status and the body of an answer; (0, b"") without one."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def is_ready(address):
    return get(address, "/v2/health/ready")[0] == 200


def count_of(address, sample):
    """A value of /metrics by the text before it; -1 without an answer, as of a process that has just been killed."""
    lines = get(address, "/metrics")[1].decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{sample} ")), -1.0)


class Clients:
    """Each sends one request after the other on its connection until an answer closes it, or until `end`. `lost` are its errors.

    Those that `reconnect` go on after an error; `refused` are the errors of the first request of a connection.
    """

    def __init__(self, address, count, *, path=TINY, body=BODY, reconnect=False):
        self._address, self._path, self._body, self._reconnect = address, path, body, reconnect
        self.refused = []
        self._ended = threading.Event()
        self.statuses, self.answers, self.lost = [], set(), []
        self.counts = [0] * count
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def end(self):
        self._ended.set()
        self.join()

    def join(self):
        for thread in self._threads:
            thread.join()

    def _send(self, number):
        connection = http.client.HTTPConnection(*self._address, timeout=60)
        closes, answered = False, True
        while not closes and not self._ended.is_set():
            try:
                connection.request("POST", self._path, self._body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                self.answers.add(answer.read())
            except (OSError, http.client.HTTPException) as error:
                (self.lost if answered else self.refused).append(repr(error))
                if not self._reconnect:
                    break
                connection.close()
                answered = False
                continue
            answered = True
            self.statuses.append(answer.status)
            self.counts[number] += 1
            closes = answer.getheader("connection") == "close"
        connection.close()


@contextmanager
def server(folder, port, *options, processes=2):
    """The process of the supervisor, once its server is ready; its output is in `folder`.log."""
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(folder), "--port", str(port)]
    with Path(f"{folder}.log").open("wb") as log:
        parent = subprocess.Popen([*command, "--processes", str(processes), *options], cwd=REPOSITORY, stderr=log)
    try:
        until("the server is not ready", lambda: parent.poll() is not None or is_ready(("127.0.0.1", port)))
        yield parent
    finally:
        parent.terminate()
        parent.wait(300)


def workers(parent):
    """The ids of the processes that a supervisor has started."""
    return [child.pid for child in psutil.Process(parent).children()]


def kill(pid):
    os.kill(pid, signal.SIGKILL)

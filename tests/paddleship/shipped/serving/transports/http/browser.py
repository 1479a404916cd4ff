"""A headless Chromium, driven over its DevTools protocol."""

import base64
import itertools
import json
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--disable-background-networking")


class Page:
    """One page. `problems` are what its scripts threw and what the browser wrote to its console, such as refused scripts."""

    def __init__(self, socket):
        self._socket, self._numbers, self.problems = socket, itertools.count(1), []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := json.loads(self._socket.recv(timeout=60))).get("id") != number:
            if message["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(message["params"])
        assert "error" not in message, message
        return message["result"]

    def run(self, expression):
        """The value of an expression of JavaScript, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, address):
        self.call("Page.navigate", url=address)

    def wait(self, condition):
        """Wait until a condition of JavaScript holds."""
        check = f"(() => {{ try {{ return {condition} }} catch {{ return false }} }})()"
        self.run(f"new Promise((done) => {{ const look = () => {check} ? done(true) : setTimeout(look, 20); look(); }})")

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def page():
    """An empty page of a new browser."""
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen(
            [CHROMIUM, *_ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            port = next(found[1] for line in process.stderr if (found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line)))
            target = _first_page(int(port))
            with connect(target, max_size=2**26) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(300)
            process.stderr.close()


def _first_page(port):
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
        return next(one["webSocketDebuggerUrl"] for one in json.load(answer) if one["type"] == "page")


def save(path: Path, address: str, condition: str) -> None:
    """Write a screenshot of a page once a condition of JavaScript holds."""
    with page() as shown:
        shown.open(address)
        shown.wait(condition)
        shown.screenshot(path)

"""What every transport has."""

import subprocess
import sys

from paddleship.image import requirements
from paddleship.shipped.serving import transports
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports import http
from paddleship.shipped.serving.transports.http import statuses


def test_every_folder_but_that_of_http_is_a_transport_that_can_listen_beside_it():
    assert transports.names() == ["grpc"]
    for name in transports.names():
        transport = transports.get(name)
        assert callable(transport.listening)
        assert 1024 < transport.PORT < 2**16
        assert (requirements.folder() / transport.REQUIREMENTS).is_file()


def test_no_server_is_not_ready():
    assert http.is_ready(host="127.0.0.1", port=1) is False


def test_a_transport_without_its_port_is_refused_with_the_form_that_is_meant():
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", ".", "--also"]
    for text in ("grpc", "http:8000", "grpc:x"):
        done = subprocess.run([*command, text], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 2
        assert f"{text!r} is no transport with its port: write one of grpc as NAME:PORT" in done.stderr


def test_the_health_check_imports_no_server():
    code = "import sys; from paddleship.shipped.serving import health; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    for heavy in ("numpy", "starlette", "uvicorn", "asyncio"):
        assert f"'{heavy}'" not in done.stdout


def test_http_has_a_status_for_every_kind_of_failure():
    assert statuses.STATUSES.keys() == {*Kind}
    assert all(400 <= status < 600 for status in statuses.STATUSES.values())
    for kind in Kind:
        temporary = statuses.headers(ServingError(kind, "")) == {"Retry-After": "1"}
        assert temporary == (statuses.status(ServingError(kind, "")) in (429, 503))


def test_http_tells_a_client_nothing_of_a_defect_and_when_to_ask_a_model_that_is_loading():
    assert statuses.message(KeyError("secret")) == "the model failed on this request: see the server's log"
    loading = ServingError(Kind.NOT_READY, "the model is still loading")
    assert statuses.message(loading) == "the model is still loading: try again when /v2/health/ready answers 200"

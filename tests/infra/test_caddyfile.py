"""infra/Caddyfile in use: nobody without a password, and the clients of Prefect and MLflow with theirs from the environment."""

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
from dataclasses import replace
from urllib.error import HTTPError

import pytest

from paddleship.servers.background import free_port
from paddleship.servers.local_state import Local
from tests.flows.helpers import REPOSITORY, prefect_api, wait_for

USER, PASSWORD = "ada", "a password: 1"

FLOW = """
import sys
from prefect import flow
import mlflow
@flow(name=sys.argv[1])
def work():
    client = mlflow.MlflowClient()
    run = client.create_run(client.create_experiment(sys.argv[1]))
    client.log_metric(run.info.run_id, "score", 0.5)
    print(client.get_run(run.info.run_id).data.metrics)
work()
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(["openssl", *command.split(), *files], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def mlflow_port(tmp_path_factory, with_tables):
    local = replace(Local(with_tables(tmp_path_factory.mktemp("mlflow-server"))), mlflow_port=free_port())
    local._mlflow().start()
    yield local.mlflow_port
    local.stop()


@pytest.fixture(scope="module")
def sites(certificate, prefect_url, mlflow_port):
    """The addresses of Prefect and MLflow for users; Caddy is in front of both."""
    caddy = shutil.which("caddy")
    if caddy is None:
        pytest.skip("needs caddy: apt-get install caddy")
    hashed = subprocess.run([caddy, "hash-password", "--plaintext", PASSWORD], capture_output=True, text=True, check=True).stdout
    (certificate / "users").write_text(f"{USER} {hashed}")
    ports = {"PREFECT_TLS_PORT": str(free_port()), "MLFLOW_TLS_PORT": str(free_port())}
    own = {"PREFECT_PORT": prefect_url.rpartition(":")[2].removesuffix("/api"), "MLFLOW_PORT": str(mlflow_port)}
    files = {"TLS_CERTIFICATE": "certificate.pem", "TLS_KEY": "key.pem", "USERS": "users"}
    environment = {**os.environ, **ports, **own, **{name: str(certificate / file) for name, file in files.items()}}
    environment |= {"HOME": str(certificate), "XDG_DATA_HOME": str(certificate), "XDG_CONFIG_HOME": str(certificate)}
    command = [caddy, "run", "--config", str(REPOSITORY / "infra/Caddyfile"), "--adapter", "caddyfile"]
    with (certificate / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    urls = [f"https://localhost:{port}" for port in ports.values()]
    wait_for(lambda: all(status(certificate, url) == 401 for url in urls) or process.poll() is not None)
    assert process.poll() is None, (certificate / "log").read_text()
    yield urls
    process.terminate()
    process.wait(300)


def status(certificate, url, *, authorization=None, **headers):
    """The status of an answer; 0 without one."""
    headers |= {"Authorization": authorization} if authorization else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 loopback
    try:
        context = ssl.create_default_context(cafile=certificate / "certificate.pem")
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:  # noqa: S310 loopback
            return answer.status
    except HTTPError as error:
        return error.code
    except OSError:
        return 0


def basic(password):
    return "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("site", "path"), [(0, "/api/health"), (0, "/"), (1, "/"), (1, "/ajax-api/2.0/mlflow/experiments/get?experiment_id=0")]
)
def test_pages_and_interfaces_are_open_to_users_with_their_password_only(sites, certificate, site, path):
    url = sites[site] + path
    assert status(certificate, url) == 401
    assert status(certificate, url, authorization=basic("another")) == 401
    assert status(certificate, url, authorization=basic(PASSWORD)) == 200
    assert status(certificate, url.replace("https", "http"), authorization=basic(PASSWORD)) != 200


def test_a_page_of_another_site_cannot_use_the_password_that_a_browser_keeps(sites, certificate):
    """The page of this one can; MLflow decides by the header Origin of a request that changes something."""
    for origin, expected in ((sites[1], 200), ("https://evil.example", 403)):
        request = urllib.request.Request(  # noqa: S310 loopback
            f"{sites[1]}/ajax-api/2.0/mlflow/experiments/search",
            data=json.dumps({"max_results": 1}).encode(),
            headers={"Authorization": basic(PASSWORD), "Origin": origin, "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=certificate / "certificate.pem")
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:  # noqa: S310 loopback
                found = answer.status
        except HTTPError as error:
            found = error.code
        assert found == expected


@pytest.mark.parametrize(
    "prefects",
    [
        {"PREFECT_API_AUTH_STRING": f"{USER}:{PASSWORD}"},
        {"PREFECT_CLIENT_CUSTOM_HEADERS": json.dumps({"Authorization": basic(PASSWORD)})},
    ],
    ids=["auth string", "header"],
)
def test_a_flow_with_credentials_from_the_environment_uses_both_and_its_events_arrive(sites, certificate, prefect_url, tmp_path, prefects):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    file = str(certificate / "certificate.pem")
    own = {
        "PREFECT_API_URL": f"{sites[0]}/api",
        **prefects,
        "PREFECT_HOME": str(tmp_path),
        "MLFLOW_TRACKING_URI": sites[1],
        "MLFLOW_TRACKING_USERNAME": USER,
        "MLFLOW_TRACKING_PASSWORD": PASSWORD,
        "SSL_CERT_FILE": file,
        "REQUESTS_CA_BUNDLE": file,
    }
    name = f"behind-the-proxy {next(iter(prefects))}"
    command = [sys.executable, "-W", "ignore", "-c", FLOW, name]
    done = subprocess.run(command, env=kept | own, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "{'score': 0.5}" in done.stdout
    (run,) = prefect_api(prefect_url, "flow_runs/filter", {"flows": {"name": {"any_": [name]}}})
    assert run["state_name"] == "Completed"
    wanted = {"resource": {"id": [f"prefect.flow-run.{run['id']}"]}}
    assert wait_for(lambda: prefect_api(prefect_url, "events/filter", {"filter": wanted})["total"])
    assert not re.search("HTTP 401|401 Unauthorized", done.stderr), done.stderr

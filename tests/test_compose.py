"""infra/compose.yaml: valid, checked for health, without secrets, and hardened."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.flows.helpers import REPOSITORY

FILE = REPOSITORY / "infra/compose.yaml"
CHECK = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]


@pytest.fixture(scope="module")
def stack():
    return yaml.safe_load(FILE.read_text())


@pytest.fixture(scope="module", params=["postgres", "store", "registry", "prefect", "mlflow", "worker"])
def service(request, stack):
    return stack["services"][request.param]


def test_the_file_follows_the_schema_of_compose(tmp_path):
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("healthcheck:", "health-check:"))
    assert subprocess.run([*CHECK, FILE], check=False, capture_output=True).returncode == 0
    assert subprocess.run([*CHECK, wrong], check=False, capture_output=True).returncode == 1


def test_every_service_is_one_that_the_image_can_start(stack):
    known = set(re.findall(r"^(\w+)\)$", (REPOSITORY / "docker/stack_service.sh").read_text(), re.MULTILINE))
    assert {name: one["command"] for name, one in stack["services"].items()} == {name: [name] for name in known}


def test_a_service_has_a_health_check_and_few_rights(service):
    assert service["healthcheck"]["test"][0] == "CMD"
    assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    assert "user" not in service, "the image's, which is not root"
    assert "USER 10001:10001" in (REPOSITORY / "docker/stack.Dockerfile").read_text()
    assert all(one.startswith("127.0.0.1:") for one in service.get("ports", []))


def test_no_secret_is_in_the_file_or_in_the_environment_of_a_service(stack, service):
    for name, value in service.get("environment", {}).items():
        assert not re.search("PASSWORD|SECRET|KEY|TOKEN", name) or value.startswith("/run/secrets/"), name
        assert not re.search("://[^/]*@", value), name
    for name in service.get("secrets", []):
        assert stack["secrets"][name].keys() == {"file"}


def test_what_a_service_waits_for_is_healthy_first(service):
    assert all(one == {"condition": "service_healthy"} for one in service.get("depends_on", {}).values())

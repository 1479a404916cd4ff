"""The README's session: what it shows is run from a fresh checkout, and what is printed is compared."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_tutorial import install
from tests.sessions import Session

PAGE = Path(__file__).parents[2] / "README.md"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(3000)
def test_the_session_of_the_readme_prints_what_it_shows(checkout_of, engine, free_port):
    checkout, name, port = checkout_of("readme"), f"readme-{free_port()}", free_port()
    install(checkout / ".venv")
    host = subprocess.run(["infra/engine.sh", "start"], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
    replacements = {
        "docker run --rm": f"docker run --detach --rm --name {name}",
        "curl -s": "curl --fail -s --retry 30 --retry-all-errors --retry-delay 1",
        "127.0.0.1:8000": f"127.0.0.1:{port}",
    }
    try:
        Session(checkout, checkout, replacements, {"PYTHONPATH": str(checkout), "DOCKER_HOST": host}).play(PAGE.read_text(encoding="utf-8"))
    finally:
        for container in engine.containers.list(filters={"name": name}):
            container.kill()

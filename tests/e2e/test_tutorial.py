"""The tutorial, as a new user does it: every command is run, and what it prints is compared with the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.sessions import Session

PAGE = Path(__file__).parents[2] / "docs/tutorial/index.md"
PARTS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
SECOND_VERSION = ("Try a smaller model, and compare", "Promote the second version, and roll back")
QUICK = {
    "benchmark": {
        "batch_sizes": [1, 4],
        "concurrency": [],
        "starts": 1,
        "blocks": 4,
        "samples_per_block": 20,
        "warmup_s": 0.2,
        "scenario_seconds": 0.5,
        "max_seconds": 2,
    },
    "accept": {"load_requests": 50},
}


@pytest.fixture(scope="module")
def tutorial(request, tmp_path_factory, checkout_of, with_tables, warm_commands, engine, proxy_image, free_port):
    """A home folder with a checkout and its virtual environment, and names and ports of its own; and what is laid over the params."""
    home = tmp_path_factory.mktemp("home")
    checkout = with_tables(checkout_of("tutorial").rename(home / "paddleship"))
    install(checkout / ".venv")
    name = f"penguins{free_port()}"  # an engine has one image and one container of a name
    (checkout / "docs/tutorial/penguins.csv").rename(checkout / f"docs/tutorial/{name}.csv")
    replacements = {"~": str(home), "/home/you": str(home), "penguins": name}
    replacements |= {"127.0.0.1:8000": f"127.0.0.1:{free_port()}", "8080": str(free_port())}
    host = subprocess.run(["infra/engine.sh", "start"], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
    quick = {} if request.config.getoption("long") else QUICK
    yield Session(home, home / name, replacements, {"PYTHONPATH": str(checkout), "DOCKER_HOST": host}), quick
    for container in engine.containers.list(all=True, filters={"name": name}):
        container.remove(force=True)
    for network in engine.networks.list(names=[f"paddleship-{name}"]):
        network.remove()
    for image in engine.images.list(name=name):
        engine.images.remove(image.id, force=True)


def install(venv):
    """Let this environment be the one that `make setup` made in a checkout."""
    venv.mkdir()
    for path in Path(sys.prefix).iterdir():
        if path.name != "cpu":
            (venv / path.name).symlink_to(path)
    (venv / "cpu").touch()


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", [pytest.param(name, marks=[pytest.mark.long] if name in SECOND_VERSION else []) for name in PARTS])
def test_each_part_of_the_tutorial_prints_what_it_shows(tutorial, part):
    session, quick = tutorial

    def laid_over(path, contents):
        if path.name == "params.yaml" and contents.startswith("name:"):
            values = yaml.safe_load(contents)
            return yaml.safe_dump(values | {section: values.get(section, {}) | keys for section, keys in quick.items()}, sort_keys=False)
        return contents

    session.play(PARTS[part], edit=laid_over)


def test_the_parts_that_are_long_are_parts_of_the_page():
    assert set(SECOND_VERSION) < set(PARTS)


def test_every_block_of_the_page_is_run_or_written():
    blocks = re.findall(r"^```(\w*)\n(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = [first for language, first in blocks if language]
    assert shown
    assert [first for first in shown if not re.match(r"\$ |# \S+\.\w+", first)] == []

"""The command line: quick to explain itself, and never a traceback for a user's mistake."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.flows.helpers import PROGRAM, REPOSITORY

HEAVY = ("prefect", "mlflow", "dvc", "docker", "paddle", "pydantic", "rich", "numpy", "yaml")
LOADED = "import sys\nfrom paddleship.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    print(sorted(sys.modules))\n"
COMMANDS = ("run", "doctor", "compare-graph-modes", "compare", "trace", "runs", "deliver", "ui", "worker", "stop")


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_imports_nothing_heavy(arguments):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: paddleship")
    loaded = [name for name in HEAVY if f"'{name}'" in done.stdout.splitlines()[-1]]
    assert not loaded, f"`paddleship {' '.join(arguments)}` imports {loaded}"


def test_help_names_every_command():
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True)
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\s+\w", done.stdout, re.MULTILINE), command


@pytest.mark.spawned
@pytest.mark.parametrize("command", ["run", "deliver", "ui", "stop"])
def test_outside_a_checkout_a_command_says_where_to_go(tmp_path, command):
    done = subprocess.run([PROGRAM, command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path} is not in a checkout of the pipeline")
    assert done.stderr.count("\n") == 1


def test_an_unknown_stage_is_told_with_those_that_there_are(toy):
    done = subprocess.run([PROGRAM, "run", "--until", "trian"], cwd=toy, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid value for '--until': 'trian'" in done.stderr
    assert "'benchmark'" in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith("(see `paddleship run --help`)\n")
    assert done.stderr.count("\n") == 1


def test_a_worker_without_a_server_says_how_to_get_one(toy):
    done = subprocess.run([PROGRAM, "worker"], cwd=toy, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr == "error: no Prefect server is running: run `make ui` first\n"


def test_a_worker_that_would_never_run_anything_is_refused(toy):
    done = subprocess.run([PROGRAM, "worker", "--limit", "0"], cwd=toy, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: --limit is 0" in done.stderr


def test_a_docker_worker_without_an_engine_says_how_to_get_one_or_do_without(toy, prefect_url):
    environment = {**os.environ, "PREFECT_API_URL": prefect_url, "DOCKER_HOST": "tcp://127.0.0.1:1"}
    command = [PROGRAM, "worker", "--pool", "docker"]
    done = subprocess.run(command, cwd=toy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("error: no Docker engine is reachable: run `make engine`")
    assert "the pool docker needs one, and the pool local does not" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.engine
def test_a_docker_worker_without_its_image_says_how_to_build_it(toy, engine, prefect_url):
    deployment = {"work_pool": {"name": "docker", "job_variables": {"image": "paddleship/nowhere:1"}}}
    (toy / "prefect.yaml").write_text(yaml.safe_dump({"deployments": [deployment]}))
    environment = {**os.environ, "PREFECT_API_URL": prefect_url}
    command = [PROGRAM, "worker", "--pool", "docker"]
    done = subprocess.run(command, cwd=toy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("error: the engine has no image 'paddleship/nowhere:1'")
    assert done.stderr.endswith(": run `make train-image`\n")


@pytest.mark.spawned
def test_nothing_to_deliver_or_to_stop_is_said(toy):
    for command, words in (("deliver", "nothing to deliver"), ("stop", "no server of paddleship is running")):
        done = subprocess.run([PROGRAM, command], cwd=toy, capture_output=True, text=True, check=True)
        assert words in done.stdout


def test_make_help_lists_every_target():
    done = subprocess.run(["make", "--no-print-directory"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    phony = re.search(r"^\.PHONY: (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert listed == set(phony[1].split())
    assert all(len(line.split()) > 2 for line in done.stdout.splitlines())

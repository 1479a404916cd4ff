"""infra/register_pool.sh: what it refuses before it asks a server."""

import os

import pytest

from tests.flows.helpers import register_pool

PLAIN = {"PATH": os.environ["PATH"]}
HERE = {"GIT_URL": "https://git.example/r.git", "BRANCH": "main"}


@pytest.mark.parametrize(
    ("kind", "place"), [("docker", "a file that the variable volumes mounts"), ("kubernetes", "the Secrets paddleship-git")]
)
@pytest.mark.parametrize(
    ("url", "variables"), [("https://me:secret@git.example/r.git", "{}"), ("https://git.example/r.git", '{"env": {"TOKEN": "secret@"}}')]
)
def test_secrets_that_the_server_would_store_are_refused(kind, place, url, variables):
    done = register_pool(PLAIN, kind, "pool", "a/b:1", variables, GIT_URL=url, BRANCH="main")
    assert done.returncode == 2
    assert f"into {place}" in done.stderr
    assert "secret@" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("podman", "pool", "a/b:1"), "podman is no type of pool"),
        (("docker", "docker", "a/b:1"), "the pool docker is for the deployments of prefect.yaml"),
        (("docker", "pool"), "usage: infra/register_pool.sh"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    done = register_pool(PLAIN, *arguments, **HERE)
    assert done.returncode == 2
    assert words in done.stderr


def test_without_a_server_nothing_is_registered(tmp_path):
    done = register_pool(PLAIN | {"PREFECT_HOME": str(tmp_path)}, "docker", "pool", "a/b:1", **HERE)
    assert done.returncode == 2
    assert "no Prefect server is chosen: set PREFECT_API_URL" in done.stderr

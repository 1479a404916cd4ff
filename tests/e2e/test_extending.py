"""A runtime from outside the repository, as docs/how-to/add-runtime.md shows it, goes all the way to an image that answers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs/how-to/add-runtime.md"
FILES = ["paddleship_tract.py", "pyproject.toml"]  # of the runtime; tests/e2e/test_preprocess_kinds.py uses the others
UV = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
QUICK = {"optimize": {"candidates": ["tract"]}, "select": {"candidate": "tract"}}


def write_from_page(folder):
    """The files that the page shows, each named in the first line of its block."""
    for name, text in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if name in FILES:
            (folder / name).write_text(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder for the import path with tract and the user's package, installed as a user does it."""
    folder = tmp_path_factory.mktemp("extending")
    (folder / "source").mkdir()
    write_from_page(folder / "source")
    assert sorted(path.name for path in (folder / "source").iterdir()) == FILES
    for what in (["--only-binary", ":all:", "tract==0.23.9"], ["--no-build-isolation", str(folder / "source")]):
        done = subprocess.run([*UV, "--target", str(folder / "site"), *what], capture_output=True, text=True, check=False)
        if "tract" in what[-1] and what[0] == "--only-binary" and done.returncode:
            pytest.skip(f"tract cannot be installed: {' '.join(done.stderr.split())[-200:]}")
        assert done.returncode == 0, done.stderr
    return folder / "site"


def run(checkout, stage, *path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), *map(str, path)])}
    return subprocess.run(
        [sys.executable, "-m", f"tasks.{stage}"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def report(checkout, stage):
    return json.loads((checkout / "reports" / f"{stage}.json").read_text())


@pytest.fixture(scope="module")
def measured(linear_benchmarked, site, tmp_path_factory):
    """A checkout after the benchmark, with the runtime among the candidates."""
    checkout = tmp_path_factory.mktemp("extended") / "checkout"
    subprocess.run(["cp", "-a", str(linear_benchmarked), str(checkout)], check=True)
    path = checkout / "params.yaml"
    values = yaml.safe_load(path.read_text())
    for section, keys in {**QUICK, "package": {"repository": f"paddleship/test-extending-{os.getpid()}"}}.items():
        values[section] |= keys
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    for stage in ("fingerprint", "export", "optimize", "verify", "benchmark"):
        done = run(checkout, stage, site)
        assert done.returncode == 0, f"{stage}: {done.stdout}{done.stderr}"
    return checkout


@pytest.mark.slow
def test_a_runtime_of_a_user_is_made_proven_and_measured_like_ours(measured):
    assert report(measured, "optimize")["candidates"]["tract"]["status"] == "made"
    proven = report(measured, "verify")["candidates"]["tract"]
    assert (proven["status"], proven["weights_compared_share"], proven["weights_exact_share"]) == ("proven", 1.0, 1.0)
    row = report(measured, "benchmark")["candidates"]["tract"]
    assert row["status"] == "measured"
    assert row["image_bytes"] > 30_000_000
    assert json.loads((measured / "models/benchmark/choice.json").read_text())["candidate"] == "tract"


@pytest.mark.slow
def test_an_edit_of_it_and_another_version_of_what_it_runs_change_the_environment(measured, site):
    before = json.loads((measured / "environment.json").read_text())
    assert (before["tract"], before["paddleship-tract"]) == ("0.23.9", "0.1.0")
    file = site / "paddleship_tract.py"
    text = file.read_text()
    try:
        file.write_text(text + "\n# edited\n")
        assert run(measured, "fingerprint", site).returncode == 0
        after = json.loads((measured / "environment.json").read_text())
    finally:
        file.write_text(text)
    assert {key for key in before if before[key] != after[key]} == {"runtime tract"}
    assert run(measured, "fingerprint", site).returncode == 0


@pytest.mark.slow
def test_without_it_its_candidate_is_refused_with_those_that_are_registered(measured):
    done = run(measured, "optimize")
    assert done.returncode == 2
    assert "optimize.candidates names 'tract', which no runtime registers" in done.stderr


@pytest.fixture(scope="module")
def packaged(measured, site, engine):
    """The same checkout with its image, which is gone afterwards."""
    done = run(measured, "package", site)
    assert done.returncode == 0, done.stdout + done.stderr
    yield measured
    for image in engine.images.list(name=yaml.safe_load((measured / "params.yaml").read_text())["package"]["repository"]):
        engine.images.remove(image.id, force=True)


@pytest.mark.slow
@pytest.mark.engine
def test_its_image_holds_it_and_no_other_runtime(packaged, engine):
    identity = json.loads((packaged / "image.json").read_text())["image_id"]
    listing = "import pkgutil; print(sorted(module.name for module in pkgutil.iter_modules()))"
    inside = engine.containers.run(identity, ["-c", listing], entrypoint="python", remove=True, network_disabled=True).decode()
    assert "'paddleship_tract'" in inside
    assert "'onnxruntime'" not in inside


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.long  # what a container of another runtime answers is asked in tasks/test_accept
def test_its_image_answers_as_eager_does(packaged, site):
    done = run(packaged, "accept", site)
    assert done.returncode == 0, done.stdout + done.stderr
    release = json.loads((packaged / "release.json").read_text())
    assert (release["accepted"], release["runtime"]) == (True, "tract")

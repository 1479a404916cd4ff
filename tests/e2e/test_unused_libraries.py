"""Libraries that a candidate does not load: kept in its image by default, or left out, and missed by accept if the server needs them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import plugins

REPOSITORY = Path(__file__).parents[2]
CODE = '''
"""ONNX Runtime with a library that it needs at once, one for batches, one only where it is served, and one that is loaded for nothing."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

from paddleship.shipped.computing.runtimes import onnx_runtime
from paddleship.shipped.computing.runtimes.registration import Kind, Registration


def plugin(name):
    folder = Path(find_spec("plugins").submodule_search_locations[0])
    return ctypes.CDLL(str(folder / f"cu13/lib/lib{name}.so.1"))._handle


ADVANCE = []


def release():
    close = ctypes.CDLL(None).dlclose
    close.argtypes = [ctypes.c_void_p]
    for handle in ADVANCE:
        close(handle)


class Plugged:
    def __init__(self, runtime):
        self._runtime = runtime

    def run(self, inputs):
        if len(next(iter(inputs.values()))) > 1:
            plugin("batch")
        return self._runtime.run(inputs)


def load(folder, candidate):
    if not Path("/opt/paddleship/site").is_dir():
        ADVANCE.extend(map(plugin, ("first", "never")))
    plugin("first")
    if candidate.options.get("late") and Path("/opt/paddleship/site").is_dir():
        plugin("late")
    return Plugged(onnx_runtime.load(folder, candidate))


RUNTIME = Registration(
    name="plugged",
    load=load,
    source="onnx",
    candidates={"plugged": Kind(packages=("plugins",)), "plugged-late": Kind(packages=("plugins",), options={"late": True})},
    requirements=%r,
    weights="paddleship.weights.onnx_files:read",
    optional_libraries=("plugins/**/*.so*",),
    release_preloaded=release,
)
'''
ABOUT = "Metadata-Version: 2.1\nName: paddleship-plugged\nVersion: 0.1.0\n"
NAME = f"paddleship/test-unused-libraries-{os.getpid()}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder for the import path with the libraries and the runtime that uses them."""
    folder = plugins.install(tmp_path_factory.mktemp("plugged") / "site")
    pins = re.findall(r"^(?:onnxruntime|flatbuffers)==.*$", (REPOSITORY / "docker/requirements/onnxruntime.txt").read_text(), re.MULTILINE)
    (folder / "paddleship_plugged.py").write_text(CODE % ((*pins, "plugins==1.0"),))
    about = folder / "paddleship_plugged-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(ABOUT)
    (about / "entry_points.txt").write_text("[paddleship.runtimes]\nplugged = paddleship_plugged:RUNTIME\n")
    return folder


@pytest.fixture(scope="module")
def run(site, warm_commands):
    def stage(checkout, *names):
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(checkout), str(site)]),
            "UV_FIND_LINKS": str(site.parent / "wheels"),
        }
        for name in names:
            done = subprocess.run(
                [sys.executable, "-m", f"tasks.{name}"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                break
        return done

    return stage


def edit(checkout, **sections):
    path = checkout / "params.yaml"
    values = yaml.safe_load(path.read_text())
    for section, keys in sections.items():
        values[section] |= keys
    path.write_text(yaml.safe_dump(values, sort_keys=False))


@pytest.fixture(scope="module")
def measured(linear_benchmarked, run, tmp_path_factory, engine):
    """A checkout after the benchmark, with both candidates of the runtime; its images are gone afterwards."""
    checkout = tmp_path_factory.mktemp("unused") / "checkout"
    subprocess.run(["cp", "-a", str(linear_benchmarked), str(checkout)], check=True)
    sections = {"optimize": {"candidates": ["plugged", "plugged-late"], "tune_seconds": 0}, "select": {"candidate": "plugged"}}
    edit(checkout, **sections, package={"repository": NAME, "unused_libraries": "remove"})
    done = run(checkout, "fingerprint", "export", "optimize", "verify", "benchmark")
    assert done.returncode == 0, done.stdout + done.stderr
    yield checkout
    for found in engine.images.list(name=NAME):
        engine.images.remove(found.id, force=True)


def in_image(engine, checkout):
    identity = json.loads((checkout / "image.json").read_text())["image_id"]
    ask = "import pathlib; print(*sorted(path.name for path in pathlib.Path('/opt/paddleship/site/plugins').rglob('*.so*')))"
    return engine.containers.run(identity, ["-c", ask], entrypoint="python", remove=True, network_disabled=True).decode().split()


@pytest.mark.slow
@pytest.mark.engine
def test_an_image_leaves_out_what_verify_never_saw_in_use_and_answers_as_eager_does(measured, run, engine):
    done = run(measured, "package", "accept")
    assert done.returncode == 0, done.stdout + done.stderr
    assert in_image(engine, measured) == ["libbatch.so.1", "libfirst.so.1"]
    facts = json.loads((measured / "reports/package.json").read_text())["facts"]
    assert facts["loaded_libraries"] == ["plugins/cu13/lib/libbatch.so.1", "plugins/cu13/lib/libfirst.so.1"]
    assert json.loads((measured / "release.json").read_text())["accepted"]


@pytest.mark.slow
@pytest.mark.engine
def test_by_default_an_image_has_all_of_them(measured, run, engine, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(measured), str(checkout)], check=True)
    edit(checkout, package={"unused_libraries": "keep"})
    done = run(checkout, "package")
    assert done.returncode == 0, done.stdout + done.stderr
    assert in_image(engine, checkout) == sorted(Path(name).name for name in plugins.FILES)


@pytest.mark.slow
@pytest.mark.engine
def test_an_image_whose_server_needs_a_library_that_verify_did_not_see_is_refused(measured, run, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(measured), str(checkout)], check=True)
    edit(checkout, select={"candidate": "plugged-late"})
    done = run(checkout, "benchmark", "package", "accept")
    assert done.returncode == 3
    assert "liblate.so.1: cannot open shared object file" in done.stderr

"""An exported program without a Python class goes through the stages as a model does; resnet18 to an accepted image."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from paddleship.config import loading
from tests import small_exported, small_onnx
from tests.e2e.stage_runs import run

QUICK = {
    "optimize": {"candidates": ["paddle", "paddle-eager", "onnxruntime", "openvino"], "tune_seconds": 0},
    "verify": {"samples": 24, "max_batch": 4},
    "benchmark": {
        "batch_sizes": [1], "concurrency": [], "starts": 1, "blocks": 4, "samples_per_block": 20, "warmup_s": 0.2,
        "scenario_seconds": 0.5, "max_seconds": 2, "max_busy_share": 1.0,
    },
}  # fmt: skip
STAGES = ("prepare", "train", "export", "optimize", "verify", "benchmark")


@pytest.fixture
def checkout_for(tmp_path, checkout_of, base_params, warm_commands):
    """A checkout whose params name the exported files in a folder, which `module` wrote."""

    def make(folder, module=small_exported, **changes):
        checkout = checkout_of("exported")
        base = {key: value for key, value in base_params.items() if key != "preprocess"}
        own = {"data": {"fetch": {}, "kwargs": {}, "near_repeat_share": 1.0, "unusable_share": 1.0}}
        values = loading.merge(loading.merge(loading.merge(base, module.values(folder)), own | QUICK), changes)
        (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        return checkout

    return make


def report(checkout, name):
    return json.loads((checkout / f"reports/{name}.json").read_text())


def test_an_exported_program_goes_to_the_benchmark_and_says_what_was_proven(tmp_path, checkout_for):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    small_exported.export(theirs)
    checkout = checkout_for(theirs)
    run(checkout, *STAGES[:2])
    (theirs / "inference.json").unlink()  # later stages read the checkpoint alone
    run(checkout, *STAGES[2:])
    verified = report(checkout, "verify")
    assert f", as the exported file {theirs}/inference.json" in verified["headline"]
    assert {name: row["status"] for name, row in verified["candidates"].items()} == dict.fromkeys(
        [*QUICK["optimize"]["candidates"], "to_static"], "proven"
    )
    assert {finding["kind"] for finding in verified["findings"]} <= {"loosened-limits"}
    eager = json.loads((checkout / "models/candidates/paddle-eager/candidate.json").read_text())
    assert eager["options"]["program"] == "program.json"
    assert "factory" not in eager["options"]


@pytest.mark.engine
@pytest.mark.long
def test_the_layer_of_a_program_is_served_by_eager_paddle_where_that_is_chosen(tmp_path, checkout_for, engine):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    small_exported.export(theirs)
    repository = f"paddleship/test-exported-eager-{os.getpid()}"
    checkout = checkout_for(
        theirs,
        optimize={"candidates": ["paddle-eager"]},
        benchmark={"max_seconds": 20},
        package={"repository": repository},
        accept={"load_requests": 20, "ready_timeout_s": 180, "max_cold_start_ms": 180000},
    )
    run(checkout, *STAGES, "package", "accept")
    release = json.loads((checkout / "release.json").read_text())
    for built in engine.images.list(name=repository):
        engine.images.remove(built.id, force=True)
    assert release["accepted"]
    assert release["runtime"] == "paddle-eager"


@pytest.mark.engine
@pytest.mark.long
def test_an_onnx_file_becomes_an_accepted_image(tmp_path, checkout_for, engine):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    small_onnx.export(theirs)
    repository = f"paddleship/test-exported-onnx-{os.getpid()}"
    checkout = checkout_for(
        theirs, small_onnx, package={"repository": repository}, benchmark={"max_seconds": 20}, accept={"load_requests": 20}
    )
    run(checkout, *STAGES, "package", "accept")
    verified = report(checkout, "verify")
    release = json.loads((checkout / "release.json").read_text())
    for built in engine.images.list(name=repository):
        engine.images.remove(built.id, force=True)
    assert f", as the exported file {theirs}/model.onnx" in verified["headline"]
    assert {name: row["status"] for name, row in verified["candidates"].items()} == dict.fromkeys(
        [*QUICK["optimize"]["candidates"], "to_static"], "proven"
    )
    assert release["accepted"]
    assert release["weights_source"].startswith("imported, sha256 ")


RESNET = """
import sys

import paddle

paddle.seed(0)
network = paddle.vision.models.resnet18(num_classes=2)
network.eval()
paddle.jit.save(network, sys.argv[1], input_spec=[paddle.static.InputSpec([None, 3, 32, 32], "float32", "x")])
"""
COLOURED = small_exported.READER.replace("(1, 8, 8)", "(3, 32, 32)").replace("half * 4 : half * 4 + 4", "half * 16 : half * 16 + 16")


@pytest.mark.engine
@pytest.mark.long
def test_resnet18_as_paddle_exports_it_becomes_an_accepted_image(tmp_path, checkout_for, engine):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "raw").touch()
    (theirs / "pictures.py").write_text(COLOURED)
    subprocess.run([sys.executable, "-c", RESNET, str(theirs / "inference")], cwd=theirs, check=True, capture_output=True)
    repository = f"paddleship/test-exported-{os.getpid()}"
    checkout = checkout_for(
        theirs,
        model={"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, 32, 32]}]},
        train={"min_score": None},
        optimize={"candidates": ["paddle", "onnxruntime", "openvino"]},
        package={"repository": repository},
        benchmark={"max_seconds": 20},
        accept={"load_requests": 20},
    )
    run(checkout, *STAGES, "package", "accept")
    release = json.loads((checkout / "release.json").read_text())
    for built in engine.images.list(name=repository):
        engine.images.remove(built.id, force=True)
    assert release["accepted"]
    assert release["weights_source"].startswith("imported, sha256 ")

"""`make gpu-wheels` and `make gpu-check`, up to what needs a GPU; the parts that do not need one run with the CPU's runtime."""

import json
import os
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import psutil
import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import checks, overflow, serving, trials, under_load, wheels
from benchmarks.gpu.checks import Row
from benchmarks.gpu.trials import GRAPH, HALF, ON_CPU, PLAIN, TF32, Trial
from paddleship.custody import proofs
from paddleship.errors import CandidateError
from paddleship.proof import evidence
from paddleship.proof.cases import inputs
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import nvidia
from paddleship.shipped.serving import settings
from paddleship.shipped.serving.settings import Settings
from tests.flows.helpers import wait_for

REPOSITORY = Path(__file__).parents[2]


def wheel(folder, name, *, filler=0):
    """A wheel with one module, and as many random bytes as asked."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "value = 7\n")
        archive.writestr(f"{name}.bin", np.random.default_rng(0).bytes(filler))
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def parts(tmp_path):
    made = [wheel(tmp_path, "small"), wheel(tmp_path, "large", filler=25_000)]
    size = wheels.split(made, tmp_path / "parts", part_bytes=10_000)
    assert size == sum(path.stat().st_size for path in made)
    return tmp_path / "parts"


def test_no_part_is_larger_than_allowed_and_joined_wheels_install_without_a_network(parts, tmp_path):
    sizes = {part.name: sum(file.stat().st_size for file in part.iterdir() if file.name != wheels.MANIFEST) for part in parts.iterdir()}
    assert len(sizes) >= 3
    assert max(sizes.values()) <= 10_000
    python = command.install(parts, tmp_path / "work")
    code = "import small, large, importlib.util as util; print(large.value, util.find_spec('numpy'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "7 None\n", "nothing of this environment is visible"


def test_nvidias_packages_that_were_not_brought_are_those_of_the_python_that_installs(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    for path in (source / "nvidia/cu13/lib", source / "nvidia_cublas-13.0.dist-info", source / "torch", site):
        path.mkdir(parents=True)
    command.link_nvidia(source, site)
    assert {path.name for path in site.iterdir()} == {"nvidia", "nvidia_cublas-13.0.dist-info"}
    assert (site / "nvidia/cu13/lib").is_dir()


def absent_but_one(name):
    if name != "nvidia-cublas":
        raise PackageNotFoundError(name)
    return "13.0.1"


def test_pins_of_nvidias_libraries_are_those_installed_where_the_check_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "version", absent_but_one)
    trials.write_pins(REPOSITORY / "docker/requirements", tmp_path / "pins")
    lines = (tmp_path / "pins/onnxruntime-cuda.txt").read_text().splitlines()
    assert {"nvidia-cublas==13.0.1", "onnxruntime-gpu==1.31.1", "nvidia-cudnn-cu13==9.26.0.51"} <= set(lines)


def test_a_missing_part_and_a_changed_one_are_named(parts, tmp_path):
    piece = next(parts.glob("part-02/large*"))
    content = piece.read_bytes()
    piece.write_bytes(content[:-1] + b"x")
    with pytest.raises(wheels.WheelError, match=r"large-1\.0-py3-none-any\.whl has another hash"):
        wheels.join(parts, tmp_path / "joined")
    piece.unlink()
    with pytest.raises(wheels.WheelError, match=rf"{piece} is missing: bring all parts here"):
        wheels.join(parts, tmp_path / "joined")


@pytest.mark.slow  # asks the package index
def test_the_wheels_of_a_gpu_resolve_for_python_3_12_with_the_projects_pins():
    pins = wheels.resolve("3.12")
    pinned = {line.partition(";")[0].strip() for line in (REPOSITORY / "constraints.txt").read_text().splitlines()}
    assert {"onnxruntime-gpu", "paddlepaddle", "nvidia-cudnn-cu13", "nvidia-cublas"} <= {pin.partition("==")[0] for pin in pins}
    assert set(pins) <= pinned
    assert "onnxruntime" not in {pin.partition("==")[0] for pin in pins}


@pytest.mark.skipif(not trials.missing(), reason="there is a GPU")
def test_without_a_gpu_the_check_ends_with_one_line_and_4():
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"error: gpu-check needs an NVIDIA GPU, and {trials.missing()}\n"


def test_a_model_that_there_is_not_is_one_line(tmp_path, capsys):
    assert checks.run(["gpt"], tmp_path) == 2
    assert capsys.readouterr().err.startswith("error: no model is named 'gpt': choose of resnet18")


@pytest.fixture
def trial(tmp_path):
    """A model whose stages left reports, as they would on a GPU."""

    def make(*, noise=1635.0, proven=(PLAIN, TF32, HALF, GRAPH), refused=""):
        (tmp_path / "reports").mkdir(exist_ok=True)
        row = {"noise_ratio": 1.2, "flip_rate": 0.0, "reason": ""}
        verified = {name: row | {"status": "proven" if name in proven else "failed"} for name in (ON_CPU, PLAIN, TF32, HALF, GRAPH)}
        verified[TF32] |= {"noise_ratio": noise}
        made = {GRAPH: {"status": "failed" if refused else "made", "reason": refused}}
        measured = {"candidates": {PLAIN: {"p50_ms": 2.5}}, "facts": {"winner": PLAIN}}
        for stage, report in (("verify", {"candidates": verified}), ("optimize", {"candidates": made}), ("benchmark", measured)):
            (tmp_path / f"reports/{stage}.json").write_text(json.dumps(report))
        return Trial("lstm", tmp_path)

    return make


REFUSED = "ONNX Runtime captures no CUDA graph of this program, and the candidate `onnxruntime-cuda` runs it without (nodes on the CPU)"


@pytest.mark.parametrize(
    ("values", "failed"),
    [
        ({}, set()),
        ({"noise": 3.0}, {"TF32 would be refused as float32"}),
        ({"proven": (PLAIN, HALF, GRAPH)}, {f"{TF32} is proven"}),
        ({"proven": (PLAIN, TF32, HALF)}, {"the CUDA graph is proven, or refused with the reason"}),
        ({"proven": (PLAIN, TF32, HALF), "refused": REFUSED}, set()),
    ],
)
def test_each_claim_about_the_stages_can_fail(trial, values, failed):
    rows = list(checks.of_stages(trial(**values)))
    assert {row.check for row in rows if row.passed is False} == failed
    assert [row.measured for row in rows if row.check == f"{PLAIN}: p50 of one row"] == ["2.5 ms, chosen"]


def test_what_an_image_can_be_reduced_to_is_a_row_with_its_size_and_no_record_is_a_failure(trial, tmp_path):
    for name, size in (("libcublas.so.13", 3_000_000), ("libcufft.so.12", 2_000_000)):
        (tmp_path / "site/nvidia/cu13/lib").mkdir(parents=True, exist_ok=True)
        (tmp_path / "site/nvidia/cu13/lib" / name).write_bytes(bytes(size))
    assert checks.of_libraries(trial(), [str(tmp_path / "site")]).passed is False
    (tmp_path / "parity").mkdir()
    proofs.write_mapped_libraries(tmp_path / "parity", {PLAIN: ["nvidia/cu13/lib/libcublas.so.13"]}, ["NVIDIA H200"])
    row = checks.of_libraries(trial(), [str(tmp_path / "site")])
    assert (row.passed, row.value, row.measured) == (True, 3.0, "1 of 2 used, 3 of 5 MB: libcublas.so.13")


def test_a_stage_that_failed_and_a_check_that_raises_are_rows():
    (row,) = checks.of_stages(Trial("lstm", Path(), failed="verify: error: nothing passed"))
    assert (row.passed, row.measured) == (False, "verify: error: nothing passed")

    def fail():
        raise CandidateError("no GPU")

    assert checks.guarded("serving", "lstm", fail) == [Row("serving", "lstm", "CandidateError: no GPU", False)]


def test_the_table_and_the_figures_say_the_same():
    rows = [Row("a", "x", "1 ms", True, 1.0), Row("b", "x", "bad", False), Row("c", "y", "nothing to see", None)]
    assert [line.split("  ")[0] for line in checks.table(rows).splitlines()] == ["passed", "FAILED", "not decided"]
    figures = checks.figures(rows, 2.0)
    assert (figures["passed"], figures["failed"], figures["not_decided"], figures["x: a"], figures["x: b"]) == (1, 1, ["y: c"], 1.0, False)


@pytest.fixture
def served(tmp_path):
    """A candidate of the CPU's runtime, and evidence that its server is compared with; the answers are off by a share of the scale."""

    def make(error=0.0):
        folder = overflow.program(tmp_path / "candidate", ON_CPU)
        specs = Candidate.load(folder).inputs
        random = np.random.default_rng(0)
        rows = [{"x": random.normal(size=64).astype(np.float32)} for _ in range(40)]
        cases = inputs.from_rows(rows, specs, lambda examples: {"x": np.stack([one["x"] for one in examples])}, max_batch=8)
        runtime = runtimes.load(folder)
        answers = [runtime.run(case.inputs) for case in cases]
        reference = [{"y": (answer["y"] + error).astype(np.float32)} for answer in answers]
        (tmp_path / "parity").mkdir()
        evidence.gather(cases, reference, [{"y": one["y"].astype(np.float64)} for one in reference]).save(tmp_path / "parity")
        return folder, tmp_path / "parity"

    return make


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_a_served_candidate_is_asked_all_rows_and_a_wrong_answer_is_counted(served, tmp_path, error):
    folder, parity = served(error)
    with serving.server(folder, tmp_path / "server.log") as port:
        found = serving.ask(port, folder, parity, rows=100, noise_limit=8)
    assert found.asked >= 100
    assert found.right == (0 if error else found.asked)
    assert bool(found.problem) is bool(error)


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_a_server_under_load_answers_many_callers_and_each_wrong_answer_is_a_fault(served, tmp_path, error):
    folder, parity = served(error)
    (parity / "rows.json").write_text(json.dumps({"independent": True, "padded": False}))
    copy = serving.as_packaged(folder, parity, tmp_path / "served")
    assert settings.read(copy) == Settings(batching=True)
    with serving.server(copy, tmp_path / "server.log") as port:
        loaded = under_load.run(port, copy, parity, callers=2, seconds=2.0, noise_limit=8)
    assert bool(loaded.took_ms) is not bool(error)
    assert bool(loaded.faults) is bool(error)
    assert ("wrong or failed: " in str(loaded)) is bool(error)


def test_a_server_that_dies_under_load_is_a_fault(served, tmp_path):
    folder, parity = served()
    with serving.server(folder, tmp_path / "server.log") as port:
        pass
    (fault,) = under_load.run(port, folder, parity, callers=1, seconds=5.0, noise_limit=8).faults
    assert fault.startswith("ConnectionRefusedError")


def test_a_stage_that_runs_at_the_deadline_is_killed_with_what_it_started_and_is_not_decided(tmp_path):
    code = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60']).pid, file=open('pid', 'w'), flush=True); time.sleep(60)"
    began = time.monotonic()
    ended = trials._ended([sys.executable, "-c", code], tmp_path, os.environ, began + 1.5)
    assert ended == (trials._LATE, "the time of the check was over")
    assert time.monotonic() - began < 30
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    (row,) = checks.of_stages(Trial("lstm", tmp_path, failed="verify: the time of the check was over", late=True))
    assert row.verdict == "not decided"


def test_a_server_that_does_not_start_says_why(tmp_path, served):
    folder, _ = served()
    Candidate.load(folder)
    described = replace(Candidate.load(folder), runtime="onnxruntime-cuda", name=PLAIN)
    described.save(folder)
    if trials.missing():
        with (
            pytest.raises(RuntimeError, match=r"the server did not start: .*ONNX Runtime is built for CPUs"),
            serving.server(folder, tmp_path / "log"),
        ):
            pass


@pytest.mark.skipif("NVIDIA H200" in nvidia.names(), reason="this is that GPU")
def test_a_server_of_an_image_for_another_gpu_says_so(tmp_path, served):
    folder, _ = served()
    Settings(gpu="NVIDIA H200").write(folder)
    with (
        pytest.raises(RuntimeError, match=r"the server did not start: .*this image has only the libraries that NVIDIA H200 needs"),
        serving.server(folder, tmp_path / "log"),
    ):
        pass

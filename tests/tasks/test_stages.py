"""Stages as a person runs them, `python -m tasks.<verb>` in a checkout: what they leave behind and how they fail."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from paddleship.config import loading
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256
from paddleship.system import locks
from tasks import verify
from tests.tasks.sealing import proved_again, sealed_again

OUTS = {"export": "exported", "optimize": "candidates", "verify": "parity", "benchmark": "benchmark"}  # in models/
SCALED = """

class Scaled(nn.Linear):
    def forward(self, x):
        scale = math.tanh(float(x.mean()))
        return super().forward(x) * scale
"""


def run(checkout, stage):
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.run(
        [sys.executable, "-m", f"tasks.{stage}"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def change(checkout, **sections):
    path = checkout / "params.yaml"
    values = yaml.safe_load(path.read_text())
    for section, keys in sections.items():
        values[section] |= keys
    path.write_text(yaml.safe_dump(values, sort_keys=False))


def report(checkout, stage):
    return json.loads((checkout / "reports" / f"{stage}.json").read_text())


def last_line(done):
    return done.stderr.strip().splitlines()[-1]


def one_line(done, *, code, words):
    """A stage failed with this code, and with one line that has these words."""
    assert done.returncode == code, done.stderr
    assert last_line(done).startswith("error: ")
    assert words in last_line(done)
    assert "Traceback" not in done.stderr


def copy_before(checkout, target, *later):
    """A copy of a checkout without what some stages left."""
    subprocess.run(["cp", "-a", str(checkout), str(target)], check=True)
    for stage in later:
        for path in (target / "reports").glob(f"{stage}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(target / "models" / OUTS[stage])
    return target


@pytest.fixture(scope="module")
def trained(benchmarked, tmp_path_factory):
    """A checkout of the linear example after prepare and train."""
    return copy_before(benchmarked, tmp_path_factory.mktemp("trained") / "checkout", *OUTS)


@pytest.fixture
def optimized(benchmarked, tmp_path):
    """A copy of it after optimize, for one test."""
    return copy_before(benchmarked, tmp_path / "checkout", "verify", "benchmark")


@pytest.mark.parametrize(
    ("verb", "sections", "code", "words"),
    [
        ("prepare", {"train": {"epoch": 3}}, 2, "unknown key 'train.epoch' (did you mean 'epochs'?)"),
        ("prepare", {"data": {"raw": "no/where.csv"}}, 2, "data.raw 'no/where.csv' does not exist"),
        ("prepare", {"data": {"reader": "nowhere:read"}}, 2, "no module named 'nowhere'"),
        ("prepare", {"data": {"inputs": ["z"]}}, 2, "model.inputs names 'x', which is not a column of the data (data.inputs: z)"),
        ("train", {"model": {"factory": "examples.linear.model:bild"}}, 2, "has no 'bild'"),
        ("train", {"model": {"kwargs": {"features": 3}}}, 2, "forward of Linear failed"),
        ("export", {"paths": {"checkpoint": "models/none"}}, 2, "paddleship run --again train"),
    ],
)
def test_a_fault_is_one_line_with_its_exit_code_and_no_traceback(trained, tmp_path, verb, sections, code, words):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(trained), str(checkout)], check=True)
    change(checkout, **sections)
    one_line(run(checkout, verb), code=code, words=words)


def test_a_missed_gate_leaves_its_evidence(trained, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(trained), str(checkout)], check=True)
    change(checkout, train={"min_score": 1.0})
    one_line(run(checkout, "train"), code=3, words="validation_r2")
    failed = [check for check in report(checkout, "train")["verdict"]["checks"] if not check["passed"]]
    assert failed[0]["name"] == "validation_r2"
    assert failed[0]["limit"] == 1.0


FORGETFUL = """

class Forgetful(nn.Linear):
    seen = 0

    def forward(self, x):
        self.seen += self.training
        return super().forward(x) + self.seen / 1000
"""


def test_a_model_that_learns_what_its_checkpoint_does_not_hold_misses_the_round_trip(trained, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(trained), str(checkout)], check=True)
    source = (checkout / "examples/linear/model.py").read_text().replace("nn.Linear(features, 1)", "Forgetful(features, 1)")
    (checkout / "examples/linear/model.py").write_text(source + FORGETFUL)
    assert run(checkout, "prepare").returncode == 0
    assert run(checkout, "train").returncode == 3
    failed = [check["name"] for check in report(checkout, "train")["verdict"]["checks"] if not check["passed"]]
    assert "round_trip_max_rel_diff" in failed


def test_where_no_candidate_can_be_made_optimize_misses_its_gate(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, optimize={"candidates": ["paddle-pruned"]})
    done = stage(checkout, "optimize")
    assert done.returncode == 3, done.stderr
    assert report(checkout, "optimize")["metrics"]["candidates_made"] == 0


def test_a_diverged_training_keeps_the_last_good_checkpoint(trained, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(trained), str(checkout)], check=True)
    before = (checkout / "models/checkpoint/weights.safetensors").read_bytes()
    change(checkout, train={"learning_rate": 1e30})
    one_line(run(checkout, "train"), code=3, words="lower train.learning_rate")
    assert (checkout / "models/checkpoint/weights.safetensors").read_bytes() == before
    assert "loss" in report(checkout, "train")["headline"]


def test_a_stage_that_runs_in_the_folder_already_is_not_run_twice_at_once(trained):
    with locks.only_one(trained / "reports/.train.lock", what="train"):
        done = run(trained, "train")
    assert done.returncode == 4, done.stderr
    assert "train is running in" in last_line(done)


@pytest.mark.spawned  # each with a hash seed of its own
def test_the_same_commit_in_another_folder_gives_the_same_checkpoint_and_candidates(benchmarked, linear_checkout_of, stage):
    other = linear_checkout_of("again")
    for name in ("prepare", "train", "export", "optimize"):
        done = stage(other, name)
        assert done.returncode == 0, done.stderr
    for folder in ("data/prepared", "models/checkpoint", "models/exported", "models/candidates"):
        assert contents(other / folder) == contents(benchmarked / folder)
        assert contents(other / folder)


def contents(folder):
    """The hash of every file below a folder."""
    return {path.relative_to(folder): sha256(path) for path in folder.rglob("*") if path.is_file()}


def test_a_conversion_error_names_the_users_line(trained, tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(trained), str(checkout)], check=True)
    source = (checkout / "examples/linear/model.py").read_text().replace("nn.Linear(features, 1)", "Scaled(features, 1)")
    source = "import math\n" + source + SCALED
    (checkout / "examples/linear/model.py").write_text(source)
    change(checkout, train={"min_score": None})
    assert run(checkout, "prepare").returncode == 0
    assert run(checkout, "train").returncode == 0
    done = run(checkout, "export")
    assert done.returncode == 2
    assert "does not convert to a static graph" in last_line(done)
    line = source[: source.index("math.tanh")].count("\n") + 1
    assert f"examples/linear/model.py:{line}" in last_line(done)


def test_the_chain_from_export_to_benchmark_proves_and_chooses(benchmarked):
    assert "faster for weights that are zero" in report(benchmarked, "optimize")["facts"]["not_tried"]["paddle-pruned"]
    rows = report(benchmarked, "verify")["candidates"]
    assert set(rows) == {"to_static", "paddle", "paddle-onednn", "onnxruntime"}
    assert all(row["status"] == "proven" for row in rows.values())
    assert {rows[name]["weights_exact_share"] for name in ("paddle", "paddle-onednn", "onnxruntime")} == {1.0}
    assert ". Covered: 32 rows, batch 1 to 8, 100% of weights" in report(benchmarked, "verify")["headline"]
    assert report(benchmarked, "verify")["facts"]["weights"]["exported"]["exact_share"] == 1.0
    benchmark = report(benchmarked, "benchmark")
    assert set(benchmark["candidates"]) == {"eager", *rows}
    assert benchmark["facts"]["winner"] in rows
    assert benchmark["metrics"]["speedup_low"] <= benchmark["metrics"]["speedup"] <= benchmark["metrics"]["speedup_high"]
    assert all(row["speedup_low"] <= row["speedup"] <= row["speedup_high"] for row in benchmark["candidates"].values())
    assert {row["difference"] for name, row in benchmark["candidates"].items() if name != "eager"} <= {"better", "worse", "cannot tell"}
    assert benchmark["candidates"]["onnxruntime"]["file_bytes"] > 0
    sizes = [point["batch_size"] for point in benchmark["facts"]["curves"]["onnxruntime"]["batch_size"]]
    assert sizes in ([1, 32], [1]), "a busy machine may have no time for the larger one"
    assert json.loads((benchmarked / "models/benchmark/samples.json").read_text())["host"] == benchmark["host"]
    assert set(benchmark["facts"]["scenarios"]) == {"eager", benchmark["facts"]["winner"]}
    assert all(under_load["offline_per_s"] > 0 for under_load in benchmark["facts"]["scenarios"].values())
    for name in ("verify/noise.png", "benchmark/latency.png", "benchmark/pareto.png"):
        assert (benchmarked / "reports" / name).stat().st_size > 5000


def test_verify_repeated_after_it_ended_makes_the_same_evidence(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    assert json.loads((checkout / "models/regression/cases.json").read_text()) != []
    done = stage(checkout, "verify")
    assert done.returncode == 0, done.stderr
    assert contents(checkout / "models/parity") == contents(benchmarked / "models/parity") != {}


def test_a_wrong_candidate_is_caught_and_does_not_take_part(optimized):
    checkout = optimized
    move_a_weight(checkout / "models/candidates/onnxruntime")
    noted_as_made(checkout, "onnxruntime")
    assert run(checkout, "verify").returncode == 0
    rows = report(checkout, "verify")["candidates"]
    assert rows["onnxruntime"]["status"] == "failed"
    assert rows["onnxruntime"]["noise_ratio"] > 8
    assert "weights: 1 differs" in rows["onnxruntime"]["reason"]
    assert "weights-differ" in [finding["kind"] for finding in rows["onnxruntime"]["findings"]]
    assert list(json.loads((checkout / "models/parity/passed.json").read_text())) == ["paddle", "paddle-onednn"]


def test_a_candidate_that_is_lost_after_it_was_proven_is_refused(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    (checkout / "models/candidates/paddle/model.json").unlink()
    done = stage(checkout, "benchmark")
    assert done.returncode == 2, done.stderr
    assert "sha256 missing" in last_line(done)


def test_a_candidate_that_answers_wrongly_in_the_benchmark_is_a_row_and_a_wish_for_it_misses_its_gate(benchmarked, tmp_path):
    checkout = copy_before(benchmarked, tmp_path / "checkout", "benchmark")
    change(checkout, optimize={"candidates": ["paddle", "onnxruntime"]}, select={"candidate": "onnxruntime"})
    move_a_weight(checkout / "models/candidates/onnxruntime")
    passed = checkout / "models/parity/passed.json"
    proven = json.loads(passed.read_text())
    del proven["paddle-onednn"]
    proven["onnxruntime"]["digest"] = Candidate.load(checkout / "models/candidates/onnxruntime").digest
    passed.write_text(json.dumps(proven))
    proved_again(checkout)
    done = run(checkout, "benchmark")
    assert done.returncode == 3, done.stderr
    assert "select.candidate onnxruntime: wrong (wanted: measured)" in last_line(done)
    rows = report(checkout, "benchmark")["candidates"]
    assert {name: row["status"] for name, row in rows.items()} == {
        "eager": "measured",
        "to_static": "measured",
        "paddle": "measured",
        "onnxruntime": "wrong",
    }
    assert "noise_ratio" in rows["onnxruntime"]["reason"]


BRANCHING = """

class Branching(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        if x.sum() > LIMIT:
            y = y * 2
        return y
"""


@pytest.mark.long  # verify's gate is in tests/test_gates.py, what a side is in paddleship/controlflow/test_regions
@pytest.mark.parametrize(("limit", "code"), [(1e6, 3), (0, 0)], ids=["one side", "both sides"])
def test_a_side_that_no_row_takes_fails_where_coverage_is_required(trained, tmp_path, limit, code):
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-a", str(trained), str(checkout)], check=True)
    source = (checkout / "examples/linear/model.py").read_text().replace("nn.Linear(features, 1)", "Branching(features, 1)")
    (checkout / "examples/linear/model.py").write_text(source + BRANCHING.replace("LIMIT", str(limit)))
    change(checkout, verify={"require_branch_coverage": True}, optimize={"candidates": ["paddle"]})
    for stage in ("export", "optimize"):
        done = run(checkout, stage)
        assert done.returncode == 0, done.stderr
    done = run(checkout, "verify")
    assert done.returncode == code, done.stderr
    assert report(checkout, "verify")["metrics"]["regions"] == 1
    if code:
        line = (checkout / "examples/linear/model.py").read_text().split("x.sum()")[0].count("\n") + 1
        assert f"examples/linear/model.py:{line}" in last_line(done)
        assert "uncovered_branches is 1" in last_line(done)


def test_a_candidate_that_was_not_made_keeps_its_precision(tmp_path):
    row, model_under_test = verify._entry(tmp_path / "paddle-int8", loading.load(Path(__file__).parents[2] / "params.yaml"), {}, ())
    assert (row["status"], row["precision"], model_under_test) == ("not made", "int8", None)


def test_training_and_single_layers_are_compared_where_it_is_asked_for(optimized):
    checkout = optimized
    change(checkout, verify={"training": True, "layers": True}, optimize={"candidates": ["paddle"]})
    done = run(checkout, "verify")
    assert done.returncode == 0, done.stderr
    found = report(checkout, "verify")
    assert {"training_loss_ratio", "gradient_ratio"} <= {check["name"] for check in found["verdict"]["checks"]}
    assert set(found["facts"]["training"]["gradient_ratios"]) == {"weight", "bias"}
    for picture in ("training.png", "layers-to_static.png", "layers-paddle.png"):
        assert (checkout / "reports/verify" / picture).stat().st_size > 5000


def as_another(path):
    """Put the candidate `paddle` in the place of another."""
    shutil.rmtree(path)
    shutil.copytree(path.parent / "paddle", path)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("model.onnx", lambda path: path.unlink(), "sha256 missing"),
        ("model.onnx", lambda path: path.write_bytes(path.read_bytes()[:-1]), "changed since the candidate was made"),
        ("candidate.json", lambda path: path.write_text("{"), "cannot be read"),
        ("", lambda path: shutil.rmtree(path.parent), "models/candidates is missing"),
        ("", as_another, "models/candidates/onnxruntime/candidate.json changed since optimize wrote this folder"),
    ],
)
def test_a_candidate_folder_that_was_changed_is_bad_input(optimized, file, change, words):
    checkout = optimized
    change(checkout / "models/candidates/onnxruntime" / file)
    before = sorted(path.name for path in (checkout / "models").iterdir())
    done = run(checkout, "verify")
    assert done.returncode == 2, done.stderr
    assert words in last_line(done)
    assert "`paddleship run --again optimize`" in last_line(done)
    assert sorted(path.name for path in (checkout / "models").iterdir()) == before


def move_a_weight(folder):
    """Move one weight by a thousandth and write the candidate anew."""
    import onnx
    from onnx import numpy_helper

    candidate = Candidate.load(folder)
    model = onnx.load(folder / "model.onnx")
    constants = [node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"]
    weights = next(item for item in constants if item.data_type == onnx.TensorProto.FLOAT and list(item.dims) == [2, 1])
    array = numpy_helper.to_array(weights).copy()
    array[0, 0] *= 1.001
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    onnx.save(model, folder / "model.onnx")
    candidate.save(folder)


def noted_as_made(checkout, name):
    """Note a changed candidate as optimize would: as the work of a faulty converter."""
    assert Candidate.load(checkout / "models/candidates" / name)
    sealed_again(checkout / "models/candidates")


@pytest.mark.parametrize(
    ("claim", "value", "words"),
    [
        ("classes", ["yes", "no"], "has classes ['yes', 'no'], but data.classes says []"),
        ("precision", "bfloat16", "has precision 'bfloat16', but its name says 'float32'"),
        ("task", "classification", "has task 'classification', but data.task says 'regression'"),
        ("weights_sha256", "0" * 64, "has weights '0000"),
        ("code_sha256", "0" * 64, "has code '0000"),
        ("library_sha256", "0" * 64, "has library '0000"),
    ],
)
def test_a_candidate_that_claims_what_its_sources_do_not_say_is_refused(benchmarked, copy_of, stage, claim, value, words):
    checkout = copy_of(benchmarked)
    about = checkout / "models/candidates/onnxruntime/candidate.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {claim: value}))
    noted_as_made(checkout, "onnxruntime")
    done = stage(checkout, "verify")
    assert done.returncode == 2, done.stderr
    assert words in last_line(done)
    assert "run `dvc repro export optimize`" in last_line(done)


@pytest.mark.parametrize("name", ["verify", "benchmark", "package"])
def test_a_candidate_that_was_exchanged_after_a_stage_is_refused_by_the_next_one(benchmarked, copy_of, stage, name):
    checkout = copy_of(benchmarked)
    folder = checkout / "models/candidates/onnxruntime"
    move_a_weight(folder)
    done = stage(checkout, name)
    assert done.returncode == 2, done.stderr
    assert "models/candidates/onnxruntime/candidate.json changed since optimize wrote this folder" in last_line(done)


@pytest.mark.parametrize("name", ["benchmark", "package"])
def test_candidates_that_were_exchanged_and_sealed_again_after_they_were_proven_are_refused(benchmarked, copy_of, stage, name):
    checkout = copy_of(benchmarked)
    move_a_weight(checkout / "models/candidates/onnxruntime")
    sealed_again(checkout / "models/candidates")
    done = stage(checkout, name)
    assert done.returncode == 2, done.stderr
    assert "'models/parity' was made from another 'models/candidates' than is there now" in last_line(done)


def test_a_choice_of_another_candidate_than_was_measured_is_refused(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    choice = checkout / "models/benchmark/choice.json"
    choice.write_text(json.dumps(json.loads(choice.read_text()) | {"digest": "0" * 64}))
    sealed_again(choice.parent)
    done = stage(checkout, "package")
    assert done.returncode == 2, done.stderr
    assert "benchmark recorded 000000000000" in last_line(done)


def test_an_exported_program_that_claims_other_classes_is_refused_by_optimize(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    about = checkout / "models/exported/candidate.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"classes": ["b", "a"]}))
    sealed_again(about.parent)
    done = stage(checkout, "optimize")
    assert done.returncode == 2, done.stderr
    assert "has classes ['b', 'a'], but data.classes says []" in last_line(done)


def test_a_candidate_that_prepares_its_inputs_in_another_way_is_told_as_it_is_found(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, optimize={"candidates": ["paddle"]})
    about = checkout / "models/candidates/paddle/candidate.json"
    values = json.loads(about.read_text())
    about.write_text(json.dumps(values | {"preprocess": {**values["preprocess"], "another": 1}}))
    noted_as_made(checkout, "paddle")
    done = stage(checkout, "verify")
    assert done.returncode == 3, done.stderr
    assert "paddle: error: preprocess-differs: " in done.stdout


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_batch": 256}, "has max_batch 256, but verify.max_batch says 8"),
        ({"dimensions": [{"name": "length", "low": 1, "high": 9, "multiple_of": 1}]}, "but the prepared data says []"),
    ],
)
def test_a_program_that_takes_more_than_is_about_to_be_proven_is_refused(benchmarked, copy_of, stage, changes, words):
    checkout = copy_of(benchmarked)
    about = checkout / "models/exported/candidate.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | changes))
    sealed_again(about.parent)
    done = stage(checkout, "optimize")
    assert done.returncode == 2, done.stderr
    assert words in last_line(done)


def test_a_benchmark_of_nothing_proven_misses_its_gate_and_leaves_its_evidence(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    (checkout / "models/parity/passed.json").write_text("{}")
    sealed_again(checkout / "models/parity")
    done = stage(checkout, "benchmark")
    assert done.returncode == 3, done.stderr
    assert "measured_candidates is 0" in last_line(done)
    assert report(checkout, "benchmark")["candidates"]["eager"]["status"] == "measured"
    assert sorted(path.name for path in (checkout / "models/benchmark").iterdir()) == ["samples.json", "samples.parquet"]


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"optimize": {"threads": 4096}}, "optimize.threads is 4096"),
        ({"benchmark": {"batch_sizes": [1, 10**12]}}, "remove 1,000,000,000,000"),
        ({"benchmark": {"starts": 5, "blocks": 4}}, "blocks (got 4) must be at least starts (got 5)"),
        ({"select": {"candidate": "openvino"}}, "select.candidate 'openvino' is not proven (proven: paddle,"),
    ],
)
def test_what_a_benchmark_cannot_do_is_refused_at_once(benchmarked, copy_of, stage, sections, words):
    checkout = copy_of(benchmarked, **sections)
    before = (checkout / "reports/benchmark.json").read_bytes()
    done = stage(checkout, "benchmark")
    assert done.returncode == 2, done.stderr
    assert words in last_line(done)
    assert (checkout / "reports/benchmark.json").read_bytes() == before

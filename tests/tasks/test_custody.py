"""What is proven is what was trained: each stage refuses data, code, params and weights other than those of the stages before it."""

import importlib.util
import json
import marshal
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from paddleship.config import loading
from paddleship.custody import chain, libraries, seals
from paddleship.errors import BadInput
from paddleship.shipped.computing.files import sha256
from tests.tasks.conftest import edit_params
from tests.tasks.sealing import sealed_again


def refusal(done, *, code=2):
    """The one line that a stage refused with."""
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def edit_code(checkout):
    path = checkout / "examples/linear/model.py"
    path.write_text(path.read_text() + "\n# another activation would be here\n")


def edit_schema(checkout):
    path = checkout / "data/prepared/schema.json"
    path.write_text(path.read_text().replace('"pad": 0', '"pad": 1', 1) + " ")


def spoil(checkout):
    """Change the weights of the checkpoint, with their hash."""
    path = checkout / "models/checkpoint/weights.safetensors"
    save_file({name: np.ascontiguousarray(array[::-1]) * -1 for name, array in load_file(path).items()}, path)
    facts = checkout / "models/checkpoint/checkpoint.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"weights_sha256": sha256(path)}))


LATER = ("export", "optimize", "verify", "benchmark", "package")


@pytest.mark.parametrize("stage_name", LATER)
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (edit_code, "the hash of the code in code.watch is "),
        (edit_schema, "data/prepared/schema.json changed since prepare wrote this folder"),
        (spoil, "models/checkpoint/checkpoint.json changed since train wrote this folder"),
        (lambda checkout: edit_params(checkout, train={"learning_rate": 0.5}), "train.learning_rate is 0.5, but train ran with "),
        (lambda checkout: edit_params(checkout, data={"test": 0.25}), "data.test is 0.25, but prepare ran with "),
        (lambda checkout: edit_params(checkout, model={"kwargs": {"features": 3}}), "model.kwargs is {'features': 3}, but train ran with "),
        (lambda checkout: shutil.rmtree(checkout / "data/prepared"), "seal.json' cannot be read (No such file or directory)"),
        (
            lambda checkout: (checkout / "models/checkpoint/more").write_text(""),
            "models/checkpoint/more was added since train wrote this folder",
        ),
    ],
)
def test_what_changed_after_training_is_refused_as_every_later_stage_begins(benchmarked, copy_of, monkeypatch, stage_name, damage, words):
    checkout = copy_of(benchmarked)
    damage(checkout)
    monkeypatch.chdir(checkout)
    with pytest.raises(BadInput) as refused:
        chain.begin(loading.load(Path("params.yaml")), stage_name, versions=libraries.versions())
    assert words in str(refused.value)
    assert "run `paddleship run --again " in str(refused.value)


@pytest.mark.parametrize("stage_name", LATER)
def test_every_later_stage_refuses_rows_that_changed(benchmarked, copy_of, stage, stage_name):
    checkout = copy_of(benchmarked)
    edit_schema(checkout)
    assert "data/prepared/schema.json changed since prepare wrote this folder" in refusal(stage(checkout, stage_name))


@pytest.mark.parametrize(("folder", "made", "later"), [("data/prepared", "prepare", "train"), ("models/checkpoint", "train", "export")])
def test_an_out_that_was_sealed_again_after_the_next_stage_read_it_is_refused(benchmarked, copy_of, stage, folder, made, later):
    checkout = copy_of(benchmarked)
    (checkout / folder / "more").write_text("")
    sealed_again(checkout / folder)
    line = refusal(stage(checkout, "optimize"))
    assert f"was made from another '{folder}' than is there now: {made} ran again, or a file was replaced" in line
    assert f"run `paddleship run --again {later}`" in line


def test_a_checkpoint_that_was_sealed_again_before_export_is_refused_by_its_score(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    spoil(checkout)
    sealed_again(checkout / "models/checkpoint")
    for name in ("export", "optimize"):
        assert stage(checkout, name).returncode == 0
    line = refusal(stage(checkout, "verify"), code=3)
    assert "rescored_validation_difference" in line
    assert "checkpoint, code, data or classes are not those of the training; run `paddleship run --again train`" in line
    assert json.loads((checkout / "models/parity/passed.json").read_text()) == {}


def test_a_checkpoint_whose_recorded_scores_were_edited_too_misses_the_gate_of_training(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, train={"min_score": None})
    spoil(checkout)
    sealed_again(checkout / "models/checkpoint", {"params": {"train.min_score": None}})
    for name, code in (("export", 0), ("optimize", 0), ("verify", 3)):
        assert stage(checkout, name).returncode == code
    rescored = json.loads((checkout / "reports/verify.json").read_text())["facts"]["rescored"]
    facts = checkout / "models/checkpoint/checkpoint.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"scores": {one["split"]: one["now"] for one in rescored}}))
    sealed_again(checkout / "models/checkpoint", {"params": {"train.min_score": 0.5}})
    edit_params(checkout, train={"min_score": 0.5})
    for name in ("export", "optimize"):
        assert stage(checkout, name).returncode == 0
    line = refusal(stage(checkout, "verify"), code=3)
    assert "rescored_validation is " in line
    assert "difference" not in line


def test_proofs_under_other_limits_than_are_set_now_are_refused(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, verify={"noise_limit": 4.0})
    assert "verify.noise_limit is 4.0, but verify ran with " in refusal(stage(checkout, "benchmark"))


def test_a_time_limit_may_be_changed_without_making_an_out_again(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, verify={"timeout_s": 200.0}, optimize={"timeout_s": 200.0})
    done = stage(checkout, "verify")
    assert done.returncode == 0, done.stderr


def test_candidates_of_other_library_versions_are_refused(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    versions = seals.read(checkout / "models/candidates", "optimize").versions
    sealed_again(checkout / "models/candidates", {"versions": versions | {"onnxruntime": "1.0.0"}})
    line = refusal(stage(checkout, "verify"))
    assert "the version of onnxruntime is '" in line
    assert "but optimize ran with '1.0.0'" in line


def test_a_seal_covers_each_file_of_an_out(benchmarked):
    for folder in ("data/prepared", "models/checkpoint", "models/exported", "models/candidates", "models/parity", "models/benchmark"):
        found = benchmarked / folder
        covered = json.loads((found / seals.FILE).read_text())["files"].keys()
        listed = {
            (path.parent / name).relative_to(found).as_posix()
            for path in found.rglob("candidate.json")
            for name in json.loads(path.read_text())["files"]
        }
        every = {path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file()}
        assert covered | listed | {seals.FILE} == every, folder


def edit_seal(checkout, folder, old, new):
    path = checkout / folder / seals.FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_one_value_edited_in_the_last_seal_is_refused(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, verify={"noise_limit": 4.0})
    edit_seal(checkout, "models/parity", '"verify.noise_limit": 8.0', '"verify.noise_limit": 4.0')
    assert "models/parity/seal.json was edited" in refusal(stage(checkout, "benchmark"))


def test_limits_that_did_not_judge_are_refused_also_if_the_seal_has_them(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, verify={"noise_limit": 4.0})
    sealed_again(checkout / "models/parity", {"params": {"verify.noise_limit": 4.0}})
    assert "by limits.json, verify.noise_limit is 4.0, but verify ran with 8.0" in refusal(stage(checkout, "benchmark"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": {}}, "names nothing as its inputs, but verify reads export, optimize, prepare, train"),
        ({"versions": {}}, "but verify ran with 'not recorded'"),
        ({"code_sha256": ""}, "the hash of the code in code.watch is "),
    ],
)
def test_a_seal_without_all_that_its_stage_depends_on_is_refused(benchmarked, copy_of, stage, changes, words):
    checkout = copy_of(benchmarked)
    sealed_again(checkout / "models/parity", changes)
    assert words in refusal(stage(checkout, "benchmark"))


def test_rows_of_other_code_are_refused_by_the_training(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    edit_code(checkout)
    assert "but prepare ran with " in refusal(stage(checkout, "train"))


@pytest.mark.parametrize(
    ("name", "sections", "words"),
    [
        ("benchmark", {"train": {"min_score": 0.999}}, "train.min_score is 0.999, but train ran with "),
        ("package", {"verify": {"fail_on": ["disturbed"]}}, "verify.fail_on is ['disturbed'], but prepare ran with []"),
        ("package", {"benchmark": {"slo_p99_ms": 0.001}}, "benchmark.slo_p99_ms is 0.001, but benchmark ran with "),
    ],
)
def test_a_gate_that_was_changed_after_it_judged_asks_for_its_stage_again(benchmarked, copy_of, stage, name, sections, words):
    assert words in refusal(stage(copy_of(benchmarked, **sections), name))


def test_an_out_that_missed_a_gate_is_not_read(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked, benchmark={"slo_p99_ms": 1e-6})
    refusal(stage(checkout, "benchmark"), code=3)
    assert "models/benchmark/seal.json' cannot be read" in refusal(stage(checkout, "package"))


def test_a_compiled_module_that_its_source_does_not_give_is_not_run(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    source = checkout / "examples/linear/model.py"
    code = compile("raise SystemExit('the compiled module ran')", str(source), "exec")
    compiled = Path(importlib.util.cache_from_source(source))
    compiled.parent.mkdir(exist_ok=True)
    times = struct.pack("<III", 0, int(source.stat().st_mtime), source.stat().st_size)
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + times + marshal.dumps(code))
    done = stage(checkout, "export")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["benchmark", "package"])
def test_a_changed_file_of_a_proven_candidate_is_refused_whoever_else_could_win(benchmarked, copy_of, stage, name):
    checkout = copy_of(benchmarked)
    path = checkout / "models/candidates/onnxruntime/model.onnx"
    path.write_bytes(path.read_bytes() + b"0")
    assert "model.onnx" in refusal(stage(checkout, name))


def test_a_benchmark_that_other_load_disturbed_cannot_be_called_valid(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    choice = checkout / "models/benchmark/choice.json"
    values = json.loads(choice.read_text())
    choice.write_text(json.dumps(values | {"benchmark_valid": not values["benchmark_valid"]}))
    sealed_again(choice.parent)
    assert f"choice.json has benchmark_valid {not values['benchmark_valid']}, but " in refusal(stage(checkout, "package"))


def test_a_candidate_with_more_threads_than_params_allow_is_refused(benchmarked, copy_of, stage):
    checkout = copy_of(benchmarked)
    about = checkout / "models/candidates/onnxruntime/candidate.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"threads": 64}))
    sealed_again(checkout / "models/candidates")
    assert "has 64 threads, but optimize.threads is " in refusal(stage(checkout, "verify"))

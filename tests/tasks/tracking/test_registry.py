"""The winner as a version of a registered model."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from paddleship.errors import CandidateError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.tracking import registry
from tests.paddleship.shipped.serving.candidates import make_pictures
from tests.pictures import drawn, encoded
from tests.tasks.tracking.helpers import client

AT = "2026-01-01T00:00:0{}+00:00"


@pytest.fixture
def winner(tmp_path):
    """A candidate of two inputs that adds them, and the release that names it."""
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path / "winner"
    folder.mkdir()
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in ("a", "b", "total")]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["total"])], "model", values[:2], values[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    a, b, total = (TensorSpec(name, "float32", ("batch", 2)) for name in ("a", "b", "total"))
    facts = {"preprocess": {"kind": "tensors"}, "weights_sha256": "0" * 64, "task": "classification", "sources": {"total": 0}}
    candidate = Candidate(
        name="onnxruntime",
        model="reviews",
        runtime="onnxruntime",
        precision="float32",
        threads=1,
        inputs=(a, b),
        outputs=(total,),
        classes=("left", "right"),
        **facts,
    ).save(folder)
    release = tmp_path / "release.json"
    names = ("candidate", "image", "image_id", "git_commit", "data_sha256", "measured_on", "benchmark_valid")
    facts = {
        "model": "reviews",
        "runtime": "onnxruntime",
        "candidate_digest": candidate.digest,
        "accepted": True,
        "judged_at": AT.format(1),
        "image_bytes": 213e6,
        "speedup": 9.9,
        "speedup_low": 9.6,
        "speedup_high": 10.2,
    }
    release.write_text(json.dumps(facts | dict.fromkeys(names, "x")))
    return folder, release


def register(start, store, winner):
    tracker = start(store)
    version = tracker.register(*winner)
    tracker.finish()
    return version


def challenger(store):
    return int(client(store).get_model_version_by_alias("reviews", "challenger").version)


def test_the_winner_is_registered_once_and_found_again(start, store, winner):
    assert register(start, store, winner) == "reviews version 1 (challenger)"
    assert register(start, store, winner) == "reviews version 1 (challenger)"
    assert client(store).get_model_version_by_alias("reviews", "challenger").tags["git_commit"] == "x"


def test_text_beside_numbers_is_described_as_columns(winner):
    from mlflow.models.utils import _enforce_schema

    candidate = Candidate.load(winner[0])
    ids, price, flags = (
        TensorSpec("ids", "int64", ("batch", "n")),
        TensorSpec("price", "float32", ("batch",)),
        TensorSpec("b", "bool", ("batch", 2)),
    )
    inputs = {
        "ids": {"kind": "characters", "column": "title"},
        "price": {"kind": "numbers", "column": "price", "mean": [0.0], "deviation": [1.0]},
    }
    mixed = replace(candidate, inputs=(ids, price, flags), preprocess={"inputs": inputs})
    signature, example = registry._signature(mixed), registry._example(mixed)
    assert [(one.name, str(one.type)) for one in signature.inputs] == [
        ("title", "DataType.string"),
        ("price", "DataType.double"),
        ("b", "Array(boolean)"),
    ]
    taken = _enforce_schema(example, signature.inputs)
    assert list(taken) == ["title", "price", "b"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # as in registry._create
def test_pictures_are_described_as_binary_and_answered_from_bytes(tmp_path):
    from mlflow import pyfunc

    folder = make_pictures(tmp_path / "candidate")
    signature = registry._signature(Candidate.load(folder))
    assert [(item.name, item.type.name) for item in signature.inputs.inputs] == [("photo", "binary")]
    assert registry._example(Candidate.load(folder)) is None
    code = str(Path(registry.__file__).with_name("pyfunc_model.py"))
    saved = str(tmp_path / "model")
    pyfunc.save_model(path=saved, python_model=code, artifacts={"candidate": str(folder)}, signature=signature, pip_requirements=[])
    photos = [encoded(drawn(seed=seed), "JPEG") for seed in range(5)]
    assert pyfunc.load_model(saved).predict({"photo": photos})["pixels"].shape == (5, 3, 8, 8)


def test_a_version_begins_with_the_verdict_of_its_run_and_says_why_it_was_chosen(start, store, winner, reports):
    tracker = start(store)
    for report in reports[0]:
        disturbed = report.model_copy(update={"facts": report.facts | {"benchmark_valid": False}})
        disturbed.write(reports[1])
        tracker.log_report(disturbed, reports[1], cached=False)
    change(winner, candidate="onnxruntime")
    tracker.register(*winner)
    tracker.finish()
    description = client(store).get_model_version("reviews", "1").description
    assert description.startswith("**Not proven: the reports of prepare, export, optimize, verify are missing.** ")
    assert "Chosen because it has the best p50_ms." in description.splitlines()[0]
    assert "Training: learned." in description
    assert f"/runs/{tracker.run_id}?" in description
    assert "Findings" not in description


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "* benchmark: **warning** `imprecise`: only 1 of 3 starts was measured. raise benchmark.max_seconds"),
        (100, "100 findings, see the run."),
    ],
)
def test_a_version_lists_the_warnings_of_its_run_if_mlflow_takes_them(start, store, winner, reports, count, words):
    tracker = start(store)
    for report in reports[0]:
        if report.stage == "benchmark":
            warning = Finding("imprecise", "warning", "only 1 of 3 starts was measured", "raise benchmark.max_seconds")
            report.findings += [warning] * count
            report.write(reports[1])
        tracker.log_report(report, reports[1], cached=False)
    tracker.register(*winner)
    tracker.finish()
    description = client(store).get_model_version("reviews", "1").description
    assert words in description
    assert len(description) <= 5000


def test_a_version_shows_the_picture_that_its_run_keeps(start, store, winner, reports):
    tracker = start(store)
    for report in reports[0]:
        tracker.log_report(report, reports[1], cached=False)
    tracker.register(*winner)
    tracker.finish()
    picture = re.search(r"!\[.+\]\((.+)\)", client(store).get_model_version("reviews", "1").description)
    address = urlsplit(picture.group(1))
    where = dict(parse_qsl(address.query))
    assert (address.path, where["run_uuid"]) == ("get-artifact", tracker.run_id)
    kept = client(store).download_artifacts(tracker.run_id, where["path"], str(reports[1]))
    assert Path(kept).read_bytes() == (reports[1] / "benchmark" / "latency.png").read_bytes()


def another(winner, **changed):
    """A release of another candidate in the place of the first one."""
    candidate = Candidate.load(winner[0])
    made = Candidate(**{**candidate.__dict__, "threads": candidate.threads + 1}).save(winner[0])
    change(winner, candidate_digest=made.digest, image_id=made.digest, **changed)


def change(winner, **changed):
    winner[1].write_text(json.dumps(json.loads(winner[1].read_text()) | changed))


def test_another_candidate_becomes_the_next_version(start, store, winner):
    register(start, store, winner)
    another(winner, judged_at=AT.format(2))
    assert register(start, store, winner) == "reviews version 2 (challenger)"


def test_the_challenger_is_the_one_accepted_last_in_whatever_order_runs_end(start, store, winner):
    another(winner, judged_at=AT.format(2))
    register(start, store, winner)
    another(winner, judged_at=AT.format(1))
    assert register(start, store, winner) == "reviews version 2"
    assert challenger(store) == 1


def test_a_run_that_changed_nothing_moves_nothing(start, store, winner):
    first = winner[1].read_text()
    register(start, store, winner)
    another(winner, judged_at=AT.format(2))
    register(start, store, winner)
    candidate = Candidate.load(winner[0])
    Candidate(**{**candidate.__dict__, "threads": 1}).save(winner[0])
    winner[1].write_text(first)
    assert register(start, store, winner) == "reviews version 1"
    assert challenger(store) == 2


def test_the_alias_is_right_when_another_run_moves_it_in_between(start, store, winner):
    register(start, store, winner)
    another(winner, judged_at=AT.format(3))
    register(start, store, winner)
    api, others = client(store), ["1"]

    class Slow:
        """Another run that registers at the same time sets its older version between our move and our second look."""

        def __getattr__(self, name):
            return getattr(api, name)

        def set_registered_model_alias(self, name, alias, version):
            api.set_registered_model_alias(name, alias, others.pop() if others else version)

    api.set_registered_model_alias("reviews", "challenger", "1")
    assert registry.register(Slow(), "", winner[0], json.loads(winner[1].read_text())) == "reviews version 2 (challenger)"
    assert not others
    assert challenger(store) == 2


def test_two_runs_that_register_one_image_at_the_same_time_make_one_version(start, store, winner):
    api, release, others = client(store), json.loads(winner[1].read_text()), []
    runs = [start(store).run_id for _ in range(2)]

    class Slow:
        """Another run registers the same image after we found no version of it."""

        def __getattr__(self, name):
            return getattr(api, name)

        def create_model_version(self, *given, **named):
            others.append(registry.register(api, runs[1], winner[0], release))
            return api.create_model_version(*given, **named)

    assert registry.register(Slow(), runs[0], winner[0], release) == "reviews version 1 (challenger)"
    assert others == ["reviews version 1 (challenger)"]
    assert [int(version.version) for version in api.search_model_versions("name = 'reviews'")] == [1]


def test_what_was_refused_is_never_registered(start, store, winner):
    change(winner, accepted=False)
    with pytest.raises(CandidateError, match="x was refused by accept"):
        registry.register(client(store), "", winner[0], json.loads(winner[1].read_text()))


@pytest.mark.parametrize(("second", "is_challenger"), [(2, 2), (0, 1)])
def test_the_same_candidate_in_another_image_is_a_version_of_its_own(start, store, winner, second, is_challenger):
    register(start, store, winner)
    change(winner, image_id="another", judged_at=AT.format(second))
    register(start, store, winner)
    assert [client(store).get_model_version("reviews", number).tags["image_id"] for number in ("1", "2")] == ["x", "another"]
    assert challenger(store) == is_challenger


def test_a_version_says_what_goes_in_and_comes_out(start, store, winner):
    from mlflow.models import get_model_info

    register(start, store, winner)
    api = client(store)
    place = api.get_run(api.get_model_version("reviews", "1").run_id).info.artifact_uri
    info = get_model_info(f"{place.removeprefix('file://')}/model")
    assert info.signature.inputs.input_names() == ["a", "b"]
    assert info.signature.outputs.input_names() == ["total"]
    assert info.saved_input_example_info is not None


def test_a_registered_model_answers_without_this_project(start, store, winner, tmp_path):
    register(start, store, winner)
    code = (
        "import json, sys, mlflow, numpy as np; model = mlflow.pyfunc.load_model('models:/reviews@challenger'); "
        "answer = model.predict({'a': np.float32([[1, 2]]), 'b': np.float32([[3, 5]])}); "
        "import paddleship; print(json.dumps([answer['total'].tolist(), answer['label'], paddleship.__file__]))"
    )
    away = tmp_path / "away"
    away.mkdir()
    environment = {**os.environ, "MLFLOW_TRACKING_URI": store, "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    done = subprocess.run([sys.executable, "-c", code], cwd=away, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    total, label, origin = json.loads(done.stdout.splitlines()[-1])
    assert total == [[4.0, 7.0]]
    assert label == ["right"]
    assert not origin.startswith(str(Path(__file__).parents[2]))
    assert np.asarray(total).shape == (1, 2)
    shutil.rmtree(away)

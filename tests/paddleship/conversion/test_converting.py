"""Candidates of small exported models in every runtime: what is made, what is a row with its reason, and what is shared."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from paddleship.config.catalogue import kinds
from paddleship.conversion import converting
from paddleship.errors import CandidateError
from paddleship.model.eager import Eager
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from tests.paddleship.conversion.helpers import ask, batch

INT8 = [name for name, kind in kinds().items() if kind.precision == "int8" and kind.packages]
PLAIN = [name for name, kind in kinds().items() if kind.precision == "float32" and kind.packages and not kind.unavailable()]


@pytest.mark.parametrize(("name", "candidates"), [("Pair", [*PLAIN, *INT8]), ("Pictures", ["onnxruntime-int8", "openvino-int8"])])
def test_candidates_are_made_and_answer_as_their_precision_allows(source_model_of, workshop_of, tmp_path, name, candidates):
    converter, asked = workshop_of(name), [batch(1, 91), batch(7, 92)]
    expected = ask(Eager, source_model_of(name), batches=asked)
    for candidate in candidates:
        outcome = converter.make(candidate, tmp_path / candidate)
        assert outcome.made, f"{candidate}: {outcome.reason}"
        made = Candidate.load(tmp_path / candidate)
        assert (made.runtime, made.precision) == (kinds()[candidate].runtime, kinds()[candidate].precision)
        for answer, right in zip(ask(runtimes.load, tmp_path / candidate, batches=asked), expected, strict=True):
            assert list(answer) == list(right)
            for key, array in right.items():
                assert (answer[key].shape, answer[key].dtype) == (array.shape, array.dtype)
                size = max(np.abs(one[key]).max() for one in expected)  # of one answer alone it may be next to 0
                loose = 0.3 * size if made.precision == "int8" else 1e-5
                np.testing.assert_allclose(answer[key], array, atol=loose, rtol=1e-5)


def test_the_conversion_to_onnx_is_done_once_and_shared(workshop_of, tmp_path):
    converter = workshop_of("Digits")
    for name in PLAIN:
        assert converter.make(name, tmp_path / name).made
    assert len({(tmp_path / name / "model.onnx").read_bytes() for name in PLAIN}) == 1
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["onnx"]


def test_an_operator_that_a_runtime_does_not_take_is_a_row_and_the_others_are_made(workshop_of, tmp_path):
    converter = workshop_of("Angles")
    rows = {name: converter.make(name, tmp_path / name) for name in ("onnxruntime", "paddle", "openvino", "openvino-int8")}
    assert [name for name, row in rows.items() if row.made] == ["paddle"]
    assert [path.name for path in tmp_path.iterdir() if path.name != "scratch"] == ["paddle"]


def test_a_program_that_the_converter_dies_of_is_tried_once_and_is_a_row_for_each_that_needs_it(workshop_of, tmp_path, monkeypatch):
    converter = workshop_of("Digits")
    monkeypatch.setattr(converting, "_to_onnx", crash)
    first = converter.make("onnxruntime", tmp_path / "onnxruntime")
    assert first.reason.startswith("the conversion to ONNX died of SIGABRT")
    monkeypatch.setattr(converting, "_to_onnx", hang)
    for name in ("openvino", "openvino-int8", "onnxruntime-int8"):
        assert converter.make(name, tmp_path / name).reason == first.reason


@pytest.mark.parametrize("name", ["onnxruntime-int8", "openvino"])
def test_a_model_of_fixed_sizes_has_one_program_for_each(source_model_of, workshop_of, tmp_path, name):
    converter = workshop_of("Rows", sizes={"batch": [1, 4]})
    outcome = converter.make(name, tmp_path / name)
    assert outcome.made, outcome.reason
    assert len(Candidate.load(tmp_path / name).programs) == 2
    asked = [batch(1, 91), batch(3, 92), batch(9, 93)]
    expected = ask(Eager, source_model_of("Rows"), batches=asked)
    for answer, right in zip(ask(runtimes.load, tmp_path / name, batches=asked), expected, strict=True):
        (array,), (exact,) = answer.values(), right.values()
        np.testing.assert_allclose(array, exact, atol=0.3 * np.abs(exact).max())


@pytest.mark.parametrize("candidate", ["openvino", "openvino-int8"])
def test_a_program_for_single_rows_answers_as_the_one_that_takes_every_batch(workshop_of, tmp_path, candidate):
    folder = tmp_path / candidate
    assert workshop_of("Pair").make(candidate, folder).made
    asked = [batch(1, 91), batch(7, 92), batch(1, 93)]
    general, both = (ask(partial(runtimes.load, options={"single_row_program": value}), folder, batches=asked) for value in (False, True))
    for one, other in zip(general, both, strict=True):
        for key, array in one.items():
            np.testing.assert_allclose(other[key], array, rtol=1e-4, atol=1e-5, strict=True)


def test_a_program_for_single_rows_of_a_model_without_rows_is_refused(workshop_of, tmp_path):
    folder = tmp_path / "openvino"
    assert workshop_of("Digits").make("openvino", folder).made
    made = Candidate.load(folder)
    replace(made, inputs=(replace(made.inputs[0], shape=(1, 16)),), options={**made.options, "single_row_program": True}).save(folder)
    with pytest.raises(CandidateError, match="no input counts rows"):
        ask(runtimes.load, folder, batches=[batch(1)])


def hang(source, target, batches):
    time.sleep(60)


def crash(source, target, batches):
    os.abort()


def install(source, target, batches):
    subprocess.run([sys.executable, "-m", "pip", "install", "nothing"], check=False)


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (hang, "did not answer in 5 s"),
        (crash, "the conversion to paddle died of SIGABRT"),
        (install, "would install packages at run time"),
    ],
    ids=["hangs", "crashes", "runs pip"],
)
def test_a_maker_that_misbehaves_is_a_row_and_leaves_nothing(workshop_of, tmp_path, monkeypatch, maker, words):
    monkeypatch.setattr(converting, "_copy", maker)
    outcome = workshop_of("Digits", timeout_s=5 if maker is hang else 100).make("paddle", tmp_path / "paddle")
    assert words in outcome.reason
    assert not (tmp_path / "paddle").exists()


def test_openvino_finds_nobody_to_report_to():
    script = (
        "import sys; from paddleship.shipped.computing.runtimes import openvino; talk = []; "
        "sys.addaudithook(lambda event, _: talk.append(event) if event.startswith(('socket.', 'urllib.')) else None); "
        "openvino.module(); import nncf; print(sys.modules['openvino_telemetry'], talk)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "[]"]

"""verify asks rows with missing numbers although no row of the data lacks any, and accept sends the same rows."""

import json

import numpy as np

from paddleship.config import loading
from paddleship.containers import image_test
from paddleship.proof.evidence import Evidence
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate


def test_what_accept_sends_is_what_verify_asked(linear_checkout_of, stage, monkeypatch):
    checkout = linear_checkout_of(
        "missing",
        preprocess={"kind": "tensors", "inputs": {"x": {"kind": "numbers", "missing": "mean"}}},
        optimize={"candidates": ["onnxruntime"]},
        verify={"samples": 8, "max_batch": 2},
    )
    for name in ("prepare", "train", "export", "optimize", "verify"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr
    monkeypatch.chdir(checkout)
    params, candidate = loading.load(checkout / "params.yaml"), Candidate.load(checkout / "models/candidates/onnxruntime")
    encoders = preprocess.build(candidate.preprocess, candidate.inputs)
    rows, evidence = image_test._rows(params, encoders), Evidence.load(checkout / params.paths.parity)
    cases = [case for case in evidence.cases if case.raw]
    assert [len(case.made) for case in cases if case.made] == [1, 2, 1]
    for case in cases:
        sent = rows.take(case.raw).columns
        np.testing.assert_array_equal(encoders.collate(encoders.encode(sent))["x"], case.inputs["x"])
        assert np.isnan(sent["x"]).any() == bool(case.made)
    assert json.loads((checkout / "reports/prepare.json").read_text())["facts"]["filled"]["x[0]"] == {"rows": 0, "share": 0.0}

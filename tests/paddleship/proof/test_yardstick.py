"""Eager that rounds as a GPU's TF32 does is refused as the unit of a proof: simulated on the CPU by rounding the inputs of products."""

import sys

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.config.sections.verify import Verify
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.proof import evidence, proving, yardstick
from paddleship.proof.cases import inputs
from paddleship.proof.yardstick import EagerArithmetic
from paddleship.shipped.computing.spec import TensorSpec

ON_CPU = EagerArithmetic("cpu")
SOURCE = """
import paddle
from paddle import nn

def rounded(x, bits):
    # to so many bits after the first, as Veltkamp splits a number; float64, the truth, stays as it is
    if bits >= 23 or x.dtype == paddle.float64:
        return x
    large = x * (2.0 ** (23 - bits) + 1)
    return large - (large - x)

class Network(nn.Layer):
    bits = 23

    def __init__(self):
        super().__init__()
        paddle.seed(0)
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x):
        x = nn.functional.relu(paddle.matmul(rounded(x, self.bits), rounded(self.first.weight, self.bits)))
        return nn.functional.relu(paddle.matmul(rounded(x, self.bits), rounded(self.second.weight, self.bits)))

class InTf32(Network):
    bits = 10

class InBfloat16(Network):
    bits = 7
"""


@pytest.fixture
def prove(tmp_path, monkeypatch):
    """Prove the exported form in memory of a network against itself."""
    (tmp_path / "their_arithmetic.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)

    def run(name, say=lambda _line: None):
        settings = Model(factory=f"their_arithmetic:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 16]}])
        building.save(building.build(settings), tmp_path / "checkpoint", {})
        cases = inputs.generate([item.spec() for item in settings.inputs], seed=0, max_batch=8)
        return proving.prove(SourceModel(settings, tmp_path / "checkpoint"), cases, {}, settings=Verify(timeout_s=100), say=say)

    yield run
    sys.modules.pop("their_arithmetic", None)


@pytest.mark.parametrize("name", ["InTf32", "InBfloat16"])
def test_a_reference_that_rounds_to_fewer_bits_is_refused_as_the_unit_of_a_proof(prove, name):
    proved = prove(name)
    assert not proved.sound
    (finding,) = [one for one in proved.findings if one.severity == "error"]
    assert (finding.kind, "\n" in finding.message) == ("inaccurate-reference", False)
    assert "× float32's rounding" in finding.message
    assert finding.advice.startswith("declare values that the model takes, because an index out of range reads other memory, or compute")


def test_in_that_unit_a_wrong_candidate_would_pass(prove, monkeypatch):
    """So without the refusal, TF32 as float32 would be proven: an answer that TF32 rounds otherwise is far from the truth."""
    honest, rounded = prove("Network").evidence, prove("InTf32").evidence
    assert rounded.noise["rows"]["output"].largest > 100 * honest.noise["rows"]["output"].largest
    monkeypatch.setattr(yardstick, "LARGEST", np.inf)
    proved = prove("InTf32")
    assert proved.sound
    assert proved.judgements["to_static"]


def test_an_honest_reference_is_a_unit_and_the_proof_says_where_it_computed(prove):
    proved = prove("Network")
    assert proved.sound
    assert str(proved.arithmetic) == "cpu, float32"


def half(matrix, bits):
    """A matrix with so many bits after the first."""
    large = matrix * np.float32(2 ** (23 - bits) + 1)
    return large - (large - matrix)


@pytest.mark.parametrize(("bits", "found"), [(10, True), (7, True), (23, False)], ids=["tf32", "bfloat16", "float32"])
def test_a_product_shows_whether_its_inputs_are_rounded(bits, found):
    assert yardstick.rounds(lambda one, other: (half(one, bits) if bits < 23 else one) @ other) is found


@pytest.mark.parametrize("operator", ["matmul", "conv2d"])
def test_a_product_or_a_convolution_of_paddle_that_rounds_is_named(monkeypatch, operator):
    owner = paddle if operator == "matmul" else paddle.nn.functional
    original = getattr(owner, operator)
    assert yardstick.measure() == ON_CPU
    monkeypatch.setattr(owner, operator, lambda one, other: original(paddle.to_tensor(half(one.numpy(), 10)), other))
    found = yardstick.measure()
    assert found.rounding == (("matrix products",) if operator == "matmul" else ("convolutions",))
    (finding,) = yardstick.findings(known(0), found)
    assert finding.message.startswith(f"eager computes on cpu, float32 with {found.rounding[0]} in TF32, so its own error")


def known(error):
    """Evidence in which the reference is off by a share of the scale, in every number."""
    random = np.random.default_rng(0)
    specs = [TensorSpec("x", "float32", ("batch", 2))]
    cases = inputs.generate(specs, seed=0, max_batch=4)
    truth = [{"y": random.normal(size=case.inputs["x"].shape)} for case in cases]
    scale = max(float(np.abs(answer["y"]).max()) for answer in truth)
    reference = [{"y": (answer["y"] + error * scale).astype(np.float32)} for answer in truth]
    return evidence.gather(cases, reference, truth)


@pytest.mark.parametrize(("error", "refused"), [(4e-6, False), (1e-4, False), (1.3e-4, True), (1e-2, True)])
def test_an_error_of_a_thousand_times_the_rounding_of_float32_is_refused(error, refused):
    assert [finding.kind for finding in yardstick.findings(known(error), ON_CPU)] == ["inaccurate-reference"] * refused


def test_a_single_number_that_float32_does_not_determine_is_no_reason():
    """Such as a choice between nearly equal values; the negative controls decide on those."""
    bare = known(0)
    reference = [{"y": answer["y"].copy()} for answer in bare.reference]
    reference[0]["y"].flat[0] += 1
    assert yardstick.findings(evidence.gather(bare.cases, reference, bare.truth), ON_CPU) == []


def test_the_reference_runs_in_a_process_in_which_nvidias_libraries_do_not_use_tf32(prove, monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    seen = []
    original = proving.reference.Isolated

    def start(*arguments, environment, **values):
        seen.append(environment)
        return original(*arguments, environment=environment, **values)

    monkeypatch.setattr(proving.reference, "Isolated", start)
    prove("Network")
    assert {one["NVIDIA_TF32_OVERRIDE"] for one in seen} == {"0"}

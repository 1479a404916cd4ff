"""ONNX Runtime on a GPU, as far as a machine without one can show: what is missing is named, and the graph code runs on the CPU.

What needs a GPU is in benchmarks/gpu.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import nvidia, onnx_runtime, onnx_runtime_cuda, registry
from paddleship.shipped.computing.runtimes.onnx_runtime_cuda import CapturingRuntime
from paddleship.shipped.computing.spec import TensorSpec

CAPI = Path(onnxruntime.__file__).parent / "capi"
PROVIDER_LIBRARIES = [CAPI / "libonnxruntime_providers_shared.so"]
WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def candidate(tmp_path):
    """A candidate that multiplies by WEIGHT, for any precision."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 4), ("y", 3))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "model", ends[:1], ends[1:], [numpy_helper.from_array(WEIGHT, "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    specs = [TensorSpec(name, "float32", ("batch", size)) for name, size in (("x", 4), ("y", 3))]
    return Candidate(
        "one", "m", "onnxruntime-cuda", "float32", 1, (specs[0],), (specs[1],), {"kind": "tensors"}, "", sources={"y": 0}
    ).save(tmp_path)


@pytest.fixture
def session(candidate, tmp_path):
    return onnx_runtime.session(tmp_path, candidate, "CPUExecutionProvider")


def library(folder, needed):
    """A copy of a real library that needs another one instead of libstdc++."""
    content = PROVIDER_LIBRARIES[0].read_bytes()
    own = b"libstdc++.so.6\0"
    assert content.count(own) == 1
    path = folder / "libprovider.so"
    path.write_bytes(content.replace(own, needed.encode().ljust(len(own), b"\0")))
    return path


@pytest.mark.parametrize(
    ("needed", "words"),
    [
        (
            "libcufft.so.12",
            r"libcufft\.so\.12 is missing: it is in the package nvidia-cufft: install it with `make clean setup RUNTIME=cuda`",
        ),
        ("libcuda.so.1", r"libcuda\.so\.1 is missing: it belongs to NVIDIA's driver: .*`--gpus all`"),
        (
            "libnvinfer.so",
            r"libnvinfer\.so is missing: it belongs to TensorRT: install what docker/requirements/onnxruntime-tensorrt\.txt pins",
        ),
        ("libother.so.1", r"libother\.so\.1 is missing: install the package that has it"),
    ],
)
def test_a_missing_library_is_named_with_the_package_that_has_it(tmp_path, needed, words):
    assert nvidia.why_not_loaded(PROVIDER_LIBRARIES) == ""
    why = nvidia.why_not_loaded([*PROVIDER_LIBRARIES, library(tmp_path, needed)])
    assert re.fullmatch(words, why), why


def test_a_silent_fall_back_to_the_cpu_is_an_error_that_names_what_is_missing(tmp_path):
    own = onnx_runtime_cuda.libraries(tmp_path, "cuda")
    onnx_runtime_cuda.require_provider([onnx_runtime_cuda.PROVIDER, "CPUExecutionProvider"], own)
    library(tmp_path, "libcuda.so.1").rename(tmp_path / "libonnxruntime_providers_cuda.so")
    (tmp_path / "libonnxruntime_providers_shared.so").write_bytes(PROVIDER_LIBRARIES[0].read_bytes())
    words = r"fell back from CUDAExecutionProvider to CPUExecutionProvider, because libcuda\.so\.1 is missing"
    with pytest.raises(CandidateError, match=words):
        onnx_runtime_cuda.require_provider(["CPUExecutionProvider"], own)


def test_where_all_libraries_load_and_there_is_no_gpu_that_is_the_reason(tmp_path, monkeypatch):
    for name in ("shared", "cuda"):
        (tmp_path / f"libonnxruntime_providers_{name}.so").write_bytes(PROVIDER_LIBRARIES[0].read_bytes())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(CandidateError, match="because CUDA_VISIBLE_DEVICES hides every GPU: unset it"):
        onnx_runtime_cuda.require_provider(["CPUExecutionProvider"], onnx_runtime_cuda.libraries(tmp_path, "cuda"))


@pytest.mark.skipif(onnx_runtime_cuda.PROVIDER in onnxruntime.get_available_providers(), reason="ONNX Runtime is built for GPUs")
def test_with_onnx_runtime_for_cpus_a_candidate_does_not_load_and_says_what_to_install(candidate, tmp_path):
    with pytest.raises(CandidateError, match=r"is built for CPUs: run `make clean setup RUNTIME=cuda`"):
        onnx_runtime_cuda.load(tmp_path, candidate)
    assert "is built for CPUs" in onnx_runtime_cuda.unavailable()


def test_a_machine_without_a_gpu_has_a_reason(monkeypatch):
    if not nvidia.no_gpu():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(onnx_runtime_cuda, "distribution", str)
    assert "use a machine with an NVIDIA GPU and its driver" in onnx_runtime_cuda.unavailable()


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_a_reason(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert nvidia.no_gpu() == "CUDA_VISIBLE_DEVICES hides every GPU: unset it"


def test_only_the_precision_tf32_lets_the_provider_use_it():
    registered = registry.get("onnxruntime-cuda").registration
    used = {}
    for name, kind in registered.candidates.items():
        described = SimpleNamespace(precision=kind.precision, options=kind.options)
        used[name] = onnx_runtime_cuda.provider_options(described)
    assert {name for name, options in used.items() if options["use_tf32"] != "0"} == {"onnxruntime-cuda-tf32"}
    assert {name for name, options in used.items() if options["enable_cuda_graph"] != "0"} == {"onnxruntime-cuda-graph"}
    assert all(options["cudnn_conv_algo_search"] != "EXHAUSTIVE" for options in used.values())


def rows(count, seed=0):
    return {"x": np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)}


class Counting:
    """A session that counts its runs, and refuses to capture graphs with the ids in `refusing`."""

    def __init__(self, session, refusing=()):
        self._session, self._refusing, self.plain, self.bound = session, refusing, 0, []

    def __getattr__(self, name):
        return getattr(self._session, name)

    def run(self, names, inputs, options):
        assert options.get_run_config_entry("gpu_graph_id") == "-1"
        self.plain += 1
        return self._session.run(names, inputs, options)

    def run_with_iobinding(self, binding, options):
        graph = options.get_run_config_entry("gpu_graph_id")
        if graph in self._refusing:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.bound.append(graph)
        self._session.run_with_iobinding(binding, options)


def test_each_shape_is_captured_once_and_then_replayed_with_new_numbers(session, candidate):
    counting = Counting(session)
    runtime = CapturingRuntime(counting, candidate, device="cpu")
    for count, seed in ((2, 0), (5, 1), (2, 2), (5, 3), (2, 4)):
        answer = runtime.run(rows(count, seed))["y"]
        np.testing.assert_allclose(answer, rows(count, seed)["x"] @ WEIGHT, rtol=1e-5)
    assert (counting.plain, counting.bound) == (2, ["0", "1", "0", "1", "0"])


def test_an_answer_is_not_overwritten_by_the_next_one(session, candidate):
    runtime = CapturingRuntime(session, candidate, device="cpu")
    runtime.run(rows(2))
    first = runtime.run(rows(2, 1))["y"]
    before = first.copy()
    runtime.run(rows(2, 2))
    np.testing.assert_array_equal(first, before)


def test_a_program_that_cannot_be_captured_at_all_is_refused_with_the_reason(session, candidate):
    runtime = CapturingRuntime(Counting(session, refusing={"0"}), candidate, device="cpu")
    with pytest.raises(CandidateError, match=r"captures no CUDA graph .*`onnxruntime-cuda` runs it without \(operation not permitted"):
        runtime.run(rows(2))


def test_a_shape_that_cannot_be_captured_is_answered_without_a_graph_and_tried_once(session, candidate):
    counting = Counting(session, refusing={"1"})
    runtime = CapturingRuntime(counting, candidate, device="cpu")
    for count in (2, 3, 3, 2):
        np.testing.assert_allclose(runtime.run(rows(count))["y"], rows(count)["x"] @ WEIGHT, rtol=1e-5)
    assert (counting.plain, counting.bound) == (3, ["0", "0"])
    assert list(runtime.refused) == [((3, 4),)]


def test_shapes_beyond_the_most_and_empty_batches_are_answered_without_a_graph(session, candidate, monkeypatch):
    monkeypatch.setattr(onnx_runtime_cuda, "_MOST_GRAPHS", 1)
    counting = Counting(session)
    runtime = CapturingRuntime(counting, candidate, device="cpu")
    for count in (0, 2, 3, 3):
        assert runtime.run(rows(count))["y"].shape == (count, 3)
    assert (counting.plain, counting.bound) == (4, ["0"])

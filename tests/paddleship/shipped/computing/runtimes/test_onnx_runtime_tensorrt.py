"""TensorRT behind ONNX Runtime, as far as a machine without a GPU shows: sizes, options, the folder of an engine, who may use one."""

import os
import re
from dataclasses import replace

import pytest

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import nvidia, onnx_runtime, onnx_runtime_cuda, onnx_runtime_tensorrt
from paddleship.shipped.computing.spec import Dimension, TensorSpec

HERE = "NVIDIA-H200_driver-580.65.06_tensorrt-10.16.1.11"
IDS = TensorSpec("ids", "int64", ("batch", "length"))
PRICE = TensorSpec("price", "float32", ("batch", 3))
TEXT = Candidate(
    "onnxruntime-tensorrt",
    "shop",
    "onnxruntime-tensorrt",
    "float32",
    1,
    (IDS, PRICE),
    (),
    {},
    "",
    max_batch=32,
    dimensions=(Dimension("length", 10, 250, multiple_of=16),),
    warm_shapes=({"ids": [1, 32], "price": [1, 3]}, {"ids": [1, 96], "price": [1, 3]}),
)


def test_an_engine_takes_every_size_that_the_candidate_does_and_is_fastest_for_one_row_of_a_real_length():
    assert onnx_runtime_tensorrt.profiles(TEXT) == {
        "trt_profile_min_shapes": "ids:1x16,price:1x3",
        "trt_profile_opt_shapes": "ids:1x96,price:1x3",
        "trt_profile_max_shapes": "ids:32x240,price:32x3",
    }


def test_a_program_of_fixed_sizes_has_no_profile():
    fixed = replace(TEXT, inputs=(TensorSpec("ids", "int64", (4, 32)),), dimensions=())
    assert onnx_runtime_tensorrt.profiles(fixed) == {}


@pytest.mark.parametrize("dimensions", [(), (Dimension("length", 1, None),)])
def test_a_dimension_without_a_largest_size_is_refused_by_name(dimensions):
    with pytest.raises(CandidateError, match=r"TensorRT needs the largest size of 'length': give its range in model\.dimensions"):
        onnx_runtime_tensorrt.profiles(replace(TEXT, dimensions=dimensions))


def test_the_folder_of_an_engine_names_gpu_driver_and_version():
    assert onnx_runtime_tensorrt.place(["NVIDIA H200", "NVIDIA H200"], "580.65.06", "10.16.1.11") == HERE


@pytest.mark.parametrize(
    ("gpus", "driver", "words"),
    [
        ([], "580", "here is none whose name is known"),
        (["NVIDIA H200", "NVIDIA L4"], "580", "here is NVIDIA H200 and NVIDIA L4"),
        (["NVIDIA H200"], "", "here is NVIDIA H200"),
    ],
)
def test_no_engine_is_built_where_it_is_unknown_for_which_gpu_and_driver(gpus, driver, words):
    with pytest.raises(CandidateError, match=f"an engine of TensorRT is for one model of GPU, and {words}: use `onnxruntime-cuda`"):
        onnx_runtime_tensorrt.place(gpus, driver, "10")


@pytest.fixture
def asked(monkeypatch):
    """What ONNX Runtime is asked for, on a machine that has a GPU: the sessions, in order. It keeps an engine if it is to."""
    sessions = []

    class Session:
        def get_providers(self):
            return [onnx_runtime_tensorrt.PROVIDER]

        def get_inputs(self):
            return []

    def session(folder, candidate, provider, options, *, entries):
        sessions.append((folder, provider, dict(options), dict(entries), os.environ["NVIDIA_TF32_OVERRIDE"]))
        if (path := options.get("trt_ep_context_file_path")) and candidate.model != "partly":
            with open(path, "x") as file:  # noqa: PTH123 as ONNX Runtime does
                file.write("engine")
        return Session()

    monkeypatch.setattr(onnx_runtime, "session", session)
    monkeypatch.setattr(onnx_runtime_cuda, "require_build", lambda _provider: None)
    monkeypatch.setattr(nvidia, "names", lambda: ["NVIDIA H200"])
    monkeypatch.setattr(nvidia, "driver", lambda: "580.65.06")
    monkeypatch.setattr(onnx_runtime_tensorrt, "version", lambda _name: "10.16.1.11")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    return sessions


def test_the_first_load_builds_the_engine_in_float32_without_tf32_and_the_next_ones_only_read_it(asked, tmp_path):
    for _ in range(2):
        onnx_runtime_tensorrt.load(tmp_path, TEXT)
    assert [folder for folder, *_ in asked] == [tmp_path, tmp_path / "engines" / HERE, tmp_path / "engines" / HERE]
    assert all(tf32 == "0" for *_, tf32 in asked)
    for _, provider, options, entries, _ in asked:
        assert provider == "TensorrtExecutionProvider"
        assert {options[f"trt_{name}_enable"] for name in ("fp16", "bf16", "int8", "engine_cache")} == {"0"}
        assert entries == {"session.disable_cpu_ep_fallback": "1"}
    building, *reading = [options for _, _, options, *_ in asked]
    assert (building["trt_dump_ep_context_model"], building["trt_ep_context_embed_mode"]) == ("1", "1")
    assert building["trt_profile_max_shapes"] == "ids:32x240,price:32x3"
    assert not any("profile" in name or "context" in name for options in reading for name in options)
    assert [path.name for path in (tmp_path / "engines" / HERE).iterdir()] == ["model.onnx"]


def test_an_engine_of_another_machine_is_refused_and_none_is_built(asked, tmp_path, monkeypatch):
    onnx_runtime_tensorrt.load(tmp_path, TEXT)
    monkeypatch.setattr(nvidia, "driver", lambda: "590.1")
    words = re.escape(
        f"has an engine for {HERE}, and here is NVIDIA-H200_driver-590.1_tensorrt-10.16.1.11: TensorRT would build another one"
    )
    with pytest.raises(CandidateError, match=words):
        onnx_runtime_tensorrt.load(tmp_path, TEXT)
    assert len(asked) == 2


def test_a_program_of_which_tensorrt_takes_a_part_only_is_refused_and_leaves_nothing(asked, tmp_path):
    with pytest.raises(CandidateError, match=r"does not take the whole program \(ONNX Runtime kept no engine\): use `onnxruntime-cuda`"):
        onnx_runtime_tensorrt.load(tmp_path, replace(TEXT, model="partly"))
    assert len(asked) == 1
    assert not (tmp_path / "engines").exists()


def test_an_operator_that_would_run_on_the_cpu_is_refused_by_the_real_onnx_runtime(tmp_path, monkeypatch):
    """ONNX Runtime for CPUs replaces the provider by the CPU, which must not answer."""
    from benchmarks.gpu import overflow

    folder = overflow.program(tmp_path / "squares", "onnxruntime")
    monkeypatch.setattr(nvidia, "why_not_loaded", lambda _libraries: "")
    with pytest.raises(CandidateError, match=r"TensorRT does not take the whole program \(.*CPU"):
        onnx_runtime_tensorrt._session(folder, Candidate.load(folder), {})


def test_a_missing_library_of_tensorrt_is_the_reason(tmp_path):
    from benchmarks.gpu import overflow

    folder = overflow.program(tmp_path / "squares", "onnxruntime")
    with pytest.raises(
        CandidateError, match=r"ONNX Runtime has no TensorrtExecutionProvider, because .*libonnxruntime_providers_tensorrt\.so"
    ):
        onnx_runtime_tensorrt._session(folder, Candidate.load(folder), {})


def test_with_onnx_runtime_for_cpus_it_does_not_load():
    with pytest.raises(CandidateError, match="is built for CPUs"):
        onnx_runtime_tensorrt.load(None, TEXT)

import pytest

from paddleship.config import catalogue, optional_params
from paddleship.errors import ParamsError
from paddleship.shipped.computing.runtimes import nvidia, onnx_runtime_cuda, onnx_runtime_tensorrt, paddle_inference


@pytest.fixture
def only_base(monkeypatch):
    """As if the extras were not installed."""
    monkeypatch.setattr(catalogue, "installed", lambda package: package not in ("openvino", "nncf"))


def test_the_exported_program_and_the_eager_model_are_registered_and_the_program_comes_first():
    assert next(iter(catalogue.kinds())) == catalogue.PROGRAM
    assert catalogue.EAGER in catalogue.kinds()


def test_by_default_every_installed_candidate_takes_part_that_has_a_use_here_and_the_others_have_a_reason():
    absent = dict.fromkeys(("paddle-gpu", "paddle-tensorrt-fp16"), "this Paddle is built for CPUs") | {"paddle-pruned": "name it to try it"}
    on_gpu = [name for name in catalogue.kinds() if name.startswith(("onnxruntime-cuda", "onnxruntime-tensorrt"))]
    absent |= dict.fromkeys(on_gpu, "ONNX Runtime is built for CPUs")
    assert catalogue.chosen(None) == [name for name in catalogue.kinds() if name not in absent]
    reasons = catalogue.left_out(catalogue.chosen(None))
    assert list(reasons) == [name for name in catalogue.kinds() if name in absent]
    assert all(words in reasons[name] for name, words in absent.items())


@pytest.mark.parametrize(
    ("runtime", "names"),
    [
        (paddle_inference, {"paddle-gpu", "paddle-tensorrt-fp16"}),
        (onnx_runtime_cuda, {"onnxruntime-cuda", "onnxruntime-cuda-graph", "onnxruntime-cuda-tf32", "onnxruntime-cuda-float16"}),
    ],
)
def test_candidates_of_a_gpu_need_its_build_and_a_gpu_and_have_a_reason_without(monkeypatch, runtime, names):
    monkeypatch.setattr(runtime, "distribution", str)
    monkeypatch.setattr(nvidia, "no_gpu", lambda: "there is no GPU")
    assert not names & set(catalogue.chosen(None))
    assert {catalogue.left_out(["paddle"])[name] for name in names} == {"there is no GPU"}
    monkeypatch.setattr(nvidia, "no_gpu", lambda: "")
    assert names <= set(catalogue.chosen(None))


def test_tensorrt_is_left_out_where_it_is_not_installed_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(onnx_runtime_cuda, "distribution", str)
    monkeypatch.setattr(nvidia, "no_gpu", lambda: "")
    chosen = catalogue.chosen(None)
    assert "onnxruntime-tensorrt" not in chosen
    assert catalogue.left_out(chosen)["onnxruntime-tensorrt"].startswith("TensorRT is not installed: install tensorrt-cu13-libs, as")
    monkeypatch.setattr(onnx_runtime_tensorrt, "version", str)
    assert "onnxruntime-tensorrt" in catalogue.chosen(None)


def test_what_is_left_out_by_name_or_for_want_of_a_package_has_a_reason(only_base):
    reasons = catalogue.left_out(catalogue.chosen(["paddle", "paddle-pruned"]))
    assert set(reasons) == set(catalogue.kinds()) - {"paddle", "paddle-pruned"}
    assert reasons["openvino-int8"] == "openvino is not installed"
    assert "optimize.candidates" in reasons["onnxruntime"]


def test_without_an_extra_its_candidates_stay_away_by_default(only_base):
    assert not [name for name in catalogue.chosen(None) if name.startswith("openvino")]
    assert "onnxruntime-int8" in catalogue.chosen(None)


@pytest.mark.parametrize("name", ["openvino", "openvino-int8"])
def test_a_candidate_that_is_named_and_not_installed_names_the_extra(only_base, name):
    with pytest.raises(ParamsError, match=rf"names '{name}' and openvino is not installed: install the extra 'openvino'") as caught:
        catalogue.chosen(["paddle", name])
    assert caught.value.exit_code == 2


def test_half_an_extra_is_named_by_the_package_that_lacks(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda package: package != "nncf")
    with pytest.raises(ParamsError, match="nncf is not installed"):
        catalogue.chosen(["openvino-int8"])
    assert catalogue.chosen(["openvino"]) == ["openvino"]


def test_without_the_converter_no_candidate_made_from_onnx_takes_part_and_naming_one_says_which_python_has_it(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda package: package != "paddle2onnx")
    assert not [name for name in catalogue.chosen(None) if name.startswith(("onnxruntime", "openvino"))]
    assert catalogue.left_out(catalogue.chosen(None))["onnxruntime"] == "paddle2onnx is not installed"
    with pytest.raises(ParamsError, match=r"paddle2onnx is not installed: it has wheels for Python 3.11 and 3.12 \(`make setup"):
        catalogue.chosen(["onnxruntime"])


def test_a_name_twice_is_one_candidate():
    assert catalogue.chosen(["paddle", "onnxruntime", "paddle"]) == ["paddle", "onnxruntime"]


@pytest.mark.parametrize(("name", "words"), [("tensorrt", "paddle, "), ("openvno", "did you mean 'openvino'")])
def test_a_candidate_that_no_runtime_registers_is_refused_with_those_that_are(name, words):
    for refuse in (catalogue.require_known, catalogue.chosen):
        with pytest.raises(ParamsError, match=f"optimize.candidates names '{name}', which no runtime registers: .*{words}"):
            refuse(["paddle", name])


def test_a_form_offers_the_registered_candidates_and_still_every_key_is_optional():
    form = optional_params.overrides(list(catalogue.kinds()))
    assert form.model_validate({}).model_dump(exclude_unset=True) == {}
    schema = form.model_json_schema()
    (offered,) = [
        choice["items"]["enum"] for choice in schema["$defs"]["OptimizeOverrides"]["properties"]["candidates"]["anyOf"] if "items" in choice
    ]
    assert offered == list(catalogue.kinds())

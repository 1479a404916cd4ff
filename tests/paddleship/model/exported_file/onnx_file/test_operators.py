"""ONNX's own tests of its operators: each is answered right, or refused in one line by the operator's or the element type's name."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import paddle
import pytest
from google.protobuf.message import DecodeError
from onnx import numpy_helper
from onnx.backend import test as backend

from paddleship.errors import ModelError
from paddleship.model.exported_file.onnx_file.translating import Translation
from paddleship.shipped.computing import layers, program_layer

pytestmark = [
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim"),  # Paddle, where a shape is a tensor of one element
    pytest.mark.filterwarnings("ignore:Tensor do not have 'place'"),  # Paddle, where it writes a program
]
_LEFT_OUT = re.compile(r"training|adagrad|momentum|adam|_expanded|castlike_.*(BFLOAT16|FLOAT8)|int4$|(max|min)_empty_set")
"""Operators of training, the functions of others, types that numpy cannot write into a file, and the maximum of no element."""
_REFUSED = re.compile(
    r"((holds the operator|is quantised \(operator|computes in b?float16 \(operator) '(?P<operator>\w+)'"
    r"|holds '\w+' as \w+, which is not supported|takes '\w+' as|names opset \d+|is no valid ONNX model)"
)


@cache
def _cases():
    """The folders of the cases, by their names."""
    folder = Path(backend.__file__).parent / "data/node"
    return {case.name: case for case in sorted(folder.iterdir()) if not _LEFT_OUT.search(case.name)}


def _of_each_operator():
    """The case of each operator with the shortest name, which starts with that of the operator."""
    found = {}
    for name, case in sorted(_cases().items(), key=lambda one: len(one[0])):
        found.setdefault(name.split("_")[1], case)
    return found


def _arrays(case, kind, count):
    """Its arrays; None if it has values of other types: sequences, or none."""
    found = []
    for path in (case / "test_data_set_0" / f"{kind}_{index}.pb" for index in range(count)):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(path.read_bytes())
            found.append(numpy_helper.to_array(tensor))
        except (DecodeError, TypeError, ValueError):
            return None
    return found


def _with_constants(model, given):
    """Make all inputs but the first constants of the file, as in files that people export: axes, shapes and weights are."""
    for item, array in list(zip(model.graph.input, given, strict=True))[1:]:
        model.graph.initializer.append(numpy_helper.from_array(array, item.name))
        model.graph.input.remove(item)
    return given[:1]


def answers(path, given):
    """The answers of the layer of a file to these inputs, which are in the file's order."""
    try:
        translation = Translation(path)
        table, weights = translation.read({item["name"]: item["shape"] for item in translation.inputs()})
    finally:
        paddle.disable_static()
    layer = program_layer.build(table)
    assert layers.fill(layer, weights) == []
    layer.eval()
    with paddle.no_grad():
        result = layer(*map(paddle.to_tensor, given))
    return [tensor.numpy() for tensor in (result if isinstance(result, list | tuple) else [result])]


def _require_answers(case, path, *, constants):
    """Compare the answers of the layer with those of the case."""
    model = onnx.load(str(case / "model.onnx"))
    given = _arrays(case, "input", len(model.graph.input))
    if constants:
        given = _with_constants(model, given)
    onnx.save(model, str(path))
    expected = _arrays(case, "output", len(model.graph.output))
    for answer, other in zip(answers(path, given), expected, strict=True):
        assert (answer.shape, answer.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(answer, other, rtol=1e-3, atol=1e-5)


def _reason(line):
    assert len(line.splitlines()) == 1
    return re.search(_REFUSED, line)["operator"] or ""


def refusals(cases, path):
    """For each case that is refused the operator, or "" for another reason. Raises for a wrong answer, and for any other error."""
    found = {}
    for name, case in cases.items():
        for constants in (False, True):
            try:
                _require_answers(case, path, constants=constants)
                found.pop(name, None)
                break
            except ModelError as refused:
                found[name] = _reason(str(refused))
            if _arrays(case, "input", len(onnx.load(str(case / "model.onnx")).graph.input)) is None:
                break
    return found


def test_an_operator_answers_as_onnx_says_or_is_refused_by_name(tmp_path):
    cases = _of_each_operator()
    refused = refusals(cases, tmp_path / "model.onnx")
    assert len(cases) - len(refused) >= 130


@pytest.mark.long
def test_every_case_of_onnx_is_answered_right_or_refused_by_name(tmp_path):
    refused = refusals(_cases(), tmp_path / "model.onnx")
    assert len(_cases()) - len(refused) >= 660

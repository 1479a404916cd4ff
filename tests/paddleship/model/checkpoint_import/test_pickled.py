"""Files of paddle.save, read without running anything in them."""

import argparse
import os
import pickle
import subprocess
from collections import OrderedDict

import numpy as np
import paddle
import pytest

from paddleship.errors import ModelError
from paddleship.model.checkpoint_import import pickled

RAN = "ran"


class Command:
    """Pickled, this is a call."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


@pytest.fixture
def layer():
    paddle.seed(0)
    return paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.BatchNorm1D(3), paddle.nn.Embedding(5, 4))


def same(arrays, layer):
    state = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    return all(np.array_equal(arrays[name], array) and arrays[name].dtype == array.dtype for name, array in state.items())


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_state_dict_is_read_to_the_bit_in_every_protocol(layer, tmp_path, protocol):
    paddle.save(layer.state_dict(), str(tmp_path / "a.pdparams"), protocol=protocol)
    assert same(pickled.read(tmp_path / "a.pdparams"), layer)


def test_big_arrays_that_paddle_cut_into_slices_are_put_together(layer, tmp_path):
    flat = layer[0].weight.numpy().ravel()
    slices = {"0.weight@@.0": flat[:4], "0.weight@@.1": flat[4:]}
    kept = {"0.weight": {"OriginShape": (2, 3), "slices": list(slices)}}
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({**slices, "UnpackBigParamInfor@@": kept}))
    read = pickled.read(tmp_path / "a.pdparams")
    assert list(read) == ["0.weight"]
    assert np.array_equal(read["0.weight"], layer[0].weight.numpy())


def test_a_training_state_with_an_optimizer_numbers_and_lists_is_read(layer, tmp_path):
    optimizer = paddle.optimizer.AdamW(parameters=layer[0].parameters())
    layer[0](paddle.rand([4, 2])).sum().backward()
    optimizer.step()
    everything = {
        "model": layer.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "loss": [0.5, 0.25],
        "best": np.float64(0.5),
    }
    paddle.save(everything, str(tmp_path / "a.pdparams"))
    read = pickled.read(tmp_path / "a.pdparams")
    assert same(read["model"], layer)
    assert (read["epoch"], read["loss"], read["best"]) == (3, [0.5, 0.25], 0.5)
    assert any("moment1" in name and isinstance(array, np.ndarray) for name, array in read["optimizer"].items())


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3).T, np.array(1, ">i4"), np.zeros((0, 3), np.float16), np.array([True, False]), np.float32(2.5)],
    ids=["by columns", "big-endian", "empty", "bools", "a scalar"],
)
def test_every_form_of_an_array_keeps_its_values(tmp_path, array, protocol):
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({"a": array}, protocol))
    read = pickled.read(tmp_path / "a.pdparams")["a"]
    assert np.array_equal(read, array)
    assert np.shape(read) == np.shape(array)


def test_the_eval_that_older_files_hold_for_a_tensor_is_its_value_and_any_other_is_refused(tmp_path):
    tensor = OrderedDict(a=Command(eval, "data", {"data": np.ones(2)}))
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps(tensor))
    assert np.array_equal(pickled.read(tmp_path / "a.pdparams")["a"], np.ones(2))
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps(Command(eval, f"open({str(tmp_path / RAN)!r}, 'w')", {"data": 1})))
    with pytest.raises(ModelError, match="asks Python to run"):
        pickled.read(tmp_path / "a.pdparams")
    assert not (tmp_path / RAN).exists()


@pytest.mark.parametrize(
    "evil",
    [
        Command(os.system, f"touch {RAN}"),
        Command(subprocess.check_call, ["touch", RAN]),
        Command(exec, f"open({RAN!r}, 'w')"),
        Command(open, RAN, "w"),
        Command(getattr, "", "join"),
        Command(np.load, RAN),
        Command(paddle.load, RAN),
    ],
    ids=["os.system", "subprocess", "exec", "open", "getattr", "numpy.load", "paddle.load"],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_file_that_names_anything_else_is_refused_by_that_name_and_nothing_of_it_is_run(tmp_path, monkeypatch, evil, protocol):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({"weight": np.ones(2), "evil": evil}, protocol))
    with pytest.raises(
        ModelError, match=r"'.*a.pdparams' names [\w.]+, and only numbers and containers are read, so nothing of it was run: "
    ):
        pickled.read(tmp_path / "a.pdparams")
    assert not (tmp_path / RAN).exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no file that paddle.save wrote, or it is incomplete"),
        (b"PK\x03\x04 a zip", "is a zip file, as PyTorch writes it"),
        (b"\x80\x02K\x01r\xff\xff\xff\x01.", "names an object that it cannot hold"),
        (b"\x80\x04}K\x01" + b"\x85" * 3_000_000 + b"K\x01s.", "holds TUPLE1"),
        (b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"a.", "is no file that paddle.save wrote, or it is incomplete"),
        (pickle.dumps(argparse.Namespace(a=1)), "names argparse.Namespace"),
        (pickle.dumps({"a": np.ones(100)})[:-200], "is no file that paddle.save wrote, or it is incomplete"),
        (pickle.dumps({"a": np.array([{}], object)}), "holds values of numpy's dtype 'O8'"),
        (pickle.dumps({"a": np.ones(3)}, 2).replace(b"K\x03\x85", b"K\x7f\x85", 1), "an array of shape [127] with 24 bytes"),
    ],
    ids=["empty", "a zip", "far memo", "deep tuples", "huge text", "an object", "cut off", "objects", "a wrong shape"],
)
def test_a_file_without_numbers_or_with_damage_is_one_line(tmp_path, content, message):
    (tmp_path / "a.pdparams").write_bytes(content)
    with pytest.raises(ModelError) as refused:
        pickled.read(tmp_path / "a.pdparams")
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_what_a_file_sets_on_a_function_of_the_reader_is_lost(tmp_path):
    before = pickled._encode.__defaults__
    (tmp_path / "a.pdparams").write_bytes(b"\x80\x02c_codecs\nencode\nN}X\x0c\x00\x00\x00__defaults__K\x01\x85s\x86b.")
    pickled.read(tmp_path / "a.pdparams")
    assert pickled._encode.__defaults__ == before


def test_a_container_in_itself_many_times_is_read_once(tmp_path):
    tree = [1]
    for _ in range(60):
        tree = [tree, tree]
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({"deep": tree, "a": np.ones(2)}))
    assert np.array_equal(pickled.read(tmp_path / "a.pdparams")["a"], np.ones(2))


def test_an_array_with_exchanged_axes_keeps_its_values(tmp_path):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2)
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps({"a": array}, 5))
    assert np.array_equal(pickled.read(tmp_path / "a.pdparams")["a"], array)

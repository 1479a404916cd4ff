"""Files of weights, as the collections of Paddle, their users and other frameworks write them."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from safetensors.numpy import save_file

from benchmarks.zoo.files import nets
from benchmarks.zoo.files.specimen import TEXT, FileSpecimen

FILE = "model.pdparams"
WAS_RUN = "was_run"  # what the malicious file makes in the folder in which it is read
_HERE = {"checkpoint": FILE}


def trained() -> nets.Net:
    """The model with statistics of its normalisation that are not the initial ones."""
    paddle.seed(1)
    model = nets.Net()
    model.train()
    for _ in range(4):
        model(paddle.randn([8, 3, 8, 8]) * 2 + 1)
    model.eval()
    return model


def _weights() -> dict[str, Any]:
    return dict(trained().state_dict())


def _arrays() -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in _weights().items()}


def plain(folder: Path) -> None:
    paddle.save(trained().state_dict(), str(folder / FILE))


def beside_optimizer(folder: Path) -> None:
    """As PaddleClas does: model, optimizer and state of the training in three files of one name."""
    model = trained()
    adam = paddle.optimizer.AdamW(parameters=model.parameters())
    model(paddle.randn([4, 3, 8, 8])).sum().backward()
    adam.step()
    paddle.save(model.state_dict(), str(folder / FILE))
    paddle.save(adam.state_dict(), str(folder / "model.pdopt"))
    paddle.save({"epoch": 3, "metric": 0.7}, str(folder / "model.pdstates"))


def training_state(folder: Path) -> None:
    """As many own loops do: everything in one file."""
    model = trained()
    adam = paddle.optimizer.AdamW(paddle.optimizer.lr.CosineAnnealingDecay(0.1, 10), parameters=model.parameters())
    model(paddle.randn([4, 3, 8, 8])).sum().backward()
    adam.step()
    state = {"model": model.state_dict(), "optimizer": adam.state_dict(), "epoch": 3, "best": 0.71, "args": {"lr": 0.1, "name": "net"}}
    paddle.save(state, str(folder / FILE))


def averaged(folder: Path) -> None:
    """Weights and their moving average, which both fit."""
    average = {name: tensor * 0.9 for name, tensor in _weights().items()}
    paddle.save({"model": _weights(), "ema": average, "step": 100}, str(folder / FILE))


def data_parallel(folder: Path) -> None:
    paddle.save({f"_layers.{name}": tensor for name, tensor in _weights().items()}, str(folder / FILE))


def wrapped(folder: Path) -> None:
    """The model was an attribute of the class that was trained."""
    paddle.save({"state_dict": {f"network.{name}": tensor for name, tensor in _weights().items()}}, str(folder / FILE))


def half(folder: Path) -> None:
    paddle.save({name: tensor.astype("float16") for name, tensor in _weights().items()}, str(folder / FILE))


def brain_float(folder: Path) -> None:
    paddle.save({name: tensor.astype("bfloat16") for name, tensor in _weights().items()}, str(folder / FILE))


def as_numpy(folder: Path) -> None:
    """By pickle, as files of Paddle 2.0 and before."""
    (folder / FILE).write_bytes(pickle.dumps(_arrays(), protocol=2))


def named_twice(folder: Path) -> None:
    """With the table of names that Paddle 2 keeps in its files."""
    names = {name: f"parameter_{number}" for number, name in enumerate(_arrays())}
    (folder / FILE).write_bytes(pickle.dumps(_arrays() | {"StructuredToParameterName@@": names}, protocol=2))


def safetensors(folder: Path) -> None:
    save_file(_arrays(), folder / "model.safetensors")


def tied(folder: Path) -> None:
    paddle.seed(1)
    paddle.save(nets.Reader().state_dict(), str(folder / FILE))


def backbone_only(folder: Path) -> None:
    """Pretrained weights without a head."""
    paddle.save(trained().backbone.state_dict(), str(folder / FILE))


def other_head(folder: Path) -> None:
    paddle.seed(1)
    paddle.save(nets.Net(classes=1000).state_dict(), str(folder / FILE))


def renamed(folder: Path) -> None:
    """Written before an attribute of the class was renamed."""
    paddle.save({name.replace("head.", "fc."): tensor for name, tensor in _weights().items()}, str(folder / FILE))


def from_pytorch(folder: Path) -> None:
    save_file(_arrays(), folder / "model.safetensors", metadata={"format": "pt"})


def zipped(folder: Path) -> None:
    """PyTorch's own format under Paddle's suffix."""
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")


class _Runs:
    """An object that a pickle makes by calling a function."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (Path(WAS_RUN),)


def malicious(folder: Path) -> None:
    (folder / FILE).write_bytes(pickle.dumps({**_arrays(), "note": _Runs()}))


def optimizer_alone(folder: Path) -> None:
    beside_optimizer(folder)
    (folder / "model.pdopt").replace(folder / FILE)


def cut_off(folder: Path) -> None:
    """A download that ended early."""
    plain(folder)
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[: len(content) // 2])


def not_a_number(folder: Path) -> None:
    arrays = _arrays()
    arrays["head.weight"] = np.full_like(arrays["head.weight"], np.nan)
    paddle.save({name: paddle.to_tensor(array) for name, array in arrays.items()}, str(folder / FILE))


SPECIMENS = [
    FileSpecimen("plain", plain, _HERE, "what paddle.save makes of a state dict"),
    FileSpecimen("beside-optimizer", beside_optimizer, _HERE, "three files of one name"),
    FileSpecimen("training-state", training_state, _HERE, "the weights are one of five values"),
    FileSpecimen("averaged-named", averaged, {**_HERE, "key": "ema"}, "one of two sets is named"),
    FileSpecimen("data-parallel", data_parallel, _HERE, "a prefix of all names"),
    FileSpecimen("wrapped", wrapped, _HERE, "a key and a prefix"),
    FileSpecimen("half", half, _HERE, "float16"),
    FileSpecimen("brain-float", brain_float, _HERE, "bfloat16"),
    FileSpecimen("as-numpy", as_numpy, _HERE, "an old pickle of arrays"),
    FileSpecimen("named-twice", named_twice, _HERE, "Paddle 2's table of names"),
    FileSpecimen("safetensors", safetensors, {"checkpoint": "model.safetensors"}, "another format"),
    FileSpecimen("tied", tied, _HERE, "rows of different lengths", factory="Reader", reader="texts", inputs=(TEXT,)),
    FileSpecimen("averaged", averaged, _HERE, "two sets fit", refused=r"several sets of weights .*'model', 'ema'.*train\.source\.key"),
    FileSpecimen(
        "backbone-only", backbone_only, _HERE, "no head", refused=r"2 of 7 weights are missing in it \('head\.bias', 'head\.weight'\)"
    ),
    FileSpecimen(
        "other-head", other_head, _HERE, "1000 classes", refused=r"head\.weight is float32\[8,1000\], and float32\[8,3\] in the model"
    ),
    FileSpecimen("renamed", renamed, _HERE, "another attribute", refused=r"'fc\.bias'"),
    FileSpecimen(
        "from-pytorch", from_pytorch, {"checkpoint": "model.safetensors"}, "Linear is transposed there", refused="was written by PyTorch"
    ),
    FileSpecimen("zipped", zipped, _HERE, "PyTorch's format", refused="is a zip file, as PyTorch writes it"),
    FileSpecimen("malicious", malicious, _HERE, "a pickle that calls", refused="do not trust it|weights are numbers|names"),
    FileSpecimen("optimizer-alone", optimizer_alone, _HERE, "moments, not weights", refused="does not fit the model"),
    FileSpecimen("cut-off", cut_off, _HERE, "half a file", refused="incomplete"),
    FileSpecimen("not-a-number", not_a_number, _HERE, "a training that diverged", refused="not finite|NaN|nan"),
]

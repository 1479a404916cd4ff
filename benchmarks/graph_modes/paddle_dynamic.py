"""Paddle's modes that start from layers: eager, to_static, SOT, and the predictor. Imported in child processes only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

from benchmarks.graph_modes.network_setup import Array, NetworkSetup
from paddleship.errors import CandidateError


def linear(features: int) -> Any:
    return nn.Linear(features, 1)


def reviews(**kwargs: Any) -> Any:
    from benchmarks.graph_modes.reviews_model import build

    return build(**kwargs)


def resnet50(classes: int) -> Any:
    return paddle.vision.models.resnet50(num_classes=classes)


NETWORKS: dict[str, Any] = {"linear": linear, "reviews": reviews, "resnet50": resnet50}
LOSSES: dict[str, Any] = {"regression": F.mse_loss, "classification": F.cross_entropy}
OPTIMIZERS: dict[str, Any] = {"sgd": paddle.optimizer.SGD, "momentum": paddle.optimizer.Momentum, "adam": paddle.optimizer.Adam}


class PaddleEagerMode:
    """Layers, a loss and an optimizer, run line by line."""

    def __init__(self, setup: NetworkSetup) -> None:
        self.net = self.convert(network(setup))
        self.loss = LOSSES[setup.task]
        self.optimizer = OPTIMIZERS[setup.optimizer](setup.learning_rate, parameters=self.net.parameters())

    def convert(self, net: Any) -> Any:
        return net

    def begin_training(self) -> None:
        self.net.train()

    def begin_serving(self) -> None:
        self.net.eval()

    def step(self, inputs: Array, labels: Array) -> float:
        loss = self.loss(tensor_of(self.net(paddle.to_tensor(inputs))), paddle.to_tensor(labels))
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return float(loss)

    def forward(self, inputs: Array) -> Array:
        with paddle.no_grad():
            answer: Array = tensor_of(self.net(paddle.to_tensor(inputs))).numpy()
        return answer

    def save(self, folder: Path, _inputs: Array) -> None:
        paddle.save(self.net.state_dict(), str(folder / "model.pdparams"))


class ToStatic(PaddleEagerMode):
    """The same layers, converted as a whole."""

    def convert(self, net: Any) -> Any:
        return paddle.jit.to_static(net, full_graph=True)

    def save(self, folder: Path, inputs: Array) -> None:
        paddle.jit.save(self.net, str(folder / "model"), input_spec=[InputSpec([None, *inputs.shape[1:]], str(inputs.dtype))])


class Sot(ToStatic):
    """The same layers, converted as far as SOT can follow their bytecode."""

    def convert(self, net: Any) -> Any:
        return paddle.jit.to_static(net, full_graph=False)


class Inference:
    """The exported program in Paddle's predictor; it does not train."""

    onednn = False

    def __init__(self, setup: NetworkSetup) -> None:
        exported = setup.folder / "exported"
        config = paddle.inference.Config(str(exported / "model.json"), str(exported / "model.pdiparams"))
        config.set_cpu_math_library_num_threads(setup.threads)
        if setup.device == "gpu":
            config.enable_use_gpu(256, 0)
        elif self.onednn:
            config.enable_mkldnn()
        else:
            config.disable_mkldnn()
        self.predictor = paddle.inference.create_predictor(config)
        self.input = self.predictor.get_input_handle(self.predictor.get_input_names()[0])
        self.output = self.predictor.get_output_handle(self.predictor.get_output_names()[0])
        self.exported = exported

    def begin_serving(self) -> None:
        """A predictor always serves."""

    def forward(self, inputs: Array) -> Array:
        self.input.copy_from_cpu(inputs)
        self.predictor.run()
        answer: Array = self.output.copy_to_cpu()
        return answer

    def save(self, folder: Path, _inputs: Array) -> None:
        for path in self.exported.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())


class OneDnn(Inference):
    """The same with oneDNN's kernels."""

    onednn = True


def export(setup: NetworkSetup, folder: Path) -> None:
    """The code that a person writes before a predictor can load a network."""
    net = network(setup)
    net.eval()
    inputs = setup.rows()[0]
    paddle.jit.save(
        paddle.jit.to_static(net, full_graph=True),
        str(folder / "model"),
        input_spec=[InputSpec([None, *inputs.shape[1:]], str(inputs.dtype))],
    )


def load_weights(folder: str) -> Any:
    import paddle

    net = paddle.load(f"{folder}/model.pdparams")
    return lambda inputs: net(paddle.to_tensor(inputs)).numpy()


def load_program(folder: str) -> Any:
    import paddle

    net = paddle.jit.load(f"{folder}/model")
    net.eval()
    return lambda inputs: net(paddle.to_tensor(inputs)).numpy()


def load_predictor(folder: str) -> Any:
    from paddle import inference

    config = inference.Config(f"{folder}/model.json", f"{folder}/model.pdiparams")
    config.disable_mkldnn()
    predictor = inference.create_predictor(config)

    def run(inputs):  # type: ignore[no-untyped-def]
        predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(inputs)
        predictor.run()
        return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()

    return run


LOADERS: dict[type[Any], Callable[[str], Any]] = {
    PaddleEagerMode: load_weights,
    ToStatic: load_program,
    Sot: load_program,
    Inference: load_predictor,
    OneDnn: load_predictor,
}


def written(mode: type[Any], setup: NetworkSetup) -> list[Any]:
    """The code that a person writes for this mode of this network."""
    own = [part for part in mode.__mro__ if part is not object]
    return [*_network_code(setup), *own, *([export] if issubclass(mode, Inference) else []), LOADERS[mode]]


def _network_code(setup: NetworkSetup) -> list[Any]:
    if setup.network == "reviews":
        from benchmarks.graph_modes import reviews_model

        return [reviews_model.Reviews, reviews_model.build]
    return [NETWORKS[setup.network]]


def tensor_of(outputs: Any) -> Any:
    """The only tensor in the result of forward, however it is nested."""
    if isinstance(outputs, dict):
        return next(iter(outputs.values()))
    return outputs[0] if isinstance(outputs, list | tuple) else outputs


def network(setup: NetworkSetup) -> Any:
    """The layers of the setup, with its weights if they are written already. Raises CandidateError."""
    paddle.set_device(setup.device)
    paddle.set_default_dtype(setup.dtype)
    paddle.seed(setup.seed)
    net = NETWORKS[setup.network](**setup.kwargs)
    if not (setup.folder / "weights.npz").exists():
        return net
    weights, own = setup.weights(), net.state_dict()
    if weights.keys() != own.keys():
        raise CandidateError(f"the weights of {setup.network} do not fit its layers ({sorted(weights.keys() ^ own.keys())[:3]})")
    net.set_state_dict(weights)
    return net


def write_weights(setup: NetworkSetup) -> None:
    """Write seeded weights of the setup, from which all modes start."""
    (setup.folder / "weights.npz").unlink(missing_ok=True)
    np.savez(setup.folder / "weights.npz", **{name: tensor.numpy() for name, tensor in network(setup).state_dict().items()})

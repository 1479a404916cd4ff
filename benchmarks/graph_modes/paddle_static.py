"""Paddle's static mode, written by hand: a Program for each use, and an Executor. Imported in child processes only.

The networks are described again, as functions over the program's variables. Parameters have the same names as in the eager layers, so
that both programs and the copied weights use the same variables in the executor's scope.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import nn, static
from paddle.nn import functional as F

from benchmarks.graph_modes.network_setup import Array, NetworkSetup
from paddleship.errors import CandidateError


def linear(x: Any, training: bool, features: int) -> Any:  # noqa: ARG001 called as the other networks are
    return static.nn.fc(x, 1, weight_attr="weight", bias_attr="bias")


def reviews(
    ids: Any, training: bool, vocabulary_size: int = 4096, pairs: int = 199999, width: int = 32, classes: int = 2, dropout: float = 0.3
) -> Any:
    mask = (ids != 0).astype("float32")
    following = F.pad(ids[:, 1:], [0, 1], value=0)
    pair = (ids * 4093 + following) % pairs
    characters = nn.Embedding(vocabulary_size, width, padding_idx=0, weight_attr="characters.weight")
    bigrams = nn.Embedding(pairs, width, weight_attr="bigrams.weight")
    features = F.dropout(F.relu(characters(ids) + bigrams(pair)), dropout, training=training)
    score = nn.Linear(width, 1, weight_attr="score.weight", bias_attr="score.bias")
    weights = F.softmax(score(features).squeeze(-1) + (mask - 1) * 1e4, axis=-1)
    pooled = paddle.matmul(weights.unsqueeze(1), features).squeeze(1)
    output = nn.Linear(width, classes, weight_attr="output.weight", bias_attr="output.bias")
    return output(F.dropout(pooled, dropout, training=training))


def convolution(x: Any, training: bool, channels: int, kernel: int, names: tuple[str, str], stride: int = 1, act: str | None = None) -> Any:
    conv_name, norm_name = names
    conv = nn.Conv2D(x.shape[1], channels, kernel, stride=stride, padding=kernel // 2, bias_attr=False, weight_attr=f"{conv_name}.weight")
    norm = nn.BatchNorm(
        channels,
        act=act,
        is_test=not training,
        param_attr=f"{norm_name}.weight",
        bias_attr=f"{norm_name}.bias",
        moving_mean_name=f"{norm_name}._mean",
        moving_variance_name=f"{norm_name}._variance",
    )
    if not training:
        norm.eval()
    return norm(conv(x))


def bottleneck(x: Any, training: bool, planes: int, stride: int, name: str) -> Any:
    def names(number: int) -> tuple[str, str]:
        return f"{name}.conv{number}", f"{name}.bn{number}"

    out = convolution(x, training, planes, 1, names(1), act="relu")
    out = convolution(out, training, planes, 3, names(2), stride=stride, act="relu")
    out = convolution(out, training, planes * 4, 1, names(3))
    if stride != 1 or x.shape[1] != planes * 4:
        x = convolution(x, training, planes * 4, 1, (f"{name}.downsample.0", f"{name}.downsample.1"), stride=stride)
    return F.relu(out + x)


def resnet50(x: Any, training: bool, classes: int) -> Any:
    x = convolution(x, training, 64, 7, ("conv1", "bn1"), stride=2, act="relu")
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    for group, (planes, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            x = bottleneck(x, training, planes, 2 if group > 1 and block == 0 else 1, f"layer{group}.{block}")
    x = F.adaptive_avg_pool2d(x, 1).flatten(1)
    return static.nn.fc(x, classes, weight_attr="fc.weight", bias_attr="fc.bias")


NETWORKS: dict[str, Any] = {"linear": linear, "reviews": reviews, "resnet50": resnet50}
LOSSES: dict[str, Any] = {"regression": F.mse_loss, "classification": F.cross_entropy}
OPTIMIZERS: dict[str, Any] = {"sgd": paddle.optimizer.SGD, "momentum": paddle.optimizer.Momentum, "adam": paddle.optimizer.Adam}


class Static:
    """One program for training, one for inference, and the executor of both."""

    def __init__(self, setup: NetworkSetup) -> None:
        paddle.enable_static()
        paddle.seed(setup.seed)
        network = NETWORKS[setup.network]
        inputs, labels = setup.rows()
        shape, dtype = [None, *inputs.shape[1:]], str(inputs.dtype)
        self.train_program, self.serve_program, startup = static.Program(), static.Program(), static.Program()
        with static.program_guard(self.train_program, startup):
            x = static.data("x", shape, dtype)
            y = static.data("y", [None, *labels.shape[1:]], str(labels.dtype))
            self.loss = LOSSES[setup.task](network(x, training=True, **setup.kwargs), y)
            OPTIMIZERS[setup.optimizer](setup.learning_rate).minimize(self.loss)
        with static.program_guard(self.serve_program, static.Program()):
            self.x = static.data("x", shape, dtype)
            self.out = network(self.x, training=False, **setup.kwargs)
        place = paddle.CUDAPlace(0) if setup.device == "gpu" else paddle.CPUPlace()
        self.executor = static.Executor(place)
        self.executor.run(startup)
        fill(setup, place)

    def begin_training(self) -> None:
        """The program is chosen at every call."""

    def begin_serving(self) -> None:
        """The program is chosen at every call."""

    def step(self, inputs: Array, labels: Array) -> float:
        return float(self.executor.run(self.train_program, feed={"x": inputs, "y": labels}, fetch_list=[self.loss])[0])

    def forward(self, inputs: Array) -> Array:
        answer: Array = self.executor.run(self.serve_program, feed={"x": inputs}, fetch_list=[self.out])[0]
        return answer

    def save(self, folder: Path, _inputs: Array) -> None:
        static.save_inference_model(str(folder / "model"), [self.x], [self.out], self.executor, program=self.serve_program)


def load_inference_model(folder: str) -> Any:
    import paddle

    paddle.enable_static()
    executor = paddle.static.Executor()
    program, feeds, fetches = paddle.static.load_inference_model(f"{folder}/model", executor)
    return lambda inputs: executor.run(program, feed={feeds[0]: inputs}, fetch_list=fetches)[0]


LOADERS: dict[type[Any], Callable[[str], Any]] = {Static: load_inference_model}


def written(mode: type[Any], setup: NetworkSetup) -> list[Any]:
    """The code that a person writes for this mode of this network."""
    parts = {"resnet50": [convolution, bottleneck, resnet50]}.get(setup.network, [NETWORKS[setup.network]])
    return [*parts, mode, LOADERS[mode]]


def fill(setup: NetworkSetup, place: Any) -> None:
    """Copy the weights, by name. Raises CandidateError if the program has no such parameter, or one of another shape."""
    scope = static.global_scope()
    for name, array in setup.weights().items():
        variable = scope.find_var(name)
        shape = np.array(variable.get_tensor()).shape if variable else None
        if variable is None or shape != array.shape:
            raise CandidateError(f"the static program of {setup.network} has no parameter {name!r} of shape {array.shape} (got {shape})")
        variable.get_tensor().set(array, place)

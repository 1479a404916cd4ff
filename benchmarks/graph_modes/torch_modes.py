"""The only module that uses PyTorch: the networks in PyTorch, and its modes. Imported in child processes only."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.graph_modes.network_setup import Array, NetworkSetup
from paddleship.errors import CandidateError


def linear(features: int) -> Any:
    return nn.Linear(features, 1)


class Reviews(nn.Module):  # type: ignore[misc]
    def __init__(self, vocabulary_size: int = 4096, pairs: int = 199999, width: int = 32, classes: int = 2, dropout: float = 0.3) -> None:
        super().__init__()
        self.pairs = pairs
        self.characters = nn.Embedding(vocabulary_size, width, padding_idx=0)
        self.bigrams = nn.Embedding(pairs, width)
        self.score = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes)

    def forward(self, ids):  # type: ignore[no-untyped-def]
        mask = (ids != 0).float()
        following = F.pad(ids[:, 1:], [0, 1], value=0.0)
        pair = (ids * 4093 + following) % self.pairs
        features = self.dropout(F.relu(self.characters(ids) + self.bigrams(pair)))
        scores = self.score(features).squeeze(-1) + (mask - 1) * 1e4
        weights = F.softmax(scores, dim=-1).unsqueeze(1)
        pooled = torch.matmul(weights, features).squeeze(1)
        return self.output(self.dropout(pooled))


class Bottleneck(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.downsample = nn.Sequential()
        if stride != 1 or channels != planes * 4:
            self.downsample = nn.Sequential(nn.Conv2d(channels, planes * 4, 1, stride=stride, bias=False), nn.BatchNorm2d(planes * 4))

    def forward(self, x):  # type: ignore[no-untyped-def]
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.downsample(x))


class ResNet50(nn.Module):  # type: ignore[misc]
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = self.group(64, 64, blocks=3, stride=1)
        self.layer2 = self.group(256, 128, blocks=4, stride=2)
        self.layer3 = self.group(512, 256, blocks=6, stride=2)
        self.layer4 = self.group(1024, 512, blocks=3, stride=2)
        self.fc = nn.Linear(2048, classes)

    def group(self, channels: int, planes: int, blocks: int, stride: int) -> Any:
        return nn.Sequential(Bottleneck(channels, planes, stride), *[Bottleneck(planes * 4, planes, 1) for _ in range(blocks - 1)])

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


NETWORKS: dict[str, Any] = {"linear": linear, "reviews": Reviews, "resnet50": ResNet50}
LOSSES: dict[str, Any] = {"regression": F.mse_loss, "classification": F.cross_entropy}
OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "momentum": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "adam": torch.optim.Adam,
}


class TorchEagerMode:
    """Modules, a loss and an optimizer, run line by line."""

    def __init__(self, setup: NetworkSetup) -> None:
        self.device = torch.device("cuda" if setup.device == "gpu" else "cpu")
        self.module = network(setup).to(self.device)
        self.net = self.convert(self.module)
        self.loss = LOSSES[setup.task]
        self.optimizer = OPTIMIZERS[setup.optimizer](self.net.parameters(), lr=setup.learning_rate)

    def convert(self, net: Any) -> Any:
        return net

    def begin_training(self) -> None:
        self.net.train()

    def begin_serving(self) -> None:
        self.net.eval()

    def step(self, inputs: Array, labels: Array) -> float:
        self.optimizer.zero_grad()
        loss = self.loss(self.net(torch.from_numpy(inputs).to(self.device)), torch.from_numpy(labels).to(self.device))
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def forward(self, inputs: Array) -> Array:
        with torch.no_grad():
            answer: Array = self.net(torch.from_numpy(inputs).to(self.device)).cpu().numpy()
        return answer

    def save(self, folder: Path, _inputs: Array) -> None:
        torch.save(self.module, folder / "model.pt")


class TorchScript(TorchEagerMode):
    """The same modules, scripted, and frozen for inference."""

    def convert(self, net: Any) -> Any:
        self.frozen = torch.jit.freeze(torch.jit.script(copy.deepcopy(net).eval()))
        return torch.jit.script(net)

    def forward(self, inputs: Array) -> Array:
        with torch.no_grad():
            answer: Array = self.frozen(torch.from_numpy(inputs).to(self.device)).cpu().numpy()
        return answer

    def save(self, folder: Path, _inputs: Array) -> None:
        torch.jit.save(self.frozen, str(folder / "model.pt"))


class Compiled(TorchEagerMode):
    """The same modules, compiled at the first call; the saved form is exported separately."""

    def convert(self, net: Any) -> Any:
        return torch.compile(net)

    def save(self, folder: Path, inputs: Array) -> None:
        batch = torch.export.Dim("batch", max=65535)  # the most that batch norm takes on a GPU
        program = torch.export.export(self.module, (torch.from_numpy(inputs).to(self.device),), dynamic_shapes=({0: batch},))
        torch.export.save(program, folder / "model.pt2")


def load_pickle(folder: str) -> Any:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = torch.load(f"{folder}/model.pt", map_location=device, weights_only=False).eval()
    return lambda inputs: net(torch.from_numpy(inputs).to(device)).detach().cpu().numpy()


def load_script(folder: str) -> Any:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = torch.jit.load(f"{folder}/model.pt", map_location=device)
    return lambda inputs: net(torch.from_numpy(inputs).to(device)).detach().cpu().numpy()


def load_exported(folder: str) -> Any:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = torch.export.load(f"{folder}/model.pt2").module().to(device)
    return lambda inputs: net(torch.from_numpy(inputs).to(device)).detach().cpu().numpy()


LOADERS: dict[type[Any], Callable[[str], Any]] = {TorchEagerMode: load_pickle, TorchScript: load_script, Compiled: load_exported}


def written(mode: type[Any], setup: NetworkSetup) -> list[Any]:
    """The code that a person writes for this mode of this network."""
    networks: dict[str, list[Any]] = {"linear": [linear], "reviews": [Reviews], "resnet50": [Bottleneck, ResNet50]}
    return [*networks[setup.network], *[part for part in mode.__mro__ if part is not object], LOADERS[mode]]


def network(setup: NetworkSetup) -> Any:
    """The modules of the setup with Paddle's weights. Raises CandidateError if a weight has no place."""
    torch.manual_seed(setup.seed)
    torch.set_num_threads(setup.threads)
    net = NETWORKS[setup.network](**setup.kwargs)
    own = net.state_dict()
    carried = {_name(name): torch.from_numpy(array) for name, array in setup.weights().items()}
    for path, part in net.named_modules():
        if isinstance(part, nn.Linear):
            name = f"{path}.weight" if path else "weight"
            carried[name] = carried[name].T.contiguous()  # Paddle stores them as (in, out)
    missing = [name for name in own.keys() ^ carried.keys() if not name.endswith("num_batches_tracked")]
    if missing:
        raise CandidateError(f"the weights of {setup.network} do not fit its modules ({', '.join(sorted(missing)[:3])})")
    net.load_state_dict(carried, strict=False)
    return net


def _name(paddles: str) -> str:
    return paddles.replace("._mean", ".running_mean").replace("._variance", ".running_var")

"""A setup: one network with its weights, rows and optimizer, as files for all modes of all frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.graph_modes import NetworkName
from paddleship.config.params import Params
from paddleship.data import dataset
from paddleship.errors import DataError
from paddleship.system import isolate

Array = np.ndarray[Any, Any]

_LENGTH = 128  # characters of a review; the same for all, so that no mode gets a new shape while it is measured
_LINEAR = Path("examples/linear/linear.csv")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run: rows in a batch, and the numbers of steps, batches and single rows in a block."""

    batch: int
    steps: int
    answers: int
    rows: int
    picture: int = 0


SMALL: dict[NetworkName, Sizes] = {
    "linear": Sizes(batch=16, steps=200, answers=500, rows=960),
    "reviews": Sizes(batch=32, steps=4, answers=20, rows=1024),
    "resnet50": Sizes(batch=8, steps=1, answers=3, rows=32, picture=64),
}
FULL: dict[NetworkName, Sizes] = {
    "linear": Sizes(batch=16, steps=1000, answers=2000, rows=960),
    "reviews": Sizes(batch=256, steps=20, answers=50, rows=8192),
    "resnet50": Sizes(batch=64, steps=10, answers=20, rows=256, picture=224),
}
_TRAINING: dict[NetworkName, tuple[str, float]] = {"linear": ("sgd", 0.1), "reviews": ("adam", 0.003), "resnet50": ("momentum", 0.001)}


@dataclass(frozen=True)
class NetworkSetup:
    """The files of a setup. `folder` holds weights.npz, rows.npz and, in `exported`, the program for predictors."""

    network: NetworkName
    folder: Path
    sizes: Sizes
    kwargs: dict[str, Any]
    task: str
    optimizer: str
    learning_rate: float
    seed: int
    threads: int = 1
    device: str = "cpu"
    dtype: str = "float32"
    torch_site: str | None = None

    def weights(self) -> dict[str, Array]:
        """The first weights by their names in Paddle's state_dict, floats in the dtype of the setup."""
        with np.load(self.folder / "weights.npz") as stored:
            return {name: self.cast(stored[name]) for name in stored.files}

    def rows(self) -> tuple[Array, Array]:
        """Inputs and labels, one per row."""
        with np.load(self.folder / "rows.npz") as stored:
            return self.cast(stored["inputs"]), self.cast(stored["labels"])

    def cast(self, array: Array) -> Array:
        return array.astype(self.dtype) if array.dtype.kind == "f" else array


def device_count() -> int:
    """The number of accelerators that this Paddle can use."""
    import paddle

    return int(paddle.device.cuda.device_count()) if paddle.is_compiled_with_cuda() else 0


def make(network: NetworkName, params: Params, folder: Path, *, device: str = "cpu") -> NetworkSetup:
    """Write rows, fresh weights and the exported program of a network into `folder`. Raises DataError, CandidateError."""
    settings = params.graph_modes
    sizes = (FULL if settings.full else SMALL)[network]
    inputs, labels = _rows(network, params, sizes)
    kwargs: dict[str, Any] = {"classes": 10}
    if network == "linear":
        kwargs = {"features": inputs.shape[1]}
    if network == "reviews":
        kwargs = {"dropout": 0.0}
    optimizer, learning_rate = _TRAINING[network]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "rows.npz", inputs=inputs, labels=labels)
    setup = NetworkSetup(
        network,
        folder,
        sizes,
        kwargs,
        "regression" if network == "linear" else "classification",
        optimizer,
        learning_rate,
        params.seed,
        threads=settings.threads,
        device=device,
        torch_site=settings.torch_site,
    )
    environment = isolate.threads(settings.threads)
    isolate.run(f"{network} weights", _write_weights, setup, timeout_s=settings.timeout_s, environment=environment)
    return setup


def truth_of(setup: NetworkSetup) -> NetworkSetup:
    """The same setup in float64."""
    return replace(setup, dtype="float64")


def _write_weights(setup: NetworkSetup) -> None:
    from benchmarks.graph_modes import paddle_dynamic

    paddle_dynamic.write_weights(setup)
    paddle_dynamic.export(setup, setup.folder / "exported")


def _rows(network: NetworkName, params: Params, sizes: Sizes) -> tuple[Array, Array]:
    if network == "linear":
        return _linear_rows(sizes)
    if network == "reviews":
        return _reviews_rows(params, sizes)
    random = np.random.default_rng(params.seed)
    labels = random.integers(0, 10, sizes.rows)
    means = random.normal(size=(10, 3, 1, 1))  # the colour depends on the class, so that there is something to learn
    pictures = random.normal(size=(sizes.rows, 3, sizes.picture, sizes.picture)) + means[labels]
    return pictures.astype(np.float32), labels


def _linear_rows(sizes: Sizes) -> tuple[Array, Array]:
    if not _LINEAR.exists():
        raise DataError(f"{_LINEAR} does not exist: run in a checkout of paddleship")
    table = np.loadtxt(_LINEAR, delimiter=",", skiprows=1, max_rows=sizes.rows, dtype=np.float32)
    names = _LINEAR.read_text(encoding="utf-8").splitlines()[0].split(",")
    target = names.index("y")
    return np.ascontiguousarray(np.delete(table, target, axis=1)), np.ascontiguousarray(table[:, [target]])


def _reviews_rows(params: Params, sizes: Sizes) -> tuple[Array, Array]:
    """Real training rows, cut or padded to the same length."""
    prepared = Path(params.paths.prepared)
    preprocess, _, _ = dataset.read_preprocess(prepared)
    if preprocess.longest_text is None:
        raise DataError(f"{params.paths.prepared!r} holds no texts: run `dvc repro prepare` with the reviews example")
    rows = dataset.read(prepared, "train")
    chosen = np.random.default_rng(params.seed).permutation(len(rows))[: sizes.rows]
    part = rows.take(chosen.tolist())
    ids = np.zeros((len(part), _LENGTH), np.int64)
    for place, example in enumerate(dataset.encode(preprocess, part)):
        values = next(iter(example.values()))[:_LENGTH]
        ids[place, : len(values)] = values
    return ids, part.labels.astype(np.int64)

"""The source of weights that lets a function of the user train: train.source.own."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.params import Params
from paddleship.config.sections.train import OwnTrainer
from paddleship.errors import ModelError
from paddleship.model.checkpoint_import import files
from paddleship.model.checkpoint_import.applying import apply
from paddleship.model.weight_source import Obtained, Setup, WeightSource
from paddleship.shipped.computing.references import explain, resolve, user_line

_ADVICE = "train longer or change your trainer, check the data, or lower train.min_score"


@dataclass
class Job:
    """What the function gets.

    `layer` is the model of model.factory with its initial weights. `folder` is for the trainer's checkpoints: it is kept if the stage ends
    early, and given again as long as data, code and params stay the same. `stop` is set when the stage shall end: save a checkpoint and
    return soon. `prepared` is the folder of the prepared data.
    """

    layer: Any
    params: Params
    prepared: Path
    folder: Path
    stop: threading.Event
    _setup: Setup
    history: list[dict[str, float]] = field(default_factory=list)

    def rows(self, part: str) -> int:
        """The number of rows of the part `train` or `validation`."""
        return len(self._split(part).labels)

    def batches(self, part: str, size: int, *, seed: int | None = None) -> Iterator[tuple[list[Any], Any]]:
        """The arguments of forward and the labels, batch by batch, as tensors: in the order of the data, or shuffled by a seed.

        Training pictures are changed as train.augment says where there is a seed, by it: give each epoch its own.
        """
        import paddle

        split = self._split(part) if seed is None else self._split(part).at(seed)
        order = np.arange(len(split.labels)) if seed is None else np.random.default_rng(seed).permutation(len(split.labels))
        for start in range(0, len(order), size):
            indices = order[start : start + size]
            batch = self._setup.preprocess.collate([split.examples[index] for index in indices])
            arguments = self._setup.form.give({name: paddle.to_tensor(array) for name, array in batch.items()})
            labels = self._setup.task.kind.batched(split.labels[indices], partial(self._setup.preprocess.width, batch))
            yield list(arguments), paddle.to_tensor(labels)

    def log(self, metrics: Mapping[str, float]) -> None:
        """Log the metrics of an epoch. They appear in MLflow while the trainer runs, and in the report as the history."""
        row = {str(name): float(value) for name, value in metrics.items()}
        self.history.append(row)
        self._setup.on_epoch(row, len(self.history) - 1)
        print(f"epoch {len(self.history)}  " + "  ".join(f"{name} {value:.4g}" for name, value in row.items()))

    def _split(self, part: str) -> Any:
        if part not in ("train", "validation"):
            raise ValueError(f"part must be 'train' or 'validation' (got {part!r}): the test rows are for the score of the finished model")
        return self._setup.splits[part]


class Own(WeightSource):
    def __init__(self, settings: OwnTrainer) -> None:
        self._settings = settings

    def obtain(self, setup: Setup) -> Obtained:
        """Call the function. Its weights are those of `job.layer`, or of the file or state dict that it returns."""
        name = self._settings.own
        function = resolve(name, key="train.source.own", error=ModelError)
        setup.folder.mkdir(parents=True, exist_ok=True)
        for other in setup.folder.parent.iterdir():
            if other != setup.folder:  # of other data, code or params
                shutil.rmtree(other)
        setup.layer.train()
        with _stop_at_sigterm() as stop:
            job = Job(setup.layer, setup.params, Path(setup.params.paths.prepared), setup.folder, stop, setup)
            try:
                result = function(job, **self._settings.kwargs)
            except ModelError:
                raise
            except Exception as failure:
                advice = "fix it; it continues from what it saved in job.folder"
                raise ModelError(f"the trainer {name!r} failed ({explain(failure)}): {advice}", where=user_line(failure)) from None
        if stop.is_set():
            print(f"stopped: {name} was asked to end; the next run gives it {str(setup.folder)!r} again")
            signal.raise_signal(signal.SIGTERM)  # the stage ends as it does without a trainer
        if job.layer is not setup.layer:
            raise ModelError(f"the trainer {name!r} replaced job.layer: train that layer in place, or return the weights as a state dict")
        _set(setup.layer, result, name)
        metrics = {"epochs": len(job.history)} if job.history else {}
        return Obtained(
            [], origin=f"with the weights of {name}", advice=_ADVICE, facts={"trainer": name}, metrics=metrics, history=job.history
        )


def _set(layer: Any, result: Any, name: str) -> None:
    """Set the weights of the layer to what the function returned; None leaves those that it has, which are checked."""
    path = f"what {name} returned"
    if isinstance(result, str | Path):
        tree, path = files.read(Path(result)), str(result)
    elif result is None or isinstance(result, Mapping):
        weights = layer.state_dict() if result is None else result
        tree = {key: np.asarray(value.numpy() if hasattr(value, "numpy") else value) for key, value in weights.items()}
    else:
        raise ModelError(f"the trainer {name!r} returned {type(result).__name__}: return None, the path of a checkpoint, or a state dict")
    apply(layer, tree, origin=path)


@contextmanager
def _stop_at_sigterm() -> Iterator[threading.Event]:
    """An event that SIGTERM sets, in place of ending the process. Processes that the trainer forks end at SIGTERM."""
    stop = threading.Event()

    def end(*_: Any) -> None:
        stop.set()

    def end_child() -> None:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not in Python, where a signal before a call that waits is seen after it

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    os.register_at_fork(after_in_child=end_child)
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)

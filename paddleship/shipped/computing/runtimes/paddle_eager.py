"""Eager Paddle: the candidate contains weights, and the model's Python code or program. It ships if no static graph is faster."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing import arguments, layers, program_layer
from paddleship.shipped.computing.candidate import CODE, Candidate
from paddleship.shipped.computing.preprocess.own_code import OwnCode
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.runtimes import paddle_inference
from paddleship.shipped.computing.runtimes.registration import Kind, Registration
from paddleship.shipped.computing.spec import Arrays
from paddleship.shipped.computing.structure import describe

_ADVICE = "move it below code.watch, or pin its package in docker/requirements/paddle-eager.txt, and run `paddleship run --again optimize`"


class PaddleEager:
    def __init__(self, layer: Any, candidate: Candidate) -> None:
        import paddle

        self._paddle = paddle
        self._layer, self._threads, self._mode = layer, candidate.threads, layers.Eagerly()
        self._inputs = [spec.name for spec in candidate.inputs]
        self._form = arguments.form(type(layer).forward, self._inputs, candidate.options.get("absent", ()))
        self._outputs = [spec.name for spec in candidate.outputs]

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        self._paddle.framework.core.set_num_threads(self._threads)  # applies to the calling thread, so it is set at every call
        try:
            with self._paddle.no_grad(), self._mode:
                result = self._layer(*self._form.give({name: self._paddle.to_tensor(inputs[name]) for name in self._inputs}))
        except ModuleNotFoundError as missing:
            raise CandidateError(_missing(missing)) from None
        named = describe(result, lambda value: hasattr(value, "numpy"))[1]
        if list(named) != self._outputs:
            raise CandidateError(f"forward returned {', '.join(named)}, and {', '.join(self._outputs)} when it was exported")
        return {name: np.asarray(tensor.numpy(), order="C") for name, tensor in named.items()}


def load(folder: Path, candidate: Candidate) -> PaddleEager:
    """Build the model from the candidate's own code, in evaluation mode. Raises CandidateError if it needs other modules."""
    import paddle
    from safetensors.numpy import load_file

    paddle.disable_signal_handler()  # Paddle hooks SIGTERM, which stops the server
    paddle.set_default_dtype("float32")
    paddle.seed(candidate.options["seed"])  # for constants that are drawn and are not weights
    program = candidate.options.get("program")
    layer = program_layer.load(folder / program) if program else _build(folder / CODE, candidate)
    if odd := layers.fill(layer, load_file(folder / layers.WEIGHTS)):
        raise CandidateError(f"the weights in {folder} do not fit its code ({', '.join(odd[:3])}): run `paddleship run --again optimize`")
    layer.eval()
    return PaddleEager(layer, candidate)


def _build(code: Path, candidate: Candidate) -> Any:
    import paddle

    reference, kwargs = candidate.options["factory"], candidate.options["kwargs"]
    module, _, name = reference.partition(":")
    files = [str(file.relative_to(CODE)) for file in map(PurePosixPath, candidate.files) if file.parts[0] == CODE]
    try:
        with OwnCode(code, files):
            factory = getattr(import_module(module), name)
            layer = layers.make(lambda: factory(**kwargs))
    except ModuleNotFoundError as missing:
        raise CandidateError(_missing(missing)) from None
    except Exception as failure:
        words = explain(failure).replace(f"{code.resolve()}/", "").replace(f"{code}/", "")
        raise CandidateError(f"{reference!r} fails in the candidate's copy of the code, which holds Python files alone ({words})") from None
    if not isinstance(layer, paddle.nn.Layer):
        raise CandidateError(f"{reference!r} returned {type(layer).__name__}, not a paddle.nn.Layer")
    return layer


def _missing(missing: ModuleNotFoundError) -> str:
    return f"the model's code imports {missing.name!r}, which is neither in its copy nor in the image: {_ADVICE}"


RUNTIME = Registration(
    name="paddle-eager",
    load=load,
    source="eager",
    candidates={"paddle-eager": Kind()},
    requirements="paddle-eager.txt",
    weights="paddleship.weights.checkpoint_files:read",
    not_served=paddle_inference.NOT_SERVED,
    system_libraries=paddle_inference.RUNTIME.system_libraries,
    processor_flags=paddle_inference.RUNTIME.processor_flags,
)

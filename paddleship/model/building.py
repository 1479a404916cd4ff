"""Build the user's eager model from the params, restore a checkpoint, and name its outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.sections.model import Model
from paddleship.errors import ModelError, OutputError
from paddleship.model import overrides, scalars
from paddleship.shipped.computing import arguments, layers, program_layer
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.files import new_folder, sha256
from paddleship.shipped.computing.references import explain, resolve, user_line
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.computing.structure import Tree, describe

WEIGHTS = layers.WEIGHTS
FACTS = "checkpoint.json"


def build(model: Model) -> Any:
    """Call the factory. Raises ModelError if it does not return a `paddle.nn.Layer`."""
    import paddle

    factory = resolve(str(model.factory), key="model.factory", error=ModelError)
    try:
        layer = layers.make(lambda: factory(**model.kwargs))
    except Exception as failure:
        message = f"the factory {model.factory!r} failed with the kwargs {model.kwargs} ({explain(failure)}): fix the factory or the kwargs"
        raise ModelError(message, where=user_line(failure)) from None
    if not isinstance(layer, paddle.nn.Layer):
        raise ModelError(f"the factory {model.factory!r} returned {type(layer).__name__}, not a paddle.nn.Layer: return the model itself")
    overrides.check(layer)
    return layer


def of_program(checkpoint: Path) -> Any:
    """The layer of the exported program in a checkpoint. Raises ModelError."""
    try:
        return program_layer.load(checkpoint / program_layer.FILE)
    except (OSError, ValueError, KeyError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(
            f"the program in checkpoint {str(checkpoint)!r} cannot be read ({reason}): run `paddleship run --again train`"
        ) from None


def form(layer: Any, model: Model) -> ArgumentForm:
    """Match the declared inputs to the arguments of this layer's forward; call it before `to_static` changes the layer.

    Raises ModelError if their names contradict each other.
    """
    try:
        return arguments.form(type(layer).forward, [item.name for item in model.inputs], model.absent)
    except ValueError as odd:
        raise ModelError(f"the declared inputs: {odd}") from None


def to_static(layer: Any, forward_arguments: Sequence[Any] = ()) -> Any:
    """The layer after Paddle's `to_static`, full graph, not run yet: one program for all shapes; without arguments one per shape.

    `forward_arguments` has those of forward, with a TensorSpec in place of each tensor.
    """
    import paddle

    def declare(value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return paddle.static.InputSpec(value.dynamic_shape, value.dtype, value.name)
        if isinstance(value, dict):
            return {key: declare(part) for key, part in value.items()}
        return [declare(part) for part in value] if isinstance(value, list | tuple) else value

    scalars.trace_as_eager()
    return paddle.jit.to_static(layer, input_spec=declare(forward_arguments) or None, full_graph=True)


def forward(layer: Any, forward_arguments: Sequence[Any]) -> dict[str, Any]:
    """Run the model and name its outputs. Raises ModelError with the user's line if forward fails."""
    return name_outputs(call(layer, forward_arguments))


def call(layer: Any, forward_arguments: Sequence[Any]) -> Any:
    """Run the model with these arguments. Raises ModelError with the user's line if forward fails."""
    try:
        return layer(*forward_arguments)
    except ModelError:
        raise
    except Exception as failure:
        tensors = [leaf for leaf in arguments.leaves(forward_arguments) if hasattr(leaf, "shape")]
        shapes = ", ".join(f"{tensor.dtype} {list(tensor.shape)}".replace("paddle.", "") for tensor in tensors)
        message = f"forward of {type(layer).__name__} failed on {shapes} ({explain(failure)}): fix it, or the declared inputs"
        raise ModelError(message, where=user_line(failure)) from None


def name_outputs(result: Any) -> dict[str, Any]:
    """The tensors in the result of forward, by name (paddleship.shipped.computing.structure). Raises ModelError."""
    return nest_outputs(result)[1]


def nest_outputs(result: Any) -> tuple[Tree, dict[str, Any]]:
    """The nesting of the result of forward, and its tensors by name. Raises ModelError if a value is neither tensor nor constant."""
    try:
        return describe(result, lambda value: hasattr(value, "numpy"))
    except TypeError as odd:
        raise OutputError(f"forward returned {odd}: return tensors, or a dict, list or tuple of them") from None


def save(layer: Any, folder: Path, facts: Mapping[str, Any]) -> str:
    """Replace the folder by one with the weights and their facts. Returns the hash of the weights."""
    with new_folder(folder) as beside:
        return write(layer, beside, facts)


def write(layer: Any, folder: Path, facts: Mapping[str, Any]) -> str:
    """Write the weights and their facts into the folder. Returns the hash of the weights."""
    from safetensors.numpy import save_file

    save_file({name: np.asarray(tensor.numpy(), order="C") for name, tensor in layer.state_dict().items()}, folder / WEIGHTS)
    digest = sha256(folder / WEIGHTS)
    (folder / FACTS).write_text(json.dumps({**facts, "weights_sha256": digest}, indent=1) + "\n", encoding="utf-8")
    return digest


def restore(layer: Any, folder: Path) -> str:
    """Set all weights from a checkpoint. Returns the hash of the weights. Raises an error if one does not fit.

    Weights are cast to the dtypes of the model.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = folder / WEIGHTS
    try:
        expected = json.loads((folder / FACTS).read_text(encoding="utf-8"))["weights_sha256"]
        if sha256(path) != expected:
            raise ModelError(
                f"{path} changed since training (its hash differs from {FACTS}): "
                "give the checkpoint as it was written, or train again (in a pipeline: `paddleship run --again train`)"
            )
        weights = load_file(path)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelError(
            f"checkpoint {str(folder)!r} cannot be read ({error}): "
            "give the folder that `train` wrote, or train again (in a pipeline: `paddleship run --again train`)"
        ) from None
    if broken := next((name for name, count in not_finite(layer, weights).items() if count), None):
        what = "NaN" if np.isnan(weights[broken]).any() else "infinity"
        raise ModelError(f"checkpoint {str(folder)!r} holds {what} in {broken!r}: train again with a smaller learning rate")
    if odd := layers.fill(layer, weights):
        raise ModelError(
            f"checkpoint {str(folder)!r} does not fit the model (different weights: {', '.join(odd[:3])}): "
            "give the checkpoint of this model, or train again (in a pipeline: `paddleship run --again train`)"
        )
    _derive(layer)
    return str(expected)


def not_finite(layer: Any, weights: Mapping[str, Any]) -> dict[str, int]:
    """The count of NaN and infinity in each weight; -inf is allowed in a buffer, which may be a mask that is added to scores."""
    trained = {name for name, _ in layer.named_parameters()}
    return {
        name: int((~(np.isfinite(array) | ((name not in trained) & np.isneginf(array)))).sum())
        for name, array in weights.items()
        if array.dtype.kind == "f"
    }


def _derive(layer: Any) -> None:
    """Compute the weights that weight_norm and spectral_norm derive at every call in eager mode.

    A conversion drops what their hooks assign, and would keep values derived from the weights of the constructor.
    """
    import paddle

    for part in layer.sublayers(include_self=True):
        for hook in part._forward_pre_hooks.values():
            if type(hook).__module__.startswith("paddle.nn.utils."):
                training, part.training = part.training, False  # in train mode, spectral_norm changes its buffers
                with paddle.no_grad():
                    hook(part, ())
                part.training = training

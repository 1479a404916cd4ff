"""Read an `.onnx` file, and refuse what is no model, or reaches outside its folder. Nothing of it is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paddleship.errors import ModelError

_OLDEST = 7  # before it, operators broadcast by attributes
_ONNX = ("", "ai.onnx")
_AGAIN = "copy it again, or export it again"


def read(path: Path) -> Any:
    """The model, with the tensors that other files hold, and without functions of its own. Raises ModelError."""
    import onnx
    from onnx import inliner

    model = structure(path)
    require_near(model, path)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
        model = inliner.inline_local_functions(model) if model.functions else model
        _require_known(model, path)
        for item in model.graph.output:  # the checker wants a shape, which nothing here reads
            item.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(model, skip_opset_compatibility_check=True)
    except ModelError:
        raise
    except Exception as failure:
        raise ModelError(f"{str(path)!r} is no valid ONNX model ({_reason(failure)}): {_AGAIN}") from None
    return model


def structure(path: Path) -> Any:
    """The model without the tensors that other files hold. Raises ModelError."""
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as failure:
        raise ModelError(f"{str(path)!r} is no ONNX model, or it is incomplete ({_reason(failure)}): {_AGAIN}") from None
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{str(path)!r} is no ONNX model, or it is empty: {_AGAIN}")
    return model


def version(model: Any, path: Path) -> int:
    """The version of ONNX's operators. Raises ModelError for one that is unknown here."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    found = max((one.version for one in model.opset_import if one.domain in _ONNX), default=0)
    if not _OLDEST <= found <= newest:
        raise ModelError(f"{str(path)!r} names opset {found}, and {_OLDEST} to {newest} are supported: export it with another opset")
    return int(found)


def inputs(graph: Any) -> list[Any]:
    """The inputs that change an output, in the order of the file; those that an initializer gives are none."""
    initial = {item.name for item in graph.initializer}
    wanted = {item.name for item in graph.output}.union(*map(_used, needed(graph)))
    return [item for item in graph.input if item.name not in initial and item.name in wanted]


def needed(graph: Any) -> list[Any]:
    """The operators on whose results the outputs depend."""
    wanted, found = {item.name for item in graph.output}, []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(node.output):
            found.append(node)
            wanted |= _used(node)
    return found[::-1]


def external(model: Any) -> Iterator[str]:
    """The names of the other files that hold tensors of the model."""
    import onnx

    for tensor in onnx.external_data_helper._get_all_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield next((one.value for one in tensor.external_data if one.key == "location"), "")


def require_near(model: Any, path: Path) -> list[Path]:
    """The other files that hold tensors. Raises ModelError unless they are in the folder of the model."""
    folder = path.parent.resolve()
    found = []
    for name in dict.fromkeys(external(model)):
        file = (folder / name).resolve()
        if not file.is_relative_to(folder):
            raise ModelError(f"{str(path)!r} takes weights from {name!r}, which is outside its folder: export it with them beside it")
        if not file.is_file():
            raise ModelError(f"{str(path)!r} takes weights from {name!r}, which does not exist: put the file beside the model")
        found.append(file)
    return found


def _require_known(model: Any, path: Path) -> None:
    """Raise ModelError for an operator that ONNX does not define, or that a newer one does."""
    import onnx

    for node in _nodes(model.graph):
        if node.domain not in _ONNX:
            raise ModelError(f"{_title(node, path)} of the domain {node.domain!r}, which is not ONNX's own: export the model without it")
    opset = version(model, path)
    for node in _nodes(model.graph):
        if not onnx.defs.has(node.op_type, max_inclusive_version=opset):
            raise ModelError(f"{_title(node, path)}, which opset {opset} does not have: export the model without it")


def _title(node: Any, path: Path) -> str:
    return f"{str(path)!r} holds the operator {node.op_type!r} ({node.name or next(iter(node.output), '')!r})"


def _used(node: Any) -> set[str]:
    """The values that an operator and the graphs in it may use."""
    inner = [graph for one in node.attribute for graph in (one.g, *one.graphs) if graph.node or graph.output]
    nested = {name for graph in inner for one in graph.node for name in _used(one)}
    return set(node.input) | nested | {item.name for graph in inner for item in graph.output}


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for one in node.attribute:
            for inner in (one.g, *one.graphs):
                yield from _nodes(inner)


def _reason(failure: Exception) -> str:
    return next((line.strip()[:200] for line in str(failure).splitlines() if line.strip()), type(failure).__name__)

"""If."""

from __future__ import annotations

from typing import Any

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer


def _if(node: Node) -> Any:
    """The branch, if it is known; otherwise both, of which the program runs one."""
    condition, branches = node.value(0), (node.attribute("then_branch"), node.attribute("else_branch"))
    if values.is_known(condition):
        return node.write(branches[0] if condition.reshape(-1)[0] else branches[1])
    yes, no = ((lambda branch=branch: _one_or_all(_tensors(node, branch))) for branch in branches)
    chosen = node.paddle.static.nn.cond(node.paddle.reshape(node.tensor(0), []), yes, no)
    return list(chosen) if isinstance(chosen, list | tuple) else [chosen]


def _tensors(node: Node, branch: Any) -> list[Any]:
    return [node.made(value, item.name) for value, item in zip(node.write(branch), branch.output, strict=True)]


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else results


OPERATORS: dict[str, Writer] = {"If": _if}

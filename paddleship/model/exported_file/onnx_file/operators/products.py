"""Products of matrices."""

from __future__ import annotations

from typing import Any

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Unsupported


def _matmul(node: Node) -> Any:
    first, second = node.tensor(0), node.tensor(1)
    if "float" in values.name_of(first.dtype):
        return node.paddle.matmul(first, second)
    product = node.paddle.matmul(node.paddle.cast(first, "float64"), node.paddle.cast(second, "float64"))
    return node.paddle.cast(product, first.dtype)


def _gemm(node: Node) -> Any:
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    product = node.paddle.matmul(
        node.tensor(0), node.tensor(1), transpose_x=bool(node.attribute("transA", 0)), transpose_y=bool(node.attribute("transB", 0))
    )
    product = product if alpha == 1 else product * node.full(alpha, product)
    if not node.has(2) or not beta:
        return product
    added = node.tensor(2)
    return product + (added if beta == 1 else added * node.full(beta, added))


def _einsum(node: Node) -> Any:
    equation = node.attribute("equation").replace(" ", "")
    if len(node.values()) > 2 or _repeats(equation):
        raise Unsupported(f"with the equation {equation!r}")
    return node.paddle.einsum(equation, *node.tensors())


def _repeats(equation: str) -> bool:
    """Whether a part names a dimension twice: a diagonal."""
    parts = equation.partition("->")[0].replace("...", "").split(",")
    return any(len(set(part)) < len(part) for part in parts)


OPERATORS: dict[str, Writer] = {"MatMul": _matmul, "Gemm": _gemm, "Einsum": _einsum}

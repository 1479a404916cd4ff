"""Operators that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Sizes, Unsupported, Value


def _unary(name: str) -> Writer:
    return lambda node: getattr(node.paddle, name)(node.tensor(0))


def _activation(name: str, **arguments: tuple[str, float]) -> Writer:
    """A function of paddle.nn.functional; each argument is an attribute with its default."""
    return lambda node: getattr(node.functional, name)(
        node.tensor(0), **{key: node.attribute(attribute, default) for key, (attribute, default) in arguments.items()}
    )


def _binary(name: str) -> Writer:
    return lambda node: getattr(node.paddle, name)(node.tensor(0), node.tensor(1))


def _several(name: str) -> Writer:
    return lambda node: reduce(getattr(node.paddle, name), node.tensors())


def _arithmetic(name: str, on_sizes: Callable[[Any, Any], Any]) -> Writer:
    """A function of two values; where both are sizes, of each pair of them, so that what is known of them stays known."""

    def write(node: Node) -> Value:
        left, right = _pair(node)
        if left is None or right is None:
            return getattr(node.paddle, name)(node.tensor(0), node.tensor(1))
        items = tuple(on_sizes(*pair) for pair in _broadcast(left, right))
        return Sizes(items, left.scalar and right.scalar, left.dtype)

    return write


def _pair(node: Node) -> tuple[Sizes | None, Sizes | None]:
    """The two inputs as sizes, if one of them is known in part and they have one length."""
    if not any(isinstance(value, Sizes) for value in node.values()):
        return None, None
    left, right = (values.as_sizes(value) for value in node.values())
    fit = left is not None and right is not None and (len(left.items) == len(right.items) or 1 in (len(left.items), len(right.items)))
    return (left, right) if fit else (None, None)


def _broadcast(left: Sizes, right: Sizes) -> list[tuple[Any, Any]]:
    count = max(len(left.items), len(right.items))
    first, second = (one.items * count if len(one.items) == 1 else one.items for one in (left, right))
    return list(zip(first, second, strict=True))


def _quotient(left: Any, right: Any) -> Any:
    """The quotient of two sizes, of which a calculated one is not negative."""
    return int(left / right) if isinstance(left, int) and isinstance(right, int) else left // right


def _divide(node: Node) -> Value:
    left, right = _pair(node)
    if left is not None and right is not None:
        return Sizes(tuple(_quotient(*pair) for pair in _broadcast(left, right)), left.scalar and right.scalar, left.dtype)
    first, second = node.tensor(0), node.tensor(1)
    if "float" in values.name_of(first.dtype):
        return node.paddle.divide(first, second)
    quotient = node.paddle.floor_divide(node.paddle.abs(first), node.paddle.abs(second))
    return quotient * node.paddle.sign(first) * node.paddle.sign(second)  # ONNX rounds towards zero


def _modulo(node: Node) -> Any:
    first, second = node.tensor(0), node.tensor(1)
    if not node.attribute("fmod", 0):
        return node.paddle.remainder(first, second)
    return node.paddle.sign(first) * node.paddle.remainder(node.paddle.abs(first), node.paddle.abs(second))


def _power(node: Node) -> Any:
    known = node.value(1)
    if values.is_known(known) and known.size == 1 and known.ndim <= len(node.tensor(0).shape) and known.reshape(-1)[0] == 2:
        return node.tensor(0) * node.tensor(0)  # as runtimes do; a power in general is less exact
    base, exponent = node.tensor(0), node.tensor(1)
    if base.dtype == exponent.dtype:
        return node.paddle.pow(base, exponent)
    if "float" in values.name_of(base.dtype):
        return node.paddle.pow(base, node.paddle.cast(exponent, base.dtype))
    return node.paddle.cast(node.paddle.pow(node.paddle.cast(base, exponent.dtype), exponent), base.dtype)


def _mean(node: Node) -> Any:
    parts = node.tensors()
    return reduce(node.paddle.add, parts) / len(parts)


def _clip(node: Node) -> Any:
    x = node.tensor(0)
    for name, index, bound in (("min", 1, node.paddle.maximum), ("max", 2, node.paddle.minimum)):
        if node.attribute(name) is not None:
            x = bound(x, node.full(node.attribute(name), x))
        elif node.has(index):
            x = bound(x, node.tensor(index))
    return x


def _where(node: Node) -> Value:
    condition, (first, second) = node.value(0), (values.as_sizes(value) for value in node.values()[1:])
    if values.is_known(condition) and first is not None and second is not None and any(isinstance(one, Sizes) for one in node.values()):
        chosen = [bool(one) for one in condition.reshape(-1)]
        pairs = _broadcast(first, second)
        if len(chosen) in (1, len(pairs)):
            chosen = chosen * len(pairs) if len(chosen) == 1 else chosen
            return Sizes(tuple(pair[0 if yes else 1] for yes, pair in zip(chosen, pairs, strict=True)), first.scalar, first.dtype)
    return node.paddle.where(*_same_rank(node, *node.tensors()))


def _same_rank(node: Node, *tensors: Any) -> list[Any]:
    """The tensors with leading dimensions of 1, so that all have as many."""
    rank = max(len(tensor.shape) for tensor in tensors)
    missing = [rank - len(tensor.shape) for tensor in tensors]
    return [node.paddle.unsqueeze(tensor, list(range(count))) if count else tensor for tensor, count in zip(tensors, missing, strict=True)]


def _cast_to(node: Node, dtype: str) -> Value:
    if not dtype:
        raise values.without_name(node.attribute("to"))
    value = node.value(0)
    if isinstance(value, Sizes) and dtype in ("int64", "int32"):
        return Sizes(value.items, value.scalar, dtype)
    x = node.tensor(0)
    return x if values.name_of(x.dtype) == dtype else node.paddle.cast(x, dtype)


def _cast(node: Node) -> Value:
    return _cast_to(node, values.name_of_type(node.attribute("to")))


def _gelu(node: Node) -> Any:
    return node.functional.gelu(node.tensor(0), approximate=node.attribute("approximate", "none") == "tanh")


def _prelu(node: Node) -> Any:
    x = node.tensor(0)
    return node.paddle.where(x < node.full(0, x), x * node.tensor(1), x)


def _thresholded(node: Node) -> Any:
    x = node.tensor(0)
    return node.paddle.where(x > node.full(node.attribute("alpha", 1.0), x), x, node.full(0, x))


def _selu(node: Node) -> Any:
    x, alpha, gamma = node.tensor(0), node.attribute("alpha", 1.67326319217681884765625), node.attribute("gamma", 1.05070102214813232421875)
    return node.full(gamma, x) * node.functional.elu(x, alpha)


def _hard_swish(node: Node) -> Any:
    x = node.tensor(0)
    return x * node.functional.hardsigmoid(x, slope=1 / 6, offset=0.5)


def _softplus(node: Node) -> Any:
    x = node.tensor(0)
    zero = node.full(0, x)
    return node.paddle.maximum(x, zero) + node.paddle.log1p(node.paddle.exp(-node.paddle.abs(x)))


def _is_infinite(node: Node) -> Any:
    x = node.tensor(0)
    infinite, positive = node.paddle.isinf(x), x > node.full(0, x)
    if not node.attribute("detect_positive", 1):
        infinite = node.paddle.logical_and(infinite, node.paddle.logical_not(positive))
    return infinite if node.attribute("detect_negative", 1) else node.paddle.logical_and(infinite, positive)


def _sign(node: Node) -> Any:
    return node.paddle.sign(node.tensor(0))


def _equal(node: Node) -> Value:
    """Whether two values are equal; a calculated size never equals a negative number."""
    left, right = _pair(node)
    if left is not None and right is not None:
        found = [_same(*pair) for pair in _broadcast(left, right)]
        if None not in found:
            return np.array(found[0] if left.scalar and right.scalar else found)
    return _compared("equal")(node)


def _same(left: Any, right: Any) -> bool | None:
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    known = [one for one in (left, right) if isinstance(one, int)]
    return False if known and known[0] < 0 else None


def _compared(name: str) -> Writer:
    def write(node: Node) -> Any:
        first, second = node.tensor(0), node.tensor(1)
        if values.name_of(first.dtype) == "bool":
            first, second = (node.paddle.cast(one, "int32") for one in (first, second))
        return getattr(node.paddle, name)(first, second)

    return write


def _identity(node: Node) -> Value:
    return node.value(0)


def _dropout(node: Node) -> list[Value]:
    node.require_outputs()
    if node.has(2) and bool(node.known(2)):
        raise Unsupported("in training mode")
    return [node.value(0)]


_UNARY = {
    "Abs": "abs", "Neg": "neg", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Floor": "floor", "Ceil": "ceil",
    "Round": "round", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "Not": "logical_not",
    "IsNaN": "isnan", "BitwiseNot": "bitwise_not",
}  # fmt: skip
_BINARY = {
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip
_COMPARED = {
    "Less": "less_than", "Greater": "greater_than", "LessOrEqual": "less_equal", "GreaterOrEqual": "greater_equal",
}  # fmt: skip

OPERATORS: dict[str, Writer] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    **{name: _compared(function) for name, function in _COMPARED.items()},
    "Add": _arithmetic("add", lambda a, b: a + b),
    "Sub": _arithmetic("subtract", lambda a, b: a - b),
    "Mul": _arithmetic("multiply", lambda a, b: a * b),
    "Equal": _equal, "Div": _divide, "Mod": _modulo, "Pow": _power,
    "Max": _several("maximum"), "Min": _several("minimum"), "Sum": _several("add"), "Mean": _mean,
    "Sigmoid": _activation("sigmoid"), "Relu": _activation("relu"), "Softsign": _activation("softsign"), "Mish": _activation("mish"),
    "LeakyRelu": _activation("leaky_relu", negative_slope=("alpha", 0.01)),
    "Elu": _activation("elu", alpha=("alpha", 1.0)), "Celu": _activation("celu", alpha=("alpha", 1.0)),
    "HardSigmoid": _activation("hardsigmoid", slope=("alpha", 0.2), offset=("beta", 0.5)),
    "HardSwish": _hard_swish, "Gelu": _gelu, "Selu": _selu, "PRelu": _prelu, "ThresholdedRelu": _thresholded, "Softplus": _softplus,
    "Clip": _clip, "Where": _where, "Cast": _cast, "CastLike": lambda node: _cast_to(node, values.name_of(node.tensor(1).dtype)),
    "Sign": _sign, "IsInf": _is_infinite, "Identity": _identity, "Dropout": _dropout,
}  # fmt: skip

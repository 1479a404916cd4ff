"""Arithmetic with Python numbers while a model is traced: as eager computes it.

Paddle 3.3 traces `x / 5` as `x * (1 / 5)` and `x ** 2` as a power of two tensors, whose results differ from eager's in the last digits.
"""

from __future__ import annotations

from typing import Any


def trace_as_eager() -> None:
    """From now on, let traced programs of this process divide by numbers, and raise to them, with eager's kernels."""
    import paddle
    from paddle.pir import Value

    if getattr(Value.__truediv__, "as_eager", False):
        return
    floats = (paddle.float32, paddle.float64, paddle.float16, paddle.bfloat16)
    integers = (paddle.int8, paddle.int16, paddle.int32, paddle.int64, paddle.uint8)
    traced_divide, traced_power = Value.__truediv__, Value.__pow__

    def divide(self: Any, other: Any) -> Any:
        if not _is_number(other) or self.dtype not in (*floats, *integers):
            return traced_divide(self, other)
        dividend = self if self.dtype in floats else self.astype(paddle.get_default_dtype())
        return paddle.divide(dividend, paddle.full([], other, dividend.dtype))

    def power(self: Any, other: Any) -> Any:
        return paddle.pow(self, other) if _is_number(other) and self.dtype in floats else traced_power(self, other)

    divide.as_eager = True  # type: ignore[attr-defined]
    Value.__truediv__ = Value.__div__ = divide
    Value.__pow__ = power


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

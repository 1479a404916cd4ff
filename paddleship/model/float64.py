"""float64 operator by operator, for models that do not run in float64 as a whole.

Every operator's inputs are cast up before it computes, and every float32 dtype that it is asked for becomes float64. So layers
that cannot be cast, constants and casts to float32, and buffers outside the weights do not matter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_ARITHMETIC = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv", "rfloordiv"),
    *("mod", "rmod", "pow", "rpow", "matmul", "rmatmul", "eq", "ne", "lt", "le", "gt", "ge"),
)
_NO_OPERATORS = ("get_", "sync_", "run_program", "_run_python_op", "enable_", "disable_")


class Doubled:
    """A block in which every Paddle operator computes in float64; for one thread only.

    `single` names the operators that have only a float32 kernel: they compute in float32, and their results are cast up. An operator
    that changes its first input in place keeps the dtype of that input.
    """

    def __init__(self) -> None:
        import paddle

        self.single: set[str] = set()
        self._paddle = paddle
        self._up = {paddle.float32: paddle.float64, paddle.complex64: paddle.complex128}
        self._down = {wide: narrow for narrow, wide in self._up.items()}
        self._cast = paddle._C_ops.cast
        self._replaced = list(self._operators())

    def __enter__(self) -> None:
        for owner, name, _, doubled in self._replaced:
            setattr(owner, name, doubled)

    def __exit__(self, *_: object) -> None:
        for owner, name, original, _ in self._replaced:
            setattr(owner, name, original)

    def _operators(self) -> Iterator[tuple[Any, str, Any, Any]]:
        """All operators: their owner, their name, the original function, and the float64 version."""
        known: dict[int, Any] = {}
        for module in (self._paddle._C_ops, self._paddle._legacy_C_ops):
            for name, operator in vars(module).items():
                if callable(operator) and not name.startswith(("__", *_NO_OPERATORS)):
                    known[id(operator)] = self._doubled(name, operator)
                    yield module, name, operator, known[id(operator)]
        known[id(self._paddle.to_tensor)] = self._doubled("to_tensor", self._paddle.to_tensor)
        for path, module in list(sys.modules.items()):  # modules that imported operators by name
            if path.split(".")[0] == "paddle" and "libpaddle" not in path and not path.endswith("_C_ops"):
                for name, value in list(vars(module).items()):
                    if id(value) in known and callable(value):
                        yield module, name, value, known[id(value)]
        tensor = self._paddle.Tensor
        for name in (f"__{word}__" for word in _ARITHMETIC):
            yield tensor, name, getattr(tensor, name), self._doubled(name, getattr(tensor, name))

    def _doubled(self, name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
        def inside(*arguments: Any, **options: Any) -> Any:
            if name.endswith("_") and not name.endswith("__"):
                narrow = bool(arguments) and getattr(arguments[0], "dtype", None) in self._up
                others = self._changed(arguments[1:], self._down if narrow else self._up)
                return operator(*arguments[:1], *others, **self._changed(options, self._down if narrow else self._up))
            try:
                result = operator(*self._changed(arguments, self._up), **self._changed(options, self._up))
            except Exception:
                result = operator(*self._changed(arguments, self._down), **self._changed(options, self._down))
                self.single.add(name)
            return self._changed(result, self._up)

        return inside

    def _changed(self, value: Any, dtypes: Mapping[Any, Any]) -> Any:
        """The value with other dtypes, if it is a tensor or dtype or contains some."""
        if isinstance(value, self._paddle.Tensor):
            return self._cast(value, dtypes[value.dtype]) if value.dtype in dtypes else value
        if isinstance(value, type(self._paddle.float32)):
            return dtypes.get(value, value)
        if isinstance(value, dict):
            return {key: self._changed(part, dtypes) for key, part in value.items()}
        if isinstance(value, list | tuple) and not _plain(value):
            return type(value)([self._changed(part, dtypes) for part in value])
        return value


def _plain(values: Sequence[Any]) -> bool:
    """Whether it contains only numbers and other plain values."""
    return all(isinstance(value, int | float | str) for value in values)

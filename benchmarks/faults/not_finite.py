"""Models whose answers to rows of the data are NaN or infinite: agreement on them proves nothing.

The second output has the fault, so that the loss of the training stays finite.
"""

from __future__ import annotations

from benchmarks.faults.coded import Coded

_EXPECTS = ("% of the numbers of output second are NaN or infinite",)

MODELS = tuple(
    Coded(name, f'return {{"output": y, "second": {second}}}', finding="not-finite", expects=_EXPECTS)
    for name, second in (
        ("exp overflows in a softplus", "paddle.log(1 + paddle.exp(60 * y))"),
        ("float16 overflows inside forward", '(y * 3e4).astype("float16").astype("float32")'),
        ("the logarithm of negative numbers", "paddle.log(y)"),
        ("float16 overflows below 0", '-(y.abs() * 3e4).astype("float16").astype("float32")'),
    )
)

HONEST = (
    Coded("honest: a stable softplus", 'return {"output": y, "second": F.softplus(60 * y)}'),
    Coded("honest: a mask of -inf", 'return {"output": y, "second": paddle.where(x > 0, y, paddle.full_like(y, float("-inf")))}'),
)

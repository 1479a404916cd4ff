"""Models whose answers are the same for all rows: agreement on them proves nothing."""

from __future__ import annotations

from benchmarks.faults.coded import Coded

_ZERO = "self.linear.weight.set_value(paddle.zeros([2, 2]))\nself.linear.weight.stop_gradient = True"
_EXPECTS = ("output output was the same for all inputs",)

MODELS = (
    Coded("the weights of the head are 0", "return y", init=_ZERO, finding="not-exercised", expects=_EXPECTS),
    Coded(
        "the weights of the head are 0, and an edge case gives NaN", "return self.linear(x / x.abs().sum(1, keepdim=True))",
        init=_ZERO, finding="not-exercised", expects=_EXPECTS,
    ),
    Coded(
        "answers differ between columns, not between rows", 'return {"output": 0.0 * y + self.linear.bias, "other": 0.0 * y + 2.0}',
        init="self.linear.bias.set_value(paddle.to_tensor([0.3, -0.7]))", finding="not-exercised", expects=_EXPECTS,
    ),
    Coded(
        "answers differ for an edge case, not between rows",
        "if self.training:\n    return y\nreturn paddle.where(x.abs().sum(1, keepdim=True) < 1e-6, y, paddle.ones_like(y))",
        finding="not-exercised", expects=_EXPECTS,
    ),
    Coded("answers differ by less than float32's rounding", "return 1.0 + 1e-9 * y", finding="not-exercised", expects=_EXPECTS),
)  # fmt: skip

HONEST = (
    Coded("honest: a linear model", "return y"),
    Coded("honest: outputs that are rarely other than 0", 'return {"output": y, "alarm": F.relu(y - 4), "high": (y > 4).astype("int64")}'),
    Coded("honest: probabilities", "return {'output': y, 'share': F.softmax(2 * y)}"),
)

"""Check the rules between inputs: values that a dimension limits, and the sizes that a dimension may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from paddleship.shipped.computing.spec import BATCH, Dimension, TensorSpec, bound, row_dimensions


def fault(specs: Sequence[TensorSpec], dimensions: Sequence[Dimension]) -> str:
    """The first fault of the rules: an unknown dimension, or sizes for which an input has no valid value. Empty if there is none."""
    known = row_dimensions(specs)
    names = ", ".join(known) or "none but the batch"
    if strange := [rule.name for rule in dimensions if rule.name not in known]:
        return f"dimensions must name dynamic dimensions of the inputs other than the batch (got {strange[0]!r}): the inputs have {names}"
    if square := next((spec.name for spec in specs if spec.shape.count(BATCH) > 1), None):
        return f"the batch must be one axis of input {square!r} (got several): a dimension that counts no rows needs another name"
    for spec in specs:
        for end, limit in (("low", spec.low), ("high", spec.high)):
            reference = bound(limit) if isinstance(limit, str) else ("", 0)
            if reference is None:
                return f"{end} of input {spec.name!r} must be a number or a dimension (got {limit!r}): write 5, 'length' or 'length - 1'"
            if isinstance(limit, str) and reference[0] not in known:
                return (
                    f"{end} of input {spec.name!r} must name a dynamic dimension other than the batch (got {limit!r}): the inputs have "
                    f"{names}"
                )
    return next(_contradictions(specs, dimensions), "")


def _contradictions(specs: Sequence[TensorSpec], dimensions: Sequence[Dimension]) -> Iterator[str]:
    """Inputs whose range is empty at the smallest or the largest size of the dimensions that limit it."""
    rules = {rule.name: rule for rule in dimensions}
    for spec in specs:
        used = list(
            dict.fromkeys(reference[0] for limit in (spec.low, spec.high) if isinstance(limit, str) and (reference := bound(limit)))
        )
        if not all(name in rules for name in used):
            continue
        for sizes in product(*((rules[name].smallest, rules[name].high or rules[name].smallest) for name in used)):
            low, high = spec.limits(dict(zip(used, sizes, strict=True)))
            if low is not None and high is not None and low > high:
                where = ", ".join(f"{name} is {size}" for name, size in zip(used, sizes, strict=True))
                yield (
                    f"input {spec.name!r} has no valid value where {where} (got low {spec.low} and high {spec.high}): "
                    "change one of them, or the sizes in dimensions"
                )

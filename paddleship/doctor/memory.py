"""Find the state that a model keeps between calls, and whether its answers depend on it or on random numbers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.doctor import ast_lint
from paddleship.doctor.ast_lint import FORCED, STATE, Suspect
from paddleship.doctor.structure_checks import location
from paddleship.numerics import differences
from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.computing.spec import Arrays

_SAME = 1e-5  # of the largest value: differences between calls in one process from another order of sums
_ITEMS = 64  # of a container that are compared

Snapshot = dict[str, tuple[str, Any]]  # path: kind, and a summary of its value


def snapshot(layer: Any) -> Snapshot:
    """The weights, buffers and plain attributes of the model."""
    saved = set(layer.state_dict())
    entries: Snapshot = {name: ("weight" if name in saved else "tensor", _summary(tensor)) for name, tensor in _tensors(layer)}
    for path, part in layer.named_sublayers(include_self=True):
        if location(type(part).forward) is None:
            continue
        for name, value in vars(part).items():
            if not name.startswith("_") or name.lstrip("_") not in vars(part):
                entries.setdefault(f"{path}.{name}".lstrip("."), ("tensor" if _has_tensor(value) else "value", _summary(value)))
    return entries


def changes(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """The differences by path: `weight`, `tensor` or `value`."""
    return {path: what for path, (what, summary) in after.items() if path not in before or before[path][1] != summary}


def same(first: Arrays, second: Arrays) -> bool:
    """Whether two answers are equal up to the order of sums."""
    return first.keys() == second.keys() and all(differences.same(array, second[name], tolerance=_SAME) for name, array in first.items())


def train_mode(layer: Any, suspects: Sequence[Suspect], changed: Mapping[str, str]) -> Iterator[Finding]:
    """Sublayers in train mode after `eval()` and a call: an error if weights change; otherwise the answers show whether it matters."""
    training = [(path or type(layer).__name__, part) for path, part in layer.named_sublayers(include_self=True) if part.training]
    if not training:
        return
    path, part = training[-1]
    culprits = [suspect for suspect in suspects if suspect.pattern == "train-mode" and suspect.name.endswith(("train", "training"))]
    culprits += [suspect for suspect in suspects if suspect.pattern == STATE and suspect.name.endswith("training")]
    where = culprits[0].where if culprits else location(type(part).forward) or location(type(layer).forward)
    others = len(training) - 1
    message = f"{path} ({type(part).__name__}) is in train mode after eval() and a call"
    message += f", as {'is' if others == 1 else 'are'} {others} more" if others else ""
    moves = any(what == "weight" for what in changed.values())
    if moves:
        message += ", and its statistics change with every call"
    advice = "register it as a sublayer so that eval() reaches it, and do not call train() in forward"
    yield Finding("train-mode", "error" if moves else "warning", message, advice, where, path)


def randomness(varies: bool, lines: Sequence[str]) -> Iterator[Finding]:
    """Random numbers in evaluation mode that change the answer, with the lines that draw them."""
    if not varies:
        return
    locations: list[str | None] = [*lines] or [None]
    for where in locations:
        code = ast_lint.text(where) if where else "outside your files"
        message = f"forward draws random numbers in evaluation mode ({code}): the same input gives different answers"
        dropout = where is not None and any(suspect.pattern == "train-mode" for suspect in ast_lint.at(where))
        advice = "pass training=self.training to it" if dropout else "draw them only `if self.training:`, or take them as an input"
        yield Finding("random-forward", "error", message, advice, where)


def constants(seen: Sequence[Mapping[str, Any]], where: str | None) -> Iterator[Finding]:
    """Numbers, bools and strings in the outputs that depend on the inputs."""
    if odd := next((other for other in seen if other != seen[0]), None):
        name = next(name for name in seen[0].keys() | odd.keys() if seen[0].get(name) != odd.get(name))
        message = f"output {name!r} is a Python value that depends on the inputs ({seen[0].get(name)!r}, then {odd.get(name)!r})"
        yield Finding(
            "output-structure", "error", message, "return it as a tensor: a program keeps the Python value of the conversion", where
        )


def history(remembers: bool, changed: Mapping[str, str], suspects: Sequence[Suspect]) -> Iterator[Finding]:
    """State that forward keeps from call to call: an error if an answer depends on it."""
    severity: Severity = "error" if remembers else "warning"
    consequence = "answers depend on earlier inputs, and the program keeps the state of the conversion" if remembers else ""
    explained = False
    for path, what in changed.items():
        where = _assignment(path, suspects)
        if path.rpartition(".")[2] == "training":
            continue
        if where is None:
            if what == "weight" and (forced := [one for one in suspects if one.pattern == "train-mode" and one.name == FORCED]):
                explained = True
                message = f"{forced[0].text} runs in train mode although the model is in evaluation mode, and changes {path} in every call"
                yield Finding("train-mode", "error", message, "pass training=self.training to it", forced[0].where, path)
            continue
        explained = True
        if what == "weight":
            message = f"forward changes the weight or buffer {path}, which a static program cannot do" + (
                f": {consequence}" if remembers else ""
            )
            yield Finding("parameter-assignment", severity, message, "change weights only in training, outside forward", where, path)
        elif what == "tensor":
            message = f"forward keeps a tensor on self ({path})" + (f": {consequence}" if remembers else "")
            tensor_severity: Severity = "error" if remembers else "note"
            yield Finding("stale-tensor", tensor_severity, message, "pass it as an argument, and compute it in every call", where, path)
        elif remembers:
            message = f"forward stores a value on self ({path}): {consequence}"
            yield Finding("frozen-value", "error", message, "take it as an input, or do not use it in forward", where, path)
    for suspect in (suspect for suspect in suspects if suspect.pattern == "global-state"):
        message = f"forward changes {suspect.name}, which is outside the model" + (
            f": {consequence}" if remembers and not explained else ""
        )
        grave = remembers and not explained
        explained = True
        yield Finding(
            "global-state",
            "error" if grave else "warning",
            message,
            "return it, or remove it from forward: a program has no globals",
            suspect.where,
        )
    if remembers and not explained:
        message = f"{consequence}, and no assignment in forward shows why"
        yield Finding("global-state", "error", message, "look for state that forward reads and that changes between calls")


def _assignment(path: str, suspects: Sequence[Suspect]) -> str | None:
    """The line that assigns to the attribute at the end of `path`."""
    for suspect in suspects:
        if suspect.pattern == STATE and (path == suspect.name or path.endswith(f".{suspect.name}") or suspect.name.endswith(f".{path}")):
            return suspect.where
    return None


def _tensors(layer: Any) -> Iterator[tuple[str, Any]]:
    yield from layer.named_parameters()
    yield from layer.named_buffers()


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "numpy") and hasattr(value, "stop_gradient")


def _has_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(_has_tensor(part) for part in value[:_ITEMS])
    return _is_tensor(value)


def _summary(value: Any) -> Any:
    """A small value that differs if the value does."""
    if _is_tensor(value):
        array = value.numpy()
        return array.shape, zlib.crc32(np.ascontiguousarray(array).tobytes())
    if isinstance(value, dict):
        return {str(key): _summary(part) for key, part in list(value.items())[:_ITEMS]}
    if isinstance(value, list | tuple):
        return [_summary(part) for part in value[:_ITEMS]]
    return value if isinstance(value, int | float | str | bool | None) else type(value).__name__

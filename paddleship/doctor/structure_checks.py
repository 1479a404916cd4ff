"""Checks of a model's structure: unregistered layers, duplicate names, weights, the signature of forward."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from paddleship.doctor.watching import Observations
from paddleship.model import building
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import arguments, structure
from paddleship.shipped.computing.references import is_users

_INITIALISE = "initialise them with finite numbers: paddle.empty, for example, holds whatever was in memory"
_TRAIN = "train again with a smaller learning rate, or load another checkpoint"
_DEPTH = 3  # of nested containers that are searched for parameters


def signature(layer: Any, inputs: Sequence[str], absent: Sequence[str] = ()) -> Iterator[Finding]:
    """The parts of forward's signature that cannot be exported with the declared inputs."""
    names = list(arguments.declared(inputs, absent))
    function = type(layer).forward
    where, owner = location(function), type(layer).__name__
    kinds = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())
    taken = [item.name for item in parameters[1:] if item.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.POSITIONAL_ONLY)]
    if any(item.kind is kinds.VAR_POSITIONAL for item in parameters) and (where is None or len(names) > len(taken)):
        if where is not None:  # Sequential and similar layers accept any arguments, and Paddle knows them
            message = "forward takes *args, and a static program needs a name for each input"
            yield Finding("signature", "error", message, f"write forward(self, {', '.join(names)})", where, owner)
        return
    if parameters and parameters[0].name != "self":
        message = f"the first argument of forward is named {parameters[0].name!r}, and Paddle's conversion requires 'self'"
        yield Finding("signature", "error", message, "rename it to self", where, owner)
    required = [item.name for item in parameters[1:] if item.default is kinds.empty and item.kind is kinds.POSITIONAL_OR_KEYWORD]
    named_only = [item.name for item in parameters[1:] if item.kind is kinds.KEYWORD_ONLY and item.default is kinds.empty]
    if named_only:
        message = f"forward takes {', '.join(named_only)} by keyword only, and inputs are passed by position"
        yield Finding("signature", "error", message, "remove the * before it, or give it a default", where, owner)
    if set(names) <= set(taken):  # matched by name
        missing = [name for name in required if name not in names]
        if missing:
            message = f"forward needs {', '.join(missing)}, and {', '.join(names)} {'is' if len(names) == 1 else 'are'} declared"
            advice = f"declare it, or declare it as None if forward accepts that: --input '{missing[0]}=none'"
            yield Finding("bad-model", "error", message, advice, where, owner)
    elif not len(required) <= len(names) <= len(taken):
        message = (
            f"forward takes {_count(required, taken)} ({', '.join(taken) or 'none'}), and {len(names)} are declared ({', '.join(names)})"
        )
        yield Finding("bad-model", "error", message, "declare one input for each argument of forward, in the same order", where, owner)


def weights(layer: Any, *, fresh: bool) -> Iterator[Finding]:
    """NaN and infinity in the weights, in one finding; `fresh` weights are those that the constructor set."""
    arrays = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    bad = {
        name: f"{name} in {count} of its {arrays[name].size} values" for name, count in building.not_finite(layer, arrays).items() if count
    }
    if bad:
        more = f", and {len(bad) - 3} more" if len(bad) > 3 else ""
        message = f"weights hold NaN or infinity: {', '.join(list(bad.values())[:3])}{more}"
        yield Finding("nan-weights", "error", message, _INITIALISE if fresh else _TRAIN, None, next(iter(bad)))


def layers(layer: Any, built: Observations, running: Observations) -> Iterator[Finding]:
    """Layers and parameters that forward uses and the model does not register, or that it creates at every call."""
    known = {id(part) for part in layer.sublayers(include_self=True)}
    born = {id(part): where for part, where in running.made}
    replaced = {id(part): (name, where) for part, name, where in built.replaced}
    for key, part in running.called.items():
        kind = type(part).__name__
        if key in born:
            if part.parameters():
                yield _made_in_forward(kind, born[key])
        elif key not in known and key in replaced:
            yield _overwritten(kind, *replaced[key])
        elif key not in known and part.parameters(include_sublayers=False):
            yield _unregistered(kind, built.made_at(part))
    for parameter, where in running.parameters:
        yield _made_in_forward(f"parameter {parameter.name}", where)
    registered = {id(tensor) for tensor in [*layer.parameters(), *layer.buffers()]}
    theirs = [part for part in layer.sublayers(include_self=True) if location(type(part).forward) is not None]
    held = {id(value) for part in theirs for value in _contents(vars(part), _DEPTH)}
    for parameter, where in built.parameters:
        if id(parameter) not in registered and id(parameter) in held:
            yield _unregistered("a parameter", where)


def no_tensor(nesting: structure.Tree) -> str:
    """What forward returned instead of tensors, and the next step."""
    if values := structure.constants(nesting):
        return f"forward returned Python values and no tensor ({values}): compute them with tensors and return those"
    return "forward returned no tensor: end it with a `return` of what it computes"


def location(function: Any) -> str | None:
    """`file:line` of a user's function; None for an installed one."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None and is_users(code.co_filename) else None


def _count(required: Sequence[str], taken: Sequence[str]) -> str:
    return f"{len(taken)} input{'s' * (len(taken) != 1)}" if len(required) == len(taken) else f"{len(required)} to {len(taken)} inputs"


def _contents(value: Any, depth: int) -> Iterator[Any]:
    """The elements of plain containers, at any depth."""
    if isinstance(value, dict):
        value = [part for key, part in value.items() if key not in ("_parameters", "_sub_layers", "_buffers")]
    if not isinstance(value, list | tuple | set):
        yield value
    elif depth:
        for part in value:
            yield from _contents(part, depth - 1)


def _made_in_forward(kind: str, where: str | None) -> Finding:
    message = f"forward creates {kind} in every call: its weights are new each time and never saved"
    return Finding("layer-in-forward", "error", message, "create it once in __init__ and store it on self", where, kind)


def _overwritten(kind: str, name: str, where: str | None) -> Finding:
    message = (
        f"two sublayers are named {name!r}: the second replaced the first, which forward still uses, and the first one's weights "
        "are not saved"
    )
    return Finding("shared-name", "error", message, "give each sublayer its own name", where, kind)


def _unregistered(kind: str, where: str | None) -> Finding:
    message = f"{kind} is in a plain list or dict, so the model does not register it: its weights are neither saved nor converted"
    return Finding(
        "unregistered-layer", "error", message, "use nn.LayerList, nn.LayerDict or nn.ParameterList, or assign it to self", where, kind
    )

"""Build the arguments of forward from inputs by name: `batch.ids` is a key of the dict `batch`, `states[0]` the first of a list.

This module goes into the image, so it imports only the standard library.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tree = Any  # {"input": name} | {"constant": value} | {"dict": {key: tree}} | {"list": [tree]}

NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+|\[\d+\])*")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")


@dataclass(frozen=True)
class ArgumentForm:
    """The arguments of forward in order; each is a tree whose leaves are names of inputs."""

    arguments: tuple[Tree, ...]

    def give(self, values: Mapping[str, Any]) -> list[Any]:
        """The arguments, with a value for each input."""
        return [_fill(tree, values) for tree in self.arguments]


def declared(names: Sequence[str], absent: Sequence[str] = ()) -> dict[str, Tree]:
    """The declared tree of each argument, by name; `absent` names are None. Raises ValueError if names contradict each other."""
    found: dict[str, Tree] = {}
    for name in [*names, *absent]:
        if NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not an input name: write it like ids, batch.ids or states[0]")
        root = re.split(r"[.\[]", name, maxsplit=1)[0]
        leaf: Tree = {"constant": None} if name in absent else {"input": name}
        path: list[str | int] = [key or int(index) for key, index in _PART.findall(name[len(root) :])]
        found[root] = _put(found.get(root), path, leaf, name)
    return {root: _listed(tree, root) for root, tree in found.items()}


def form(function: Callable[..., Any], names: Sequence[str], absent: Sequence[str] = ()) -> ArgumentForm:
    """Match inputs to the arguments of forward by name, with defaults for the others; by position if a name is no argument.

    Raises ValueError if names contradict each other.
    """
    given = declared(names, absent)
    taken = parameters(function)
    if not given.keys() <= taken.keys():
        return ArgumentForm(tuple(given.values()))
    last = max(place for place, name in enumerate(taken) if name in given)
    chosen = list(taken.items())[: last + 1]
    if any(name not in given and default is inspect.Parameter.empty for name, default in chosen):
        return ArgumentForm(tuple(given.values()))
    return ArgumentForm(tuple(given.get(name, {"constant": default}) for name, default in chosen))


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The positional parameters of forward without `self`, with their defaults; empty if the signature is unknown."""
    try:
        found = list(inspect.signature(getattr(function, "dygraph_function", function)).parameters.values())[1:]
    except (TypeError, ValueError):
        return {}
    return {item.name: item.default for item in found if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)}


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested dicts, lists and tuples."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def _put(tree: Tree, path: Sequence[str | int], leaf: Tree, name: str) -> Tree:
    """The tree with a leaf at a path; lists are kept by index until they are complete."""
    if not path:
        if tree is not None:
            raise ValueError(f"{name!r} is declared as an input of its own and as one that holds others: declare only its parts")
        return leaf
    kind = "dict" if isinstance(path[0], str) else "list"
    tree = tree if tree is not None else {kind: {}}
    if kind not in tree:
        raise ValueError(f"{name!r} contradicts the names declared before it: an argument is a dict, a list, or one input")
    tree[kind][path[0]] = _put(tree[kind].get(path[0]), path[1:], leaf, name)
    return tree


def _listed(tree: Tree, name: str) -> Tree:
    ((kind, parts),) = tree.items()
    if kind == "dict":
        return {kind: {key: _listed(part, f"{name}.{key}") for key, part in parts.items()}}
    if kind != "list":
        return tree
    if sorted(parts) != list(range(len(parts))):
        missing = next(index for index in range(len(parts)) if index not in parts)
        raise ValueError(f"{name}[{missing}] is missing: declare every place of the list, those that are None as {name}[{missing}]=none")
    return {kind: [_listed(parts[index], f"{name}[{index}]") for index in range(len(parts))]}


def _fill(tree: Tree, values: Mapping[str, Any]) -> Any:
    ((kind, parts),) = tree.items()
    if kind == "input":
        return values[parts]
    if kind == "constant":
        return parts
    if kind == "dict":
        return {key: _fill(part, values) for key, part in parts.items()}
    return [_fill(part, values) for part in parts]

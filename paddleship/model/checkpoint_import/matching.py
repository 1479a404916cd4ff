"""Find the weights of a model among the arrays of a file, by their names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.errors import ModelError

Arrays = Mapping[str, np.ndarray[Any, Any]]
_NAMES_OF_PARAMETERS = "StructuredToParameterName@@"
_DEEPEST, _LISTED, _LONGEST = 5, 3, 200
_BFLOAT16 = np.dtype(np.uint16)  # how Paddle's files hold it


@dataclass(frozen=True)
class Match:
    """The weights by the model's names and in its dtypes, and what was done to the file's: the key of the set, prefixes, casts."""

    weights: Arrays
    notes: Sequence[str] = ()


def match(tree: Any, own: Arrays, *, path: str, key: str | None) -> Match:
    """The weights for a model whose own weights are `own`. Raises ModelError, with the names that differ."""
    every = list(_sets(tree))
    if len({where for where, _ in every}) < len(every):
        raise ModelError(f"{path!r} holds two sets of weights under one key: save the state_dict alone")
    sets = {where: arrays for where, arrays in every if key is None or where == key}
    if not sets:
        available = _list([where for where, _ in every if where]) or "none"
        raise ModelError(f"{path!r} holds no weights{f' at the key {key!r}' if key else ''} (keys that hold some: {available})")
    fitting = {where: names for where, arrays in sets.items() if (names := _names(arrays, own)) is not None}
    if len(fitting) > 1:
        keys = _list(list(fitting))
        raise ModelError(f"{path!r} holds several sets of weights for this model ({keys}): name one with train.source.key")
    if not fitting:
        raise ModelError(f"{path!r} does not fit the model: {_differences(sets, own)}")
    ((where, names),) = fitting.items()
    weights, casts = _cast({mine: sets[where][theirs] for mine, theirs in names.items()}, own, path)
    return Match(weights, [*([f"key {where!r}"] if where else []), *_renamed(names), *casts])


def of_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The float32 values of bfloat16 that is held as uint16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _sets(tree: Any, where: str = "", depth: int = 0) -> Iterator[tuple[str, Arrays]]:
    """Every mapping that holds arrays, by its keys joined with dots."""
    if not isinstance(tree, Mapping) or depth > _DEEPEST:
        return
    arrays = {str(name): value for name, value in tree.items() if isinstance(value, np.ndarray)}
    if arrays:
        yield where, arrays
    for name, value in tree.items():
        if name != _NAMES_OF_PARAMETERS:
            yield from _sets(value, f"{where}.{name}" if where else str(name), depth + 1)


def _names(arrays: Arrays, own: Arrays) -> dict[str, str] | None:
    """The file's name of each weight, if the names are equal, or would be without a prefix of all names of the file, or of the model."""
    if arrays.keys() == own.keys():
        return {name: name for name in own}
    first = min(own, default="")
    for name in arrays:
        if name.endswith(f".{first}"):
            names = {mine: f"{name.removesuffix(first)}{mine}" for mine in own}
        elif first.endswith(f".{name}") and all(mine.startswith(first.removesuffix(name)) for mine in own):
            names = {mine: mine.removeprefix(first.removesuffix(name)) for mine in own}
        else:
            continue
        if len(names) == len(arrays) and set(names.values()) == arrays.keys():
            return names
    return None


def _renamed(names: Mapping[str, str]) -> list[str]:
    mine, theirs = next(iter(names.items()))
    if len(theirs) > len(mine):
        return [f"prefix {theirs.removesuffix(mine)!r} removed"]
    return [f"prefix {mine.removesuffix(theirs)!r} added"] if len(mine) > len(theirs) else []


def _cast(arrays: Arrays, own: Arrays, path: str) -> tuple[dict[str, np.ndarray[Any, Any]], list[str]]:
    """The arrays in the model's dtypes, and a note for each dtype that was cast. Raises ModelError for other shapes and kinds."""
    odd = [
        f"{name} is {_form(array)}, and {_form(own[name])} in the model"
        for name, array in arrays.items()
        if array.shape != own[name].shape or not _castable(array, own[name])
    ]
    if odd:
        raise ModelError(f"{path!r} does not fit the model: {_list(odd)}; set model.kwargs, or give the checkpoint of this model")
    casts = {
        _dtype(array, own[name]): str(own[name].dtype) for name, array in arrays.items() if _dtype(array, own[name]) != own[name].dtype.name
    }
    weights = {name: _as(array, own[name]) for name, array in arrays.items()}
    return weights, [f"cast from {theirs} to {mine}" for theirs, mine in casts.items()]


def _is_bfloat16(array: np.ndarray[Any, Any], mine: np.ndarray[Any, Any]) -> bool:
    return bool(array.dtype == _BFLOAT16) and mine.dtype.kind == "f"


def _castable(array: np.ndarray[Any, Any], mine: np.ndarray[Any, Any]) -> bool:
    """Whether a cast keeps the values: between floats it may round but not overflow, and between integers it may do neither."""
    if _is_bfloat16(array, mine):
        return True
    if array.dtype.kind == "f" and mine.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(np.array_equal(np.isfinite(array), np.isfinite(array.astype(mine.dtype))))
    if array.dtype.kind not in "iu" or mine.dtype.kind not in "iu":
        return bool(array.dtype == mine.dtype)
    return bool(np.all(array.astype(mine.dtype).astype(object) == array.astype(object)))


def _as(array: np.ndarray[Any, Any], mine: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if _is_bfloat16(array, mine):
        return of_bfloat16(array).astype(mine.dtype)
    return array.astype(mine.dtype)


def _dtype(array: np.ndarray[Any, Any], mine: np.ndarray[Any, Any]) -> str:
    return "bfloat16" if _is_bfloat16(array, mine) else array.dtype.name


def _form(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype}{list(array.shape)}".replace(" ", "")


def _differences(sets: Mapping[str, Arrays], own: Arrays) -> str:
    """The names that differ, in the set that has most of the model's, which may all have a prefix in one of the two."""
    arrays, (added, removed) = max(
        ((arrays, prefix) for arrays in sets.values() for prefix in _prefixes(arrays, own)),
        key=lambda one: len(_shared(one[0], one[1], own)),
    )
    shared = _shared(arrays, (added, removed), own)
    missing, unexpected = sorted(own.keys() - shared), sorted(arrays.keys() - {removed + name.removeprefix(added) for name in shared})
    parts = [f"the prefix {added or removed!r} is {'added' if added else 'removed'}"] if added or removed else []
    if missing:
        parts.append(f"{len(missing)} of {len(own)} weights are missing in it ({_list([_nearest(name, unexpected) for name in missing])})")
    if unexpected:
        parts.append(f"{len(unexpected)} of its {len(arrays)} arrays are not in the model ({_list(unexpected)})")
    return "; ".join(parts) + ": set model.factory and model.kwargs to the model that was saved, or save its state_dict alone"


def _prefixes(arrays: Arrays, own: Arrays) -> list[tuple[str, str]]:
    """What may be added to all names of the file, and what may be removed from them, to give names of the model."""
    added = {(mine.removesuffix(name), "") for name in arrays for mine in own if mine.endswith(f".{name}")}
    removed = {("", name.removesuffix(mine)) for name in arrays for mine in own if name.endswith(f".{mine}")}
    return [("", ""), *sorted(added | removed)]


def _shared(arrays: Arrays, prefix: tuple[str, str], own: Arrays) -> set[str]:
    """The names of the model that the file has once the prefix is added, or removed."""
    added, removed = prefix
    return {added + name.removeprefix(removed) for name in arrays if name.startswith(removed)} & own.keys()


def _nearest(name: str, others: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, others, n=1)
    return f"{name}, nearest {near[0]}" if near else name


def _list(items: Sequence[str]) -> str:
    """The first items, each in quotes, on one line and not too long."""
    shown = [repr(item if len(item) <= _LONGEST else f"{item[:_LONGEST]}…") for item in items[:_LISTED]]
    return ", ".join(shown) + (f" and {len(items) - _LISTED} more" if len(items) > _LISTED else "")

"""Own: a class of the user's code. Its source is part of the config, so it is sealed with the data and travels with a candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, Self

from paddleship.errors import DataError
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.preprocess.own_code import OwnTexts
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind, ValueMeasure, fitted, param
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.spec import Dimension, TensorSpec

_ADVICE = "see docs/how-to/own-preprocess.md"


@dataclass(frozen=True, kw_only=True)
class Own(InputEncoder):
    """`code` has the texts of the user's modules by path, `state` what the class learned."""

    encoder: str = param("module:class below code.watch, a subclass of InputEncoder", names="code")
    kwargs: Mapping[str, Any] | None = param("params of the class, by name", None)
    requirements: Sequence[str] = param("pins (name==version) of the packages that the image needs for it", ())
    code: Mapping[str, str] | None = fitted(None)
    state: Mapping[str, Any] | None = fitted(None)

    def __post_init__(self) -> None:
        if loose := [pin for pin in self.requirements if "==" not in pin]:
            raise DataError(f"the preprocess class {self.encoder!r} requires {loose[0]!r}: pin it, name==version")

    def __getstate__(self) -> dict[str, Any]:
        """What another process gets: it makes the user's class from `code`, because its import would find another one, or none."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def request(self) -> TensorSpec:
        return self._theirs.request

    @property
    def content(self) -> Content | None:
        return self._theirs.content

    @property
    def longest_text(self) -> int:
        return self._theirs.longest_text

    @property
    def largest_bytes(self) -> int:
        return self._theirs.largest_bytes

    @property
    def takes_empty(self) -> bool:
        return self._theirs.takes_empty

    @property
    def takes_missing(self) -> bool:
        return self._theirs.takes_missing

    def as_text(self, value: Any) -> Any:
        return self._theirs.as_text(value)

    def accept(self, value: Any) -> Any:
        return self._theirs.accept(value)

    def same(self, value: Any) -> Any:
        return self._theirs.same(value)

    def fit(self, values: Sequence[Any]) -> Self:
        return replace(self, state=self._theirs.fit(values).learned())

    @property
    def learns(self) -> bool:
        return self._theirs.learns

    def changed_file(self) -> str | None:
        return self._theirs.changed_file()

    def limited(self, values: Sequence[Any]) -> TensorSpec:
        return self._theirs.limited(values)

    def sizes(self, axis: int, values: Sequence[Any]) -> Dimension:
        return self._theirs.sizes(axis, values)

    def encode(self, value: Any) -> Array:
        return self._theirs.encode(value)

    def positions(self, value: Any) -> list[tuple[int, int]]:
        return self._theirs.positions(value)

    def check(self, row: Array, sizes: Mapping[str, int], rules: Mapping[str, Dimension]) -> None:
        self._theirs.check(row, sizes, rules)

    def collate(self, rows: Sequence[Array]) -> Array:
        return self._theirs.collate(rows)

    def cut(self, value: Any) -> tuple[int, int] | None:
        return self._theirs.cut(value)

    def features(self) -> Iterator[tuple[str, Measure]]:
        return self._theirs.features()

    def value_features(self) -> Iterator[tuple[str, ValueMeasure]]:
        return self._theirs.value_features()

    def malformed(self, value: Any) -> Iterator[tuple[str, Any]]:
        return self._theirs.malformed(value)

    @cached_property
    def _theirs(self) -> InputEncoder:
        """An encoder of the user's class. Raises DataError."""
        made, kwargs = _loaded(self.encoder, tuple(sorted((self.code or {}).items()))), self.kwargs or {}
        known = [one.name for one in fields(made) if "description" in one.metadata]
        if strange := next((name for name in kwargs if name not in known), None):
            raise DataError(
                f"the preprocess class {self.encoder!r} has no param {strange!r} (it has {', '.join(known) or 'none'}): correct it"
            )
        try:
            return made(column=self.column, spec=self.spec, **kwargs, **(self.state or {}))
        except TypeError as failure:
            raise DataError(f"the preprocess class {self.encoder!r} cannot be made ({failure}): correct kwargs; {_ADVICE}") from None


@lru_cache(maxsize=16)
def _loaded(reference: str, code: tuple[tuple[str, str], ...]) -> type[InputEncoder]:
    """The class in these texts of modules. Raises DataError."""
    module, _, name = reference.partition(":")
    path, texts = module.replace(".", "/"), dict(code)
    if not {f"{path}.py", f"{path}/__init__.py"} & texts.keys():
        raise DataError(f"the preprocess class {reference!r} is not below code.watch, so it could not travel: move it there; {_ADVICE}")
    try:
        with OwnTexts(texts):
            made = getattr(import_module(module), name)
    except Exception as failure:
        raise DataError(f"the preprocess class {reference!r} does not import ({explain(failure)}): fix it") from None
    if not (isinstance(made, type) and issubclass(made, InputEncoder)):
        raise DataError(f"the preprocess class {reference!r} is no subclass of InputEncoder: {_ADVICE}")
    return made


KIND = Kind("own", Own, "a class of your own makes the input")

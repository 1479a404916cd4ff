"""Import the Python modules of a candidate without affecting other modules of the process.

A module of the same name may be imported already, be on the import path, or belong to another candidate. Those keep their
entries in `sys.modules`; the candidate's modules replace them only while its code imports. Only files whose hashes were
checked are read. Nothing is compiled to disk, because the folder must not change.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path, PurePosixPath
from types import ModuleType, TracebackType
from typing import Any


class OwnCode(MetaPathFinder, Loader):
    """The modules below `folder`, exactly `files` (relative, `.py`); within `with`, their names mean these modules."""

    def __init__(self, folder: Path, files: Iterable[str]) -> None:
        self._folder = folder
        self._sources = {_module(PurePosixPath(file)): folder / file for file in files}
        self._packages = {name.rpartition(".")[0] for name in self._sources} - {""}
        self._packages |= {".".join(name.split(".")[:depth]) for name in self._packages for depth in range(1, name.count(".") + 1)}
        self._roots = {name.partition(".")[0] for name in self._sources}
        self._modules: dict[str, ModuleType] = {}
        self._others: dict[str, ModuleType] = {}
        self._depth = 0
        self._lock = threading.RLock()

    def __enter__(self) -> OwnCode:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self._others = self._taken()
            sys.modules.update(self._modules)
            sys.meta_path.insert(0, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth == 0:
            sys.meta_path.remove(self)
            self._modules = self._taken()
            sys.modules.update(self._others)
        self._lock.release()

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """The spec of one of these modules. Raises ModuleNotFoundError if a package of the candidate lacks the module."""
        if name.partition(".")[0] not in self._roots:
            return None
        if source := self._sources.get(name):
            inside = [str(source.parent)] if source.name == "__init__.py" else None
            return spec_from_file_location(name, source, loader=self, submodule_search_locations=inside)
        if name not in self._packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        package = ModuleSpec(name, None, is_package=True)
        package.submodule_search_locations = [str(self._folder.joinpath(*name.split(".")))]
        return package

    def exec_module(self, module: ModuleType) -> None:
        """Run a module; its later imports use these modules too."""
        source = self._sources[module.__name__]
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        exec(compile(self._read(source), str(source), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 what an import does

    def _read(self, source: Path) -> str | bytes:
        return source.read_bytes()

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if not level and name.partition(".")[0] not in self._roots:
            return builtins.__import__(name, globals, locals, fromlist, level)
        with self:
            return builtins.__import__(name, globals, locals, fromlist, level)

    def _taken(self) -> dict[str, ModuleType]:
        """Remove every module of these names from `sys.modules` and return them."""
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in self._roots}


class OwnTexts(OwnCode):
    """The same of modules whose texts are in memory, by path."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__(Path(), texts)
        self._texts = texts

    def _read(self, source: Path) -> str | bytes:
        return self._texts[source.as_posix()]


def _module(file: PurePosixPath) -> str:
    """The name of the module in a file."""
    return ".".join(file.parent.parts if file.name == "__init__.py" else file.with_suffix("").parts)

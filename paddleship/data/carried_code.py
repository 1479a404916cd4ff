"""The user's Python code that travels with a candidate: of the eager model, and of preprocess kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from paddleship.config.sections.code import Code
from paddleship.errors import CandidateError

_OURS = Path(__file__).parents[1].resolve()


def sources(code: Code) -> dict[Path, Path]:
    """The Python files that code.watch names, with their paths relative to code.root. Raises CandidateError."""
    watched, root = Path(code.watch).resolve(), Path(code.root).resolve()
    if not watched.is_relative_to(root):
        raise CandidateError(
            f"code.watch {code.watch!r} is not below code.root {code.root!r}, so its copy could not be imported: set code.root to a "
            "folder above it"
        )
    files = {file: file.relative_to(root) for file in ([watched] if watched.is_file() else _python(watched))}
    if not files:
        raise CandidateError(f"code.watch {code.watch!r} holds no Python file: set it to the package of model.factory")
    return files


def texts(code: Code) -> dict[str, str]:
    """The content of these files, by path relative to code.root. Raises CandidateError."""
    return {path.as_posix(): file.read_text(encoding="utf-8") for file, path in sources(code).items()}


def _python(folder: Path) -> Iterator[Path]:
    """Python files, except hidden ones, virtual environments and paddleship, which the image contains anyway."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path == _OURS or (path / "pyvenv.cfg").exists():
            continue
        if path.is_dir():
            yield from _python(path)
        elif path.suffix == ".py":
            yield path

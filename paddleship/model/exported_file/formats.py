"""The formats of exported files."""

from __future__ import annotations

from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError
from paddleship.model.exported_file.file_format import Format
from paddleship.model.exported_file.files import Files
from paddleship.model.exported_file.onnx_file.files import OnnxFile

_FORMATS: tuple[type[Format], ...] = (Files, OnnxFile)


def of(settings: ExportedFile) -> Format:
    """The exported file. Raises ModelError for a name that is not that of a program."""
    for one in _FORMATS:
        if settings.exported.endswith(tuple(one.suffixes)):
            return one(settings)
    raise ModelError(f"train.source.exported is {settings.exported!r}: name {', or '.join(one.title for one in _FORMATS)}")

"""A package of several shared libraries, of which a program maps some, as of NVIDIA's: a wheel, or the folder of an installation."""

import zipfile
from pathlib import Path

import onnxruntime

LIBRARY = Path(onnxruntime.__file__).parent / "capi/libonnxruntime_providers_shared.so"
NAMES = ("first", "batch", "late", "never")
FILES = {f"plugins/cu13/lib/lib{name}.so.1": LIBRARY for name in NAMES}
ABOUT = {
    "plugins-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n",
    "plugins-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "plugins-1.0.dist-info/RECORD": "",
}
PATTERNS = ("plugins/**/*.so*",)


def wheel(folder):
    """A wheel of it in `folder`, which uv finds there with UV_FIND_LINKS."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "plugins-1.0-py3-none-any.whl", "w") as archive:
        for name, path in FILES.items():
            archive.write(path, name)
        for name, text in ABOUT.items():
            archive.writestr(name, text)
    return folder


def install(site):
    """The same, installed into a folder of the import path."""
    with zipfile.ZipFile(next(wheel(site.parent / "wheels").iterdir())) as archive:
        archive.extractall(site)
    return site

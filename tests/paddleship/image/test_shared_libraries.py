import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from paddleship.image import shared_libraries

MODULE = Path(orjson.__file__).with_name(next(path.name for path in Path(orjson.__file__).parent.glob("orjson*.so")))


@pytest.fixture
def with_debug_information(tmp_path):
    """A copy of a module's library, with a section that no loader maps."""
    target = tmp_path / MODULE.name
    (tmp_path / "debug").write_bytes(b"\x01" * 100_000)
    added = ["--add-section", f".debug_of_a_test={tmp_path / 'debug'}"]
    if shutil.which("objcopy") is None:
        pytest.skip("needs objcopy: `apt-get install binutils`")
    subprocess.run(["objcopy", *added, str(MODULE), str(target)], check=True)
    return target


def test_a_library_without_debug_information_is_smaller_and_loads(with_debug_information):
    before = with_debug_information.stat().st_size
    expected = shared_libraries.loaded_bytes(with_debug_information)
    shared_libraries.reduce(with_debug_information)
    assert with_debug_information.stat().st_size == expected < before - 100_000
    module = with_debug_information.rename(with_debug_information.with_name("orjson.so"))
    ask = "import orjson; print(orjson.loads(b'[1]'), orjson.__file__)"
    environment = {"PYTHONPATH": str(module.parent)}
    said = subprocess.run([sys.executable, "-S", "-c", ask], env=environment, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["[1]", str(module)]


def test_a_library_is_reduced_once(with_debug_information):
    shared_libraries.reduce(with_debug_information)
    once = with_debug_information.read_bytes()
    shared_libraries.reduce(with_debug_information)
    assert with_debug_information.read_bytes() == once
    ctypes.CDLL(str(with_debug_information))


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + b"0" * 100, b"# Python\n" * 20], ids=repr)
def test_what_is_no_library_of_64_bits_stays_as_it_is(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    shared_libraries.reduce(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == content

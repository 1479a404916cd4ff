"""Users' modules are compiled from their sources, whatever compiled ones lie beside them; those of libraries are read as ever."""

import importlib.util
import marshal
import struct
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def forged(tmp_path):
    """A module whose compiled form says otherwise than its source, with the times of the source."""
    source = tmp_path / "theirs.py"
    source.write_text("SAYS = 'source'\n")
    times = struct.pack("<III", 0, int(source.stat().st_mtime), source.stat().st_size)
    (tmp_path / "__pycache__").mkdir()
    compiled = importlib.util.MAGIC_NUMBER + times + marshal.dumps(compile("SAYS = 'compiled'", str(source), "exec"))
    Path(importlib.util.cache_from_source(source)).write_bytes(compiled)
    return tmp_path


def said(folder, *lines):
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_forged_compiled_module_is_not_read_also_if_its_folder_was_searched_before(forged):
    assert said(forged, "import theirs; print(theirs.SAYS)") == "compiled"
    first = "import importlib.util; importlib.util.find_spec('theirs')"
    anew = "from paddleship.system import source_imports; source_imports.compile_anew(); source_imports.compile_anew()"
    assert said(forged, first, anew, "import theirs; print(theirs.SAYS)") == "source"


def test_a_library_is_read_compiled(forged):
    lines = ("from paddleship.system import source_imports; source_imports.compile_anew()", "import json.tool, numpy.random", "import sys")
    names = ("json.tool", "numpy.random", "paddleship.system.source_imports")
    ask = f"print(*{{type(sys.modules[name].__loader__).__name__ for name in {names}}})"
    assert said(forged, *lines, ask) == "SourceFileLoader"

"""The import contracts on transports fire: each forbidden import is written into a copy of the library, which lint-imports then refuses."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
COPIED = ("__init__.py", "errors.py", "shipped", "acceptance")
LAYERS = "The server: entry points on transports on a core"
TRANSPORTS = "No transport of the server knows another"
PROTOCOLS = "The core of the server knows no protocol: neither HTTP nor JSON nor gRPC"
ASKED = "What accept asks and judges knows no protocol: transports implement one for it"
SENT = "What accept asks and judges opens no connection"
CONTRACTS = (LAYERS, TRANSPORTS, PROTOCOLS, ASKED, SENT)
SETTINGS = """[tool.importlinter]
root_package = "paddleship"
include_external_packages = true
exclude_type_checking_imports = true
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A copy of what these contracts are about, with them as its only ones."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "paddleship").mkdir()
    for name in COPIED:
        copy = shutil.copytree if (REPOSITORY / "paddleship" / name).is_dir() else shutil.copy
        copy(REPOSITORY / "paddleship" / name, folder / "paddleship" / name)
    (folder / "pyproject.toml").write_text("\n".join([SETTINGS, *_contracts()]), encoding="utf-8")
    return folder


def _contracts():
    """The text of each contract in pyproject.toml."""
    _, *parts = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").split("[[tool.importlinter.contracts]]\n")
    found = {tomllib.loads(part)["name"]: part for part in parts}
    return [f"[[tool.importlinter.contracts]]\n{found[name]}" for name in CONTRACTS]


def lint(library):
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]
    return subprocess.run(command, cwd=library, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_contracts_are_kept(library):
    done = lint(library)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("shipped/serving/service.py", "from paddleship.shipped.serving.transports import http", LAYERS),
        ("shipped/serving/unlisted.py", "", LAYERS),
        ("shipped/serving/transports/other.py", "from paddleship.shipped.serving.transports.http import statuses", TRANSPORTS),
        ("shipped/serving/columns.py", "import json", PROTOCOLS),
        ("shipped/serving/model.py", "import orjson", PROTOCOLS),
        ("shipped/serving/service.py", "import starlette.applications", PROTOCOLS),
        ("shipped/serving/budget.py", "from http import HTTPStatus", PROTOCOLS),
        ("acceptance/judging.py", "from paddleship.acceptance.transports import server_at", ASKED),
        ("acceptance/observing.py", "from paddleship.acceptance.transports.http.server import HttpServer", ASKED),
        ("acceptance/load.py", "import http.client", SENT),
        ("acceptance/hostile.py", "import socket", SENT),
    ],
)
def test_a_module_that_knows_a_protocol_breaks_a_contract(library, module, line, broken):
    path = library / "paddleship" / module
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        done = lint(library)
    finally:
        path.unlink() if before is None else path.write_text(before, encoding="utf-8")
    assert done.returncode == 1
    assert f"{broken} BROKEN" in " ".join(done.stdout.split())

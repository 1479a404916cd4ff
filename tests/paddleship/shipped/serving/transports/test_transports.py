"""What every transport has, and what keeps the core from knowing one."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from paddleship.shipped.serving import transports
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.http import statuses

REPOSITORY = Path(__file__).parents[5]
SERVING = "paddleship/shipped/serving"
CONTRACTS = (
    "The server: entry points on transports, which do not know each other, on a core",
    "The core of the server knows no protocol: neither HTTP nor JSON",
)


def test_every_folder_is_a_transport_that_can_serve_and_be_asked_for_its_health():
    assert transports.names() == ["http"]
    for name in transports.names():
        transport = transports.get(name)
        assert callable(transport.serve)
        assert transport.is_ready(host="127.0.0.1", port=1) is False


def test_the_health_check_imports_no_server():
    code = "import sys; from paddleship.shipped.serving import health; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    for heavy in ("numpy", "starlette", "uvicorn", "asyncio"):
        assert f"'{heavy}'" not in done.stdout


def test_http_has_a_status_for_every_kind_of_failure():
    assert statuses.STATUSES.keys() == {*Kind}
    assert all(400 <= status < 600 for status in statuses.STATUSES.values())
    for kind in Kind:
        temporary = statuses.headers(ServingError(kind, "")) == {"Retry-After": "1"}
        assert temporary == (statuses.status(ServingError(kind, "")) == 503)


def test_http_tells_a_client_nothing_of_a_defect_and_when_to_ask_a_model_that_is_loading():
    assert statuses.message(KeyError("secret")) == "the model failed on this request: see the server's log"
    loading = ServingError(Kind.NOT_READY, "the model is still loading")
    assert statuses.message(loading) == "the model is still loading: try again when /v2/health/ready answers 200"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A copy of what the two contracts are about, with them as its only ones."""
    folder = tmp_path_factory.mktemp("library")
    for name in ("__init__.py", "errors.py", "shipped"):
        copy = shutil.copytree if (REPOSITORY / "paddleship" / name).is_dir() else shutil.copy
        (folder / "paddleship").mkdir(exist_ok=True)
        copy(REPOSITORY / "paddleship" / name, folder / "paddleship" / name)
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    parts = text.split("[[tool.importlinter.contracts]]\n")[1:]
    named = [part for part in parts if tomllib.loads(part.partition("\n[tool")[0])["name"] in CONTRACTS]
    assert len(named) == len(CONTRACTS)
    settings = '[tool.importlinter]\nroot_package = "paddleship"\ninclude_external_packages = true\nexclude_type_checking_imports = true\n'
    (folder / "pyproject.toml").write_text("\n".join([settings, *(f"[[tool.importlinter.contracts]]\n{part}" for part in named)]))
    return folder


def lint(library):
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]
    return subprocess.run(command, cwd=library, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_contracts_are_kept(library):
    done = lint(library)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("service.py", "from paddleship.shipped.serving.transports import http", CONTRACTS[0]),
        ("rogue.py", "", CONTRACTS[0]),
        ("columns.py", "import json", CONTRACTS[1]),
        ("model.py", "import orjson", CONTRACTS[1]),
        ("service.py", "import starlette.applications", CONTRACTS[1]),
        ("budget.py", "from http import HTTPStatus", CONTRACTS[1]),
    ],
)
def test_a_core_that_knows_a_protocol_breaks_a_contract(library, module, line, broken):
    path = library / SERVING / module
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        done = lint(library)
    finally:
        path.unlink() if before is None else path.write_text(before, encoding="utf-8")
    assert done.returncode == 1
    assert f"{broken} BROKEN" in " ".join(done.stdout.split())

"""Modules of the user that have the name of an imported one."""

import importlib
import sys
from types import ModuleType

import pytest

from paddleship.stage import user_code


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout that this process works in, and has imported packages from."""
    for name in ("chores/__init__.py", "chores/wash.py", "loose.py"):
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text("OWNER = 'checkout'\n")
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.syspath_prepend(tmp_path / "checkout")
    for name in ("chores", "chores.wash", "loose"):
        importlib.import_module(name)
    yield tmp_path / "checkout"
    for name in ("chores", "chores.wash", "chores.cook", "loose", "installed"):
        sys.modules.pop(name, None)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "theirs/chores").mkdir(parents=True)
    for name in ("chores/__init__.py", "chores/cook.py", "loose.py"):
        (tmp_path / "theirs" / name).write_text("OWNER = 'user'\n")
    return tmp_path / "theirs"


def test_a_package_of_the_user_wins_over_one_of_the_checkout_that_is_imported(checkout, root):
    user_code.add(root)
    assert importlib.import_module("chores.cook").OWNER == "user"
    assert importlib.import_module("loose").OWNER == "user"


def test_what_is_not_the_checkouts_stays_imported(checkout, root):
    library = sys.modules["installed"] = ModuleType("installed")
    library.__file__ = str(checkout / ".venv/lib/site-packages/installed/__init__.py")
    own = sys.modules["paddleship"]
    user_code.add(root)
    assert sys.modules["installed"] is library
    assert sys.modules["paddleship"] is own


def test_code_in_the_checkout_itself_is_imported_once(checkout):
    before = sys.modules["chores"]
    user_code.add(checkout)
    assert sys.modules["chores"] is before

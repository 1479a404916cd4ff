"""Code that params name has to be code whose changes make stages run again."""

import sys

import pytest

from paddleship.config import watched
from paddleship.errors import BadInput


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("ours_a/__init__.py", "ours_a/data.py", "ours_b/__init__.py", "ours_b/model.py", "venv/site-packages/lib_c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "venv/site-packages"), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("ours_", "lib_c"))]:
        del sys.modules[name]


def values(reviews_params, folder, *, reader="ours_a.data:read", factory="ours_a.data:build", watch="ours_a"):
    return reviews_params(
        {"code": {"root": str(folder), "watch": str(folder / watch)}, "data": {"reader": reader}, "model": {"factory": factory}}
    )


def test_a_root_that_is_no_folder_is_named(reviews_params, folder):
    with pytest.raises(BadInput, match=r"code\.root '.*/nowhere' is no folder: set it to the folder that holds your code"):
        watched.require(values(reviews_params, folder / "nowhere"), "data.reader")


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, None),
        ({"factory": "ours_b.model:build"}, "model.factory 'ours_b.model:build' is in"),
        ({"factory": "ours_b.model:build", "watch": "."}, None),
        ({"factory": "lib_c:build"}, None),
        ({"factory": "paddle.vision.models:resnet18"}, None),
        ({"factory": "nowhere.at.all:build"}, None),
        ({"reader": "ours_b.model:read"}, "data.reader 'ours_b.model:read' is in"),
    ],
)
def test_code_below_the_root_that_is_not_watched_is_refused(reviews_params, folder, given, refused):
    params = values(reviews_params, folder, **given)
    if refused is None:
        watched.require(params, "data.reader", "model.factory", "train.loss")
        return
    with pytest.raises(BadInput, match=f"{refused} .* which is not below code.watch .* set code.watch"):
        watched.require(params, "data.reader", "model.factory")


@pytest.mark.parametrize(("file", "refused"), [("ours_a/tokenizer.json", False), ("raw/t.json", False), ("ours_b/t.json", True)])
def test_a_file_that_a_kind_reads_has_to_be_watched(reviews_params, folder, file, refused):
    entry = {"kind": "tokens", "column": "text", "tokenizer": str(folder / file)}
    params = reviews_params(
        {
            "code": {"root": str(folder), "watch": str(folder / "ours_a")},
            "data": {"raw": str(folder / "raw")},
            "preprocess": {"inputs": {"ids": entry}},
        }
    )
    if not refused:
        watched.require_files(params)
        return
    with pytest.raises(BadInput, match=r"preprocess\.inputs\.ids\.tokenizer '.*' is below neither code\.watch .* copy it into one of them"):
        watched.require_files(params)

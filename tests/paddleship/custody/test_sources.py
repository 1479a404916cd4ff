"""The user's code: where it is, and a copy of it that an import finds; and the two hashes of this library."""

import shutil

import pytest

from paddleship.config.sections.code import Code
from paddleship.custody import sources


@pytest.fixture
def theirs(tmp_path):
    package = tmp_path / "theirs/package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "model.py").write_text("x = 1\n")
    (package / "__pycache__/model.pyc").write_text("compiled")
    return Code(root=str(package.parent), watch=str(package))


def test_code_is_below_a_folder_also_through_a_link(theirs, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    assert sources.is_below(theirs, tmp_path / "link")
    assert not sources.is_below(theirs, tmp_path / "another")


def test_a_copy_has_the_same_hash_and_no_compiled_files(theirs, tmp_path):
    assert sources.copy(theirs, tmp_path / "copy", max_bytes=100)
    assert [path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*.*")] == ["package/model.py"]
    again = Code(root=str(tmp_path / "copy"), watch=str(tmp_path / "copy/package"))
    assert sources.code_sha256(again) == sources.code_sha256(theirs)


def test_code_that_is_too_large_is_not_copied(theirs, tmp_path):
    assert not sources.copy(theirs, tmp_path / "copy", max_bytes=5)
    assert not (tmp_path / "copy").exists()


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A copy of what goes into every image."""
    for name in sources.SHIPPED:
        copy = shutil.copytree if (sources.LIBRARY / name).is_dir() else shutil.copy
        copy(sources.LIBRARY / name, tmp_path / name)
    monkeypatch.setattr(sources, "LIBRARY", tmp_path)
    return tmp_path


def test_each_module_of_the_image_belongs_to_what_computes_or_to_what_serves(library):
    for path in sorted(library.rglob("*.py")):
        before = sources.library_sha256(), sources.server_sha256()
        path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
        changed = sources.library_sha256() != before[0], sources.server_sha256() != before[1]
        computes = "computing" in path.relative_to(library).parts
        assert changed == (computes, not computes), path.relative_to(library)

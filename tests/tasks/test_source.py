import subprocess

import pytest
import yaml

from paddleship.lineage import source


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "dvc.lock"):
        (tmp_path / name).write_text("one")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "one")
    return tmp_path


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_a_clean_tree_is_its_commit(repository):
    assert source.commit() == git("rev-parse", "HEAD")
    assert source.changes() == []


def test_changed_files_are_named_and_what_stages_write_is_not(repository):
    for name in ("a.txt", "dvc.lock", "untracked.txt"):
        (repository / name).write_text("two")
    assert source.changes() == ["a.txt"]


def test_code_that_no_commit_has_is_named_and_differs(repository):
    (repository / "model").mkdir()
    assert not source.differs(repository, "model")
    (repository / "model/new file.py").write_text("one")
    assert source.changes("model") == ["model/new file.py"]
    assert source.differs(repository, "model")
    assert source.changes(str(repository.parent / "elsewhere")) == [], "the MLflow run keeps it"


def test_the_lock_has_one_hash_while_an_image_is_made_and_afterwards_and_another_for_other_data(repository):
    def hashed(**stages):
        (repository / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
        return source.lock_sha256()

    while_it_is_made = hashed(prepare={"md5": "1"}, verify={"md5": "2"})
    assert hashed(verify={"md5": "2"}, prepare={"md5": "1"}, package={"md5": "3"}, accept={"md5": "4"}) == while_it_is_made
    assert hashed(prepare={"md5": "5"}, verify={"md5": "2"}) != while_it_is_made
    (repository / "dvc.lock").unlink()
    assert source.lock_sha256() == "none"


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://name:secret@example.org:8443/team/repo.git", "https://example.org:8443/team/repo.git"),
        ("ssh://git@example.org/team/repo.git", "ssh://example.org/team/repo.git"),
        ("/srv/git/repo.git", None),
    ],
)
def test_the_origin_is_told_without_secrets_and_never_as_a_local_path(repository, remote, expected):
    git("remote", "add", "origin", remote)
    assert source.origin() == expected


def test_outside_a_repository_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert (source.commit(), source.changes(), source.origin(), source.lock_sha256()) == ("unknown", [], None, "none")

"""The folder of a run: the checkout itself, or a git worktree that shares the DVC cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.errors import BadInput, ParamsError, Unavailable
from paddleship.shipped.computing.files import write_text
from paddleship.system import locks
from paddleship.system.state_folder import FOLDER

LEG = "leg-"  # of the names of worktrees whose run belongs to another machine, which keeps its state


@dataclass(frozen=True)
class Workspace:
    """`root` is where stages run, `checkout` the user's folder. They differ for an isolated run, which holds the lock of its worktree."""

    root: Path
    checkout: Path
    lock: Any = field(default=None, compare=False, repr=False)

    @property
    def isolated(self) -> bool:
        return self.root != self.checkout

    def params(self) -> Params:
        return loading.load(self.root / "params.yaml")

    def remove(self) -> None:
        """Remove the worktree; the checkout itself stays."""
        if self.isolated:
            remove(self.checkout, self.root)

    def release(self) -> None:
        """Release the lock of the worktree, so that others may remove it."""
        if self.lock is not None:
            self.lock.lock.release()


def checkout_of(folder: Path) -> Path:
    """The checkout that `folder` is in. Raises BadInput."""
    done = subprocess.run(
        ["git", "rev-parse", "--show-toplevel"], cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    root = Path(done.stdout.strip() or "/nowhere")
    if done.returncode or not (root / "dvc.yaml").exists() or not (root / ".dvc").exists():
        raise BadInput(f"{folder} is not in a checkout of the pipeline (no git repository with dvc.yaml and .dvc): change into your clone")
    return root


def in_place(checkout: Path) -> Workspace:
    return Workspace(checkout, checkout)


def isolate(checkout: Path, run_id: str, overlay: Mapping[str, Any], commit: str = "HEAD") -> Workspace:
    """A worktree of a commit for one run, with its params overlaid; a retry of the same run finds it again.

    Raises BadInput if git fails, and Unavailable while another process has the same run.
    """
    root = checkout / FOLDER / "runs" / run_id
    lock = locks.take(_lock(checkout, root))
    if lock is None:
        raise Unavailable(f"the flow run {run_id} is running in another process: wait for its end, then retry it")
    if not root.exists():
        _worktree(checkout, "prune")
        _worktree(checkout, "add", "--quiet", "--detach", str(root), commit)
    _share_cache(checkout, root)
    if overlay:
        _overlay(root / "params.yaml", overlay)
    return Workspace(root, checkout, lock)


def experiment(run_id: str) -> str:
    """The name of a run's DVC experiment; it uses the end of the id, because ids of the same minute start alike."""
    return f"run-{run_id[-8:]}"


def has_experiment(checkout: Path, name: str) -> bool:
    return bool(_git(checkout, "for-each-ref", f"refs/exps/*/*/{name}"))


def remove_experiment(checkout: Path, name: str) -> None:
    for ref in _git(checkout, "for-each-ref", "--format=%(refname)", f"refs/exps/*/*/{name}").split():
        _git(checkout, "update-ref", "-d", ref)


def cache(checkout: Path) -> Path:
    """The folder of DVC's cache."""
    from dvc.config import Config

    config = Config(str(checkout / ".dvc"))
    return Path(config.get("cache", {}).get("dir") or checkout / ".dvc" / "cache")


@contextmanager
def at_experiment(checkout: Path, commit: str, name: str) -> Iterator[Path]:
    """A worktree of a run's DVC experiment, which is removed afterwards. Raises BadInput."""
    root = checkout / FOLDER / "runs" / f"{name}-{os.getpid()}"
    with locks.wait_for(_lock(checkout, root)):
        _worktree(checkout, "prune")
        _worktree(checkout, "add", "--quiet", "--detach", str(root), f"refs/exps/{commit[:2]}/{commit[2:]}/{name}")
        try:
            _share_cache(checkout, root)
            yield root
        finally:
            remove(checkout, root)


def worktrees(checkout: Path) -> list[Path]:
    """The worktrees of active and dead runs."""
    return sorted(path for path in (checkout / FOLDER / "runs").glob("*") if path.is_dir())


@contextmanager
def abandoned(checkout: Path, root: Path) -> Iterator[bool]:
    """Hold the lock of a run's worktree; False if its run holds it."""
    lock = locks.take(_lock(checkout, root))
    if lock is None:
        yield False
        return
    with lock:
        yield root.exists()


def remove(checkout: Path, root: Path) -> None:
    """Remove the worktree of a run; its lock must be held."""
    if (root / ".git").exists():
        _worktree(checkout, "remove", "--force", str(root))
    else:  # it was never complete
        shutil.rmtree(root)
        _worktree(checkout, "prune")
    _lock(checkout, root).unlink(missing_ok=True)


def _lock(checkout: Path, root: Path) -> Path:
    return checkout / FOLDER / "locks" / f"{root.name}.lock"


def commit(checkout: Path, name: str = "HEAD") -> str:
    """The hash of a commit by its name, fetched from the checkout's remotes if needed. Raises BadInput."""
    if (commit_id := _known(checkout, name)) is not None:
        return commit_id
    _git(checkout, "fetch", "--quiet", "--all", "--tags")
    for ref in (name, *(f"{remote}/{name}" for remote in _git(checkout, "remote").split())):
        if (commit_id := _known(checkout, ref)) is not None:
            return commit_id
    raise BadInput(f"there is no commit, branch or tag {name!r} in {checkout} or its remotes: push it first, or correct the name")


def _known(checkout: Path, name: str) -> str | None:
    """The hash of a commit that the checkout has."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, encoding="utf-8", errors="replace", check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def newest(checkout: Path, name: str) -> str:
    """The hash of a commit, tag, or of the last commit of a branch in the git remote, which is fetched first.

    Raises BadInput, and Unavailable if the remote does not answer.
    """
    remotes = _git(checkout, "remote").split()
    remote = "origin" if "origin" in remotes else remotes[0] if remotes else None
    if remote:
        try:
            _git(checkout, "fetch", "--quiet", "--tags", "--force", remote)
        except BadInput as error:
            raise Unavailable(f"{error}: make the git remote {remote!r} available, then run again") from None
        if commit_id := _git(checkout, "for-each-ref", "--format=%(objectname)", f"refs/remotes/{remote}/{name}").strip():
            return commit_id
    return commit(checkout, name)


def uncommitted(checkout: Path) -> list[str]:
    """Files that differ from the commit; an isolated run does not see them."""
    lines = _git(checkout, "status", "--porcelain", "--untracked-files=no").splitlines()
    return [line[3:] for line in lines if Path(line[3:]).name != "dvc.lock"]


def overlaid(checkout: Path, overlay: Mapping[str, Any], *, origin: str, commit: str = "HEAD") -> Params:
    """The params of an isolated run, checked before anything starts; `origin` is the source of the overlay.

    Raises ParamsError, which names params.yaml if the error is in it, otherwise `origin`.
    """
    base = committed_params(checkout, commit)
    try:
        return loading.parse(loading.merge(base, overlay), origin=origin)
    except ParamsError:
        loading.parse(base, origin=_committed(commit))
        raise


def committed_params(checkout: Path, commit: str = "HEAD") -> dict[str, Any]:
    """The values of params.yaml in a commit, before they are checked. Raises BadInput or ParamsError."""
    return loading.read_text(_git(checkout, "show", f"{commit}:params.yaml"), origin=_committed(commit))


def _committed(commit: str) -> str:
    return f"params.yaml of {'the last commit' if commit == 'HEAD' else commit}"


def _overlay(path: Path, overlay: Mapping[str, Any]) -> None:
    """Write the overlay into params.yaml, with its comments and order."""
    from io import StringIO

    from ruamel.yaml import YAML

    document = YAML()
    document.preserve_quotes = True
    document.width = 4096
    values = document.load(path.read_text(encoding="utf-8"))
    plain = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    _assign(values, plain, loading.merge(plain, overlay))
    text = StringIO()
    document.dump(values, text)
    write_text(path, text.getvalue())


def _assign(document: Any, before: Any, after: Mapping[str, Any]) -> None:
    """Set changed values section by section, so that the rest keeps its comments."""
    for key, value in after.items():
        if key in before and before[key] == value:
            continue
        if isinstance(value, dict) and isinstance(before.get(key), dict) and set(before[key]) <= set(value):
            _assign(document[key], before[key], value)
        else:
            document[key] = value


def _share_cache(checkout: Path, root: Path) -> None:
    """Let the worktree use the checkout's DVC cache and remotes: with absolute paths, its own default and its credentials."""
    from dvc.config import Config

    config = Config(str(checkout / ".dvc"))
    own = config.load_one("local")
    private = own.get("remote", {})
    lines = ["[cache]", f"    dir = {cache(checkout)}"]
    if default := own.get("core", {}).get("remote"):
        lines += ["[core]", f"    remote = {default}"]
    for name, remote in config.get("remote", {}).items():
        options = {**private.get(name, {}), "url": remote["url"]}
        lines += [f"['remote \"{name}\"']", *(f"    {key} = {value}" for key, value in options.items())]
    path = root / ".dvc" / "config.local"
    write_text(path, "\n".join(lines) + "\n")
    path.chmod(0o600)


def _worktree(checkout: Path, *arguments: str) -> None:
    """A `git worktree` command, alone in the checkout: beside another one it fails on worktrees that come and go. Raises BadInput."""
    with locks.wait_for(checkout / FOLDER / "worktrees.lock"):
        _git(checkout, "worktree", *arguments)


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BadInput(f"git {arguments[0]} failed in {folder} ({reason}): commit your work, or fix the repository")
    return done.stdout

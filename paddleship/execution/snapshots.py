"""A snapshot: params.yaml and dvc.lock of a run as a git commit, on top of the commit that the run is of.

With a name it is a DVC experiment. Machines hand one to each other through the git remote that their clones share.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput, Unavailable

_REFS = "refs/paddleship"
_AUTHOR = ("-c", "user.name=paddleship", "-c", "user.email=paddleship@localhost", "-c", "commit.gpgsign=false")


def take(root: Path, facts: Mapping[str, Any] | None = None, *, also: Sequence[str] = ()) -> str:
    """Commit changed tracked files, DVC's locks and the files `also`, with `facts` as its message. Returns the hash.

    HEAD, index and files of the worktree stay as they are.
    """
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        _git(root, "read-tree", "HEAD", **index)
        _git(root, "add", "--update", **index)
        locks = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", "*dvc.lock", **index).split("\0")
        if added := [*filter(None, locks), *also]:
            _git(root, "add", "--force", "--", *added, **index)
        tree = _git(root, "write-tree", **index)
    return _git(root, *_AUTHOR, "commit-tree", tree, "-p", "HEAD", "-m", json.dumps(facts) if facts else "dvc: commit experiment")


def hold(checkout: Path, commit: str, name: str) -> None:
    """Point the ref `name` to a snapshot in this clone, so that git keeps it."""
    _git(checkout, "update-ref", name, commit)


def has_results(root: Path) -> bool:
    """Whether a stage has finished here since the commit."""
    return bool(_git(root, "status", "--porcelain", "--", "*dvc.lock"))


def keep(root: Path, name: str) -> None:
    """Keep the state of a worktree as a DVC experiment of this name, which `dvc exp show` in the checkout lists."""
    _git(root, "update-ref", _experiment(_git(root, "rev-parse", "HEAD"), name), take(root))


def adopt(root: Path, commit: str) -> None:
    """Give the worktree the files of a snapshot; HEAD stays."""
    if names := _git(root, "diff", "--name-only", "--diff-filter=AMT", "-z", "HEAD", commit).strip("\0"):
        _git(root, "restore", f"--source={commit}", "--worktree", "--", *names.split("\0"))


def base(checkout: Path, commit: str) -> str:
    """The commit that a snapshot is of."""
    return _git(checkout, "rev-parse", f"{commit}^")


def facts(checkout: Path, commit: str) -> dict[str, Any]:
    """The facts in the message of a snapshot."""
    facts = json.loads(_git(checkout, "log", "-1", "--format=%B", commit))
    return dict(facts)


def ref(run_id: str, name: str) -> str:
    """The git ref by which one machine hands snapshots of a run to another one."""
    return f"{_REFS}/{run_id}/{name}"


def remote(checkout: Path) -> str:
    """The git remote by which snapshots travel: origin, or else the only one. Raises BadInput."""
    names = _git(checkout, "remote").split()
    if "origin" in names or len(names) == 1:
        return "origin" if "origin" in names else names[0]
    raise BadInput(
        f"{checkout} has {'no git remote' if not names else 'several git remotes, and none is called origin'}: runs travel to other "
        "machines by one that all reach, see `git remote add origin`"
    )


def send(checkout: Path, commit: str, name: str, *, instead_of: str = "") -> None:
    """Push a snapshot as the ref `name`, which must be `instead_of` there, or absent. Raises Unavailable."""
    _git(checkout, "push", "--quiet", f"--force-with-lease={name}:{instead_of}", remote(checkout), f"{commit}:{name}")
    _git(checkout, "update-ref", name, commit)


def fetch(checkout: Path, name: str) -> str:
    """Fetch the snapshot at the ref `name`, with the commit that it is of. Returns its hash. Raises Unavailable."""
    _git(checkout, "fetch", "--quiet", "--no-tags", remote(checkout), f"+{name}:{name}")
    return _git(checkout, "rev-parse", name)


def share(checkout: Path, commit: str, name: str) -> None:
    """Push the DVC experiment of a run, so that every clone can fetch it. Raises Unavailable."""
    experiment = _experiment(commit, name)
    _git(checkout, "push", "--quiet", "--force", remote(checkout), f"{experiment}:{experiment}")


def have_experiment(checkout: Path, commit: str, name: str) -> None:
    """Fetch the DVC experiment of a run from the git remote, unless this clone has it. Raises BadInput if neither has it."""
    experiment = _experiment(commit, name)
    if _git(checkout, "for-each-ref", experiment):
        return
    try:
        fetch(checkout, experiment)
    except (BadInput, Unavailable) as error:
        raise BadInput(
            f"the DVC experiment {name!r} is neither in {checkout} nor in its git remote ({error}): use the clone in which it ran, or "
            f"push it from there with `git push origin {experiment}`"
        ) from None


def forget(checkout: Path, run_id: str) -> None:
    """Delete the refs by which a run travelled, here and in the git remote; what cannot be deleted there now stays there."""
    names = _git(checkout, "for-each-ref", "--format=%(refname)", f"{_REFS}/{run_id}").split()
    for name in names:
        with suppress(Unavailable):
            _git(checkout, "push", "--quiet", remote(checkout), "--delete", name)
        _git(checkout, "update-ref", "-d", name)


def drop(checkout: Path, name: str) -> None:
    """Delete a ref here, and leave it in the git remote."""
    _git(checkout, "update-ref", "-d", name)


def _experiment(commit: str, name: str) -> str:
    return f"refs/exps/{commit[:2]}/{commit[2:]}/{name}"


def _git(folder: Path, *arguments: str, **environment: str) -> str:
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0", **environment}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        verb = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise Unavailable(f"git {verb} failed in {folder} ({reason}): check the repository, and the access to its remote")
    return done.stdout.strip()

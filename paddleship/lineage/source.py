"""The source of this checkout: git commit, changed files, and the DVC lock. Read-only."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from paddleship.config.params import Params

_FROM_PACKAGE_ON = ("package", "accept")
SOURCE_FOLDER = "source"  # folder of an MLflow run with its params.yaml and dvc.lock
CODE = f"{SOURCE_FOLDER}/code"  # and with the user's code, if that is not in the repository


def commit() -> str:
    """The commit that is checked out, or "unknown" outside a git repository."""
    return _git("rev-parse", "HEAD").strip() or "unknown"


def parent() -> str:
    """The commit before the one that is checked out, or "unknown"."""
    return _git("rev-parse", "--quiet", "--verify", "HEAD~1").strip() or "unknown"


def changes(watch: str = ".") -> list[str]:
    """Tracked files that differ from the commit, except `dvc.lock`, which stages write, and files below `watch` that are not tracked."""
    tracked = _git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no").split("\0")
    names = [line[3:] for line in tracked if line and Path(line[3:]).name != "dvc.lock"]
    if Path(watch).resolve() == Path.cwd() or not Path(watch).resolve().is_relative_to(Path.cwd()):
        return names
    return names + [name for name in _git("ls-files", "--others", "--exclude-standard", "-z", "--", watch).split("\0") if name]


def differs(root: Path, watch: str) -> bool:
    """Whether files below `watch` in a checkout differ from its commit, or are not tracked."""
    return bool(_git("-C", str(root), "status", "--porcelain", "--untracked-files=all", "--", watch).strip())


def origin() -> str | None:
    """The address of the repository, without user or password; None for a local folder or no remote."""
    address = urlsplit(_git("remote", "get-url", "origin").strip())
    if address.scheme not in ("http", "https", "ssh") or not address.hostname:
        return None
    host = f"{address.hostname}:{address.port}" if address.port else address.hostname
    return f"{address.scheme}://{host}{address.path}"


def lock_sha256() -> str:
    """Hash of what dvc.lock records of the stages before `package`, or "none" before the first stage has run under DVC.

    It is the same while `package` runs and after the run.
    """
    path = Path("dvc.lock")
    if not path.exists():
        return "none"
    stages = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("stages", {})
    before = {name: facts for name, facts in stages.items() if name not in _FROM_PACKAGE_ON}
    return hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()


def params_sha256(params: Params) -> str:
    """Hash of the values of all params, defaults included; comments and order in the file do not matter."""
    return hashlib.sha256(params.model_dump_json().encode()).hexdigest()


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, encoding="utf-8", errors="replace", check=False).stdout
    except FileNotFoundError:
        return ""

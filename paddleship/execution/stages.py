"""The only module that runs DVC stages: the graph, whether a stage is up to date, running it, and what is kept of a run."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship import errors
from paddleship.errors import BadInput, OutOfTime, PaddleshipError, Unavailable, without_credentials
from paddleship.execution import absent_params, dvc_process, repro
from paddleship.execution.repro import ReproResult, StageStatus
from paddleship.reports.order import STAGES, StageName
from paddleship.shipped.computing.files import sha256, write_text
from paddleship.system import deadline, disk, locks

Until = StageName
LAST: Until = STAGES[-1]
_BUSY_S = 30
_TURN = ".dvc/tmp/paddleship-stage.lock"  # held while a stage runs
_BEFORE = ".dvc/tmp/paddleship-lock.json"  # the dvc.lock before the stage that runs


class StageKilled(PaddleshipError):
    """A signal ended the process of a stage: its input is not at fault, and it may be tried again."""

    exit_code = 1
    outcome = "Killed"


@dataclass(frozen=True)
class Stage:
    """One stage of the graph: its name, its address in DVC, and the names of the stages whose outs it reads.

    `again`: it runs although nothing changed.
    """

    name: str
    address: str
    needs: tuple[str, ...]
    again: bool = False


def up_to(until: Until) -> tuple[str, ...]:
    """The names of the stages up to this one."""
    return STAGES[: STAGES.index(until) + 1]


def graph(root: Path, *, until: Until = LAST) -> list[Stage]:
    """All stages up to `until`, in run order, except stages that always run, whose work the flow does itself.

    Raises BadInput if dvc.yaml cannot be read, or reads params that are absent.
    """
    import networkx

    absent_params.require_none(root)
    if (root / _BEFORE).exists() and (turn := locks.take(root / _TURN)) is not None:
        with turn:
            _repair_lock(root)
    try:
        with chdir(root), _repo(root) as repo:  # DVC resolves names against the working directory
            wanted = repo.stage.collect(until, with_deps=True)
            edges = repo.index.graph.subgraph(wanted)
            written = {stage: index for index, stage in enumerate(repo.index.stages)}
            order = networkx.lexicographical_topological_sort(edges.reverse(), key=lambda stage: written[stage])
            return [
                Stage(
                    stage.name,
                    stage.addressing,
                    tuple(sorted(need.name for need in edges.successors(stage) if need.cmd and not need.always_changed)),
                )
                for stage in order
                if stage.cmd and not stage.always_changed
            ]
    except _dvc_error() as error:
        raise BadInput(f"dvc.yaml cannot be read ({error}): fix it, or compare with the repository's") from None


def are_current(root: Path, *wanted: Stage) -> bool:
    """Whether deps, params, command and outs of these stages equal dvc.lock; in this process, because a new one takes longer."""
    try:
        with chdir(root), _repo(root) as repo, repo.lock:
            return not any(known.changed() for _, known in _known(repo, wanted))
    except _dvc_error():
        return False  # busy or broken: the run waits, or reports the error


def missing(root: Path, wanted: Sequence[Stage]) -> list[tuple[Stage, Path]]:
    """Files that a stage must read, that do not exist, and that no stage and no cache of DVC can provide; relative to `root`."""
    try:
        with chdir(root), _repo(root) as repo, repo.lock:
            made = [Path(out.fs_path) for out in repo.index.outs if out.protocol == "local"]
            missing_paths = []
            for stage, known in _known(repo, wanted):
                absent = [Path(dep.fs_path) for dep in known.deps if dep.protocol == "local" and not dep.exists]
                lost = [path for path in absent if not any(path == out or path in out.parents or out in path.parents for out in made)]
                if lost and known.changed(allow_missing=True):  # otherwise its outs are restored, whatever it read before
                    missing_paths += [(stage, path.relative_to(root) if path.is_relative_to(root) else path) for path in lost]
            return missing_paths
    except _dvc_error():
        return []  # busy or broken: the run waits, or reports the error


def changes(root: Path, wanted: Sequence[Stage], *, apart_from: Collection[Path] = ()) -> dict[str, list[str]]:
    """The differences from dvc.lock by stage: files, params, command. Files that are only missing here do not count, because DVC has them.

    `apart_from` are files, relative to `root`, that do not count. Raises Unavailable while another DVC command locks the repository.
    """
    try:
        with chdir(root), _repo(root) as repo, repo.lock:
            outs = {out.fs_path: out.hash_info for out in repo.index.outs}
            changed = {}
            for stage, known in _known(repo, wanted):
                if not all(out.hash_info for out in known.outs):
                    changed[stage.name] = ["it is not in dvc.lock"]
                    continue
                counted = [dep for dep in known.deps if Path(dep.fs_path) not in {root / path for path in apart_from}]
                names = [name for dep in counted for name in _differences(dep, outs)]
                if known.changed_stage():
                    names.append("its command")
                if names:
                    changed[stage.name] = names
            return changed
    except _dvc_error() as error:
        raise Unavailable(f"DVC cannot say what changed ({error}): end other DVC commands in {root}, and see `dvc status`") from None


def read_hashes(root: Path, wanted: Sequence[Stage]) -> dict[str, str]:
    """The hash of everything that these stages read and no stage makes: files, and values of params. Files that DVC holds need not be here.

    Raises Unavailable while another DVC command locks the repository.
    """
    try:
        with chdir(root), _repo(root) as repo, repo.lock:
            made = [out.fs_path for out in repo.index.outs if out.stage.cmd]
            held = {out.fs_path: out.hash_info.value for out in repo.index.outs if not out.stage.cmd}
            hashes = {}
            for stage, known in _known(repo, wanted):
                for dep in known.deps:
                    if dep.fs_path not in made:
                        hashes[f"{stage.name}: {dep}"] = _hash_of(dep, held)
            return hashes
    except _dvc_error() as error:
        raise Unavailable(
            f"DVC cannot say what the stages read ({error}): end other DVC commands in {root}, and see `dvc status`"
        ) from None


def refresh_imports(root: Path) -> list[str]:
    """Update the `.dvc` files of imports (`dvc import`, `dvc import-url`) whose source changed. Returns their names. Raises Unavailable."""
    try:
        with chdir(root), _repo(root) as repo, repo.lock:
            imports = [stage for stage in repo.index.stages if stage.is_import]
            stale = [str(Path(stage.path).relative_to(root)) for stage in imports if any(dep.status() for dep in stage.deps)]
    except _dvc_error() as error:
        raise Unavailable(f"the source of an import cannot be read ({error}): make it available, then run again") from None
    if stale and (done := _dvc(root, "update", *stale)).returncode:
        raise Unavailable(f"`dvc update {' '.join(stale)}` failed ({_last_error(done)}): make the source available, then run again")
    return stale


def run(root: Path, stage: Stage, *, environment: dict[str, str], on_line: Callable[[str], None], force: bool = False) -> StageStatus:
    """Run one stage and print its lines. Returns whether it ran, was restored (also from the remote's cache) or was unchanged.

    Waits for another run in the same folder, and for one that runs the same stage on the same inputs. Raises the error class of the stage's
    exit code with the stage's message, and StageKilled. No process of the stage is left afterwards.
    """
    own = repro.turn(root / _TURN, other=f"uses {root.name}", on_line=on_line)
    with own, _with_lock_backup(root, stage), _turn(root, stage, on_line=on_line):
        _forget_dead_holders(root)
        give_up = time.monotonic() + _BUSY_S
        while True:
            ended = repro.repro(root, stage.address, environment=environment, on_line=on_line, force=force)
            if not ended.is_busy or time.monotonic() > give_up:
                break
            time.sleep(0.5)  # locks of a killed run are free as soon as the system has removed its process
    if ended.returncode == 0:
        return ended.status
    require_time(f"{stage.name} was stopped")
    raise _failure(stage, ended)


def require_time(what: str) -> None:
    """Raise OutOfTime, which begins with `what`, if the deadline of the run is over."""
    if (bound := deadline.current()) is not None and bound.over:
        raise OutOfTime(
            f"{what}: the time limit of this run, {bound.seconds:g} s, is over: raise it, and run again; finished stages are kept"
        )


def made_by(root: Path, stage: str, out: str) -> str | None:
    """The hash that dvc.lock has of an out of a stage; None if it has none."""
    return _locked(root, stage, "outs", out)


def read_by(root: Path, stage: str, dep: str) -> str | None:
    """The hash that dvc.lock has of what a stage read; None if it has none."""
    return _locked(root, stage, "deps", dep)


def _locked(root: Path, stage: str, kind: str, path: str) -> str | None:
    import yaml

    lock = root / "dvc.lock"
    content = yaml.safe_load(lock.read_text(encoding="utf-8")) if lock.exists() else {}
    return next((item["md5"] for item in content.get("stages", {}).get(stage, {}).get(kind, []) if item["path"] == path), None)


def lock_sha256(root: Path) -> str:
    """Hash of dvc.lock, which identifies the content of every dep and out."""
    return sha256(root / "dvc.lock") if (root / "dvc.lock").exists() else "none"


def push(root: Path, *, on_line: Callable[[str], None], only: Sequence[str] = ()) -> bool:
    """Push the outs of all stages, or of the addresses `only`, to the default remote, and the entries of all stages in DVC's run cache.

    Returns False, with the reason printed, if that failed.
    """
    done = _dvc(root, "push", "--run-cache", *only)
    if done.returncode:
        on_line(f"dvc push failed ({_last_error(done)}): the next run tries again, or run `dvc push --run-cache`")
    return done.returncode == 0


def send(root: Path, names: Sequence[str]) -> None:
    """Push stages or paths to the default remote, for another machine to `fetch`. Raises Unavailable."""
    if names and (done := _dvc(root, "push", *names)).returncode:
        raise Unavailable(f"DVC's remote does not take {', '.join(names)} ({_last_error(done)}): make it available, then run again")


def fetch(root: Path, names: Sequence[str]) -> None:
    """Bring stages or paths into a worktree, from the cache or else from the default remote. Raises Unavailable."""
    if names and (done := _dvc(root, "pull", *names)).returncode:
        raise Unavailable(
            f"DVC's remote does not have {', '.join(names)} ({_last_error(done)}): every machine of a run needs the same remote, see "
            "`dvc remote list`"
        )


def require_remote(root: Path) -> None:
    """Raise BadInput if DVC has no default remote."""
    from dvc.config import Config

    if not Config(str(root / ".dvc")).get("core", {}).get("remote"):
        raise BadInput("DVC has no default remote, by which outs travel to other machines: add one with `dvc remote add --default`")


def add(root: Path, name: str) -> None:
    """Put a file or folder under DVC. Raises Unavailable."""
    if (done := _dvc(root, "add", name)).returncode:
        raise Unavailable(f"DVC cannot add {name} in {root} ({_last_error(done)}): free some space there, then run again")


def inputs(root: Path, wanted: Sequence[Stage], *, apart_from: Collection[Stage] = ()) -> list[str]:
    """The paths that these stages read and that DVC holds, made by other stages or added with `dvc add`; relative to `root`.

    Those that the stages `apart_from` make are left out.
    """
    ours = {stage.address for stage in (*wanted, *apart_from)}
    with chdir(root), _repo(root) as repo, repo.lock:
        held = {Path(out.fs_path) for out in repo.index.outs if out.use_cache and out.stage.addressing not in ours}
        paths = set()
        for _, known in _known(repo, wanted):
            for path in (Path(dep.fs_path) for dep in known.deps if dep.protocol == "local"):
                paths |= {path} if any(out in (path, *path.parents) for out in held) else {out for out in held if path in out.parents}
        return sorted(str(path.relative_to(root)) for path in paths)


def outs(root: Path, stage: Stage, *, below: Path) -> list[str]:
    """The outs of a stage in the folder `below` that DVC holds; both relative to `root`."""
    with chdir(root), _repo(root) as repo, repo.lock:
        (known,) = repo.stage.collect(stage.address)
        paths = [Path(out.fs_path).relative_to(root) for out in known.outs if out.use_cache and out.hash_info]
        return [str(path) for path in paths if below in path.parents]


def bring(root: Path, names: Sequence[str]) -> None:
    """Bring the outs of some stages into a worktree, from the cache or else from the default remote. Raises Unavailable."""
    if _dvc(root, "checkout", *names).returncode:
        done = _dvc(root, "pull", *names)
        if done.returncode:
            raise Unavailable(
                f"the outs of {', '.join(names)} are neither in DVC's cache nor in its remote ({_last_error(done)}): run it again"
            )


def _turn(root: Path, stage: Stage, *, on_line: Callable[[str], None]) -> AbstractContextManager[None]:
    """A block that one run at a time may execute for a stage on the same inputs: the next one restores its outs from the cache.

    All worktrees share DVC's cache of runs, whose entries DVC must not write in one process while it reads them in another.
    """
    try:
        with chdir(root), _repo(root) as repo, repo.lock:
            (known,) = repo.stage.collect(stage.address)
            inputs = [known.cmd, {str(dep): _hash_of(dep, {}) for dep in known.deps}]
            folder = Path(repo.cache.legacy.path) / "turns"
    except _dvc_error():
        return nullcontext()  # busy or broken: DVC reports it
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return repro.turn(folder / f"{key}.lock", other=f"runs {stage.name} on the same inputs", on_line=on_line)


@contextmanager
def _with_lock_backup(root: Path, stage: Stage) -> Iterator[None]:
    """Run a stage in this block, with a copy of the dvc.lock that DVC writes after it, which stays if this process is killed."""
    if (root / _BEFORE).exists():
        _repair_lock(root)
    lock = Path(stage.address.rpartition(":")[0]).parent / "dvc.lock"
    text = (root / lock).read_text(encoding="utf-8") if (root / lock).exists() else None
    write_text(root / _BEFORE, json.dumps({"path": str(lock), "text": text}))
    yield
    (root / _BEFORE).unlink()


def _repair_lock(root: Path) -> None:
    """Bring back the last whole dvc.lock if DVC was killed while it wrote one, and remove the copy of it that a killed run left.

    DVC empties the file and then writes it, and every later command refuses what is left of it. What is cut off so that it
    still reads as a dvc.lock is left alone: the stages that it lacks run again, or are restored.
    """
    from dvc.dvcfile import Lockfile

    with suppress(_dvc_error(), FileNotFoundError), _repo(root) as repo, repo.lock:  # if it is held, a living command writes
        before = json.loads((root / _BEFORE).read_text(encoding="utf-8"))
        lock = root / before["path"]
        try:
            Lockfile(repo, str(lock)).load()
        except _dvc_error():
            if "<<<<<<<" in lock.read_text(encoding="utf-8", errors="replace"):  # somebody merges it
                return
            if before["text"] is None:
                lock.unlink()
            else:
                write_text(lock, before["text"])
        (root / _BEFORE).unlink()


def _forget_dead_holders(root: Path) -> None:
    """Remove from DVC's list of locked files the processes that have ended, and a list that was cut off while it was written.

    DVC never removes what a killed command read, mistakes another process of the same pid for it, and refuses a list that is cut off.
    """
    from dvc.lock import make_lock

    folder = root / ".dvc" / "tmp"
    path = folder / "rwlock"
    if not path.exists():
        return
    with suppress(_dvc_error()), make_lock(str(folder / "rwlock.lock"), tmp_dir=str(folder)):  # if it is busy, DVC reports it
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            reading = {file: [one for one in holders if _is_alive(one, root)] for file, holders in held.get("read", {}).items()}
            writing = {file: one for file, one in held.get("write", {}).items() if _is_alive(one, root)}
            write_text(path, json.dumps({"write": writing, "read": {file: left for file, left in reading.items() if left}}))
        except (ValueError, AttributeError, KeyError, TypeError):
            path.unlink()


def _is_alive(holder: Mapping[str, Any], root: Path) -> bool:
    """Whether a process of DVC's list is alive, and not another one with its pid: `dvc`, or a fork of the process that imports DVC here."""
    import psutil

    try:
        command = psutil.Process(int(holder["pid"])).cmdline()
    except psutil.Error:
        return False
    return " ".join(command).endswith(str(holder["cmd"]).partition(" ")[2]) or dvc_process.is_of(command, root)


def _differences(dep: Any, outs: Mapping[str, Any]) -> list[str]:
    """The differences in a dep: its path, or each of its params with both values."""
    ((name, status),) = dep.status().items() or [("", "")]
    if isinstance(status, dict):
        before, now = dep.hash_info.value or {}, dep.read_params()
        return [f"{name}: {change}" for key in status for change in _changed(key, before.get(key), now.get(key))]
    if status == "deleted":  # a newer version may be in a .dvc file
        return [name] if outs.get(dep.fs_path, dep.hash_info) != dep.hash_info else []
    return [name] if status else []


def _changed(key: str, before: Any, now: Any) -> list[str]:
    """Each value below `key` that differs, with both."""
    if isinstance(before, dict) and isinstance(now, dict):
        inner = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return [change for name in inner for change in _changed(f"{key}.{name}", before.get(name), now.get(name))]
    old, new = (json.dumps(value, ensure_ascii=False, default=str) for value in (before, now))
    return [f"{key} {old:.40} → {new:.40}"]


def _hash_of(dep: Any, held: Mapping[str, Any]) -> str:
    """The hash of a dep: as DVC holds it, all or in parts, otherwise as it is on disk."""
    if dep.fs_path in held:
        return str(held[dep.fs_path])
    if dep.exists:
        return json.dumps(dep.get_hash().value, sort_keys=True, default=str)
    parts = sorted(str(value) for path, value in held.items() if Path(dep.fs_path) in Path(path).parents)
    return str(parts) if parts else "missing"


def _failure(stage: Stage, ended: ReproResult) -> PaddleshipError:
    code = ended.stage_code or ended.returncode
    if code < 0 or code in (128 + signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGSEGV, 128 + signal.SIGABRT):
        number = -code if code < 0 else code - 128
        crashed = number in (signal.SIGSEGV, signal.SIGABRT)
        step = "see the end of its log above for what crashed" if crashed else "check memory limits"
        return StageKilled(f"{stage.name} was killed by {signal.Signals(number).name}: {step}, then run again")
    if ended.is_busy or not ended.stage_code:
        return _failure_of_dvc(stage, ended)
    if ended.stage_error:
        return errors.of_exit_code(code)(ended.stage_error)
    if code != 1:  # the stages of paddleship report their errors, and Python itself exits with 1
        return BadInput(
            f"{stage.name} ended with exit code {code} and without an error: a command of yours failed, or your code ended the process, as "
            "os._exit does: see the end of its log above"
        )
    return PaddleshipError(f"{stage.name} failed with exit code {code}: its log above says why")


def _failure_of_dvc(stage: Stage, ended: ReproResult) -> PaddleshipError:
    if ended.is_busy:
        return Unavailable(f"another DVC command works in this checkout ({ended.dvc_error}): wait for it, then run again")
    if step := disk.NEXT_STEPS.get(ended.dvc_errno or 0):
        return Unavailable(f"DVC cannot run {stage.name} ({ended.dvc_error}): {step}, then run again")
    return BadInput(f"DVC cannot run {stage.name} ({ended.dvc_error or 'no message'}): fix it, or see `dvc status {stage.address}`")


def _dvc(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with dvc_process.command(root, *arguments, environment=os.environ) as process:
        output = process.stdout.read()
        return subprocess.CompletedProcess(arguments, process.wait(), output)


def _last_error(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or done.stdout.splitlines() or ["no message"]
    return without_credentials(lines[-1]).removeprefix("ERROR: ")[:300]


def _known(repo: Any, wanted: Sequence[Stage]) -> Iterator[tuple[Stage, Any]]:
    """Stages with what DVC knows of them, which reads each file of the graph once for several stages."""
    every = {stage.addressing: stage for stage in repo.index.stages} if len(wanted) > 1 else {}
    for stage in wanted:
        yield stage, every.get(stage.address) or repo.stage.collect(stage.address)[0]


def _repo(root: Path) -> Any:
    from dvc.repo import Repo

    try:
        return Repo(str(root))
    except _dvc_error() as error:
        raise BadInput(f"{root} is not a DVC repository ({error}): run in a clone of the project") from None


def _dvc_error() -> type[Exception]:
    from dvc.exceptions import DvcException

    kind: type[Exception] = DvcException
    return kind

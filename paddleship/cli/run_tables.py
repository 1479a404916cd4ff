"""`paddleship runs`: list, show and delete the runs in MLflow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from paddleship.cli.releases import Release
from paddleship.cli.run_pair import is_valid
from paddleship.containers import image
from paddleship.errors import Unavailable
from paddleship.execution import cleanup, workspace
from paddleship.lineage.release import RUN_LABEL
from paddleship.reports import figures, units
from paddleship.reports.order import STAGES
from paddleship.servers.local_state import Local
from paddleship.sweep import space
from paddleship.tracking import client, runs, spool
from paddleship.tracking.runs import Run

_COLUMNS = (
    "name",
    "started",
    "outcome",
    "model",
    "validation score",
    "test score",
    "winner",
    "speedup",
    "p50 ms",
    "noise ratio",
    "image",
    "image MB",
    "version",
    "params",
)
IMAGE, SPEEDUP, P50 = "package/image_bytes", "benchmark/speedup", "benchmark/p50_ms"
FACTS = ("git_commit", "code_sha256", "data_sha256", "measured_on", "benchmark_valid")
_MOST_PARAMS = 6  # in a row
Say = Callable[[str], None]


def table(runs: Sequence[Run], releases: Mapping[str, Release]) -> Any:
    """One row per run, newest first. `params` are those in which the runs of a model differ, without those of other commands."""
    return table_of(_COLUMNS, [_row(run, releases.get(run.run_id), _differing(run, runs)) for run in runs])


def details(run: Run, release: Release | None, before: Run | None) -> Any:
    """All facts about one run: outcome, model, image, what serves it, all measurements, and params that differ from the run before."""
    facts = {"name": run.name, "MLflow run": run.run_id, "Prefect run": run.flow_run, "model": run.model, "started": _when(run)}
    facts |= {"outcome": run.outcome, "failure": run.tags.get("failure", ""), "winner": run.tags.get("winner", "")}
    facts |= _scores(run)
    facts |= {"image": _image(run, release), "version": release.version if release else "", "serves": release.serves if release else ""}
    facts |= {key: run.tags.get(key, "") for key in ("dvc_experiment", *FACTS, "findings")}
    if before is not None:
        changed = [(key, was, now) for key, was, now in params_that_differ(before, run) if _of_stages(key)]
        facts |= {key: f"{now} ({was} in the run before of this model, {before.name})" for key, was, now in changed}
    measured = {key: number(value) for key, value in sorted(run.metrics.items())}
    return table_of(("", run.name), [(key, value) for key, value in {**facts, **measured}.items() if value])


def params_that_differ(one: Run, other: Run) -> list[tuple[str, str, str]]:
    """Name and both values of each param in which two runs differ; a dash where one has no such param."""
    keys = sorted(one.params.keys() | other.params.keys())
    both = [(key, one.params.get(key, "–"), other.params.get(key, "–")) for key in keys]
    return [row for row in both if row[1] != row[2]]


def change(key: str, before: float, after: float) -> str:
    """How a figure changed: one of the validation or test rows by its difference, any other by its ratio."""
    if key.startswith((client.OF_VALIDATION_ROWS, client.OF_TEST_ROWS)):
        difference = f"{after - before:+.4f}"
        return f"{after - before:+.1g}" if float(difference) == 0 and after != before else difference
    if not before:
        return ""
    ratio = f"{after / before:.3g}"
    return f"{figures.beside(after / before, 1) if ratio == '1' else ratio}×"


def outcome(run: Run) -> str:
    """How the run ended, with the stage that a gate stopped: `GateFailed: train`."""
    stage = run.tags.get("failure", "").partition(":")[0]
    return f"{run.outcome}: {stage}" if stage in STAGES else run.outcome


def prune(checkout: Path, local: Local, *, keep: int, everyone: bool, cache: bool, dry_run: bool, say: Say) -> None:
    """Delete all runs of this checkout, or of everyone, except the newest `keep`, with images and experiments, and worktrees of dead runs.

    Active runs stay, and so do runs that a model version, an image in use or the candidates of a newer run refer to. `cache` removes from
    DVC's cache what neither this checkout nor any commit or experiment refers to. A dry run only prints what it would delete.
    """
    uri, would = local.tracking_uri(), "would remove" if dry_run else "removed"
    everything, registered = runs.find(uri), runs.registered(uri)
    others = [run for run in everything if not everyone and run.tags.get("checkout") != local.identity]
    mine = [run for run in everything if everyone or run.tags.get("checkout") == local.identity]
    if others:
        say(f"left alone: {len(others)} of other checkouts (--everyone: remove those too)")
    stay = [run for index, run in enumerate(mine) if index < keep or run.status == "RUNNING" or run.run_id in registered.runs]
    kept_ids = {run.run_id for run in stay} | {run.tags["candidates_of"] for run in [*stay, *others] if "candidates_of" in run.tags}
    old = [run for run in mine if run.run_id not in kept_ids]
    for root in workspace.worktrees(checkout):
        with workspace.abandoned(checkout, root) as dead:
            if dead:
                say(f"{would} the worktree {root.name}: {_megabytes(_size(root))}")
    if not dry_run:
        cleanup.sweep(checkout, on_line=say)
    needed = _prune_images(old, registered.images, dry_run=dry_run, say=say)
    gone = [run for run in old if run.run_id not in needed]
    for run in gone:
        size = _size(run.artifacts) if run.artifacts else 0
        say(f"{would} the run {run.name} of {_when(run)} ({run.model}): {_megabytes(size)}")
        if not dry_run:
            runs.delete(uri, run)
            workspace.remove_experiment(checkout, workspace.experiment(run.flow_run))
    if cache:
        _prune_cache(checkout, local, dry_run=dry_run, say=say)
    needed_too = len(mine) - len(gone) - min(keep, len(mine))
    why = f", {needed_too} of them because they are active, or a model version, an image or a newer run needs them" if needed_too else ""
    say(f"{len(mine) - len(gone)} runs are kept{why}" + ("; nothing was removed, this was a dry run" if dry_run else ""))


def _prune_images(old: Sequence[Run], registered: set[str], *, dry_run: bool, say: Say) -> set[str]:
    """Remove the images of old runs; the ids of the runs whose image stays, since it leads back to them."""
    try:
        client = image.connect()
    except Unavailable:
        say("runs that made an image are kept: no Docker engine is reachable, so the images cannot be removed")
        return {run.run_id for run in old if IMAGE in run.metrics}
    needed, run_ids = set(), {run.run_id for run in old}
    with closing(client):
        for stored_image in image.labelled(client, RUN_LABEL):
            run_id, name = stored_image.labels[RUN_LABEL], (stored_image.tags or [stored_image.id])[0]
            if run_id not in run_ids:
                continue
            if stored_image.id in registered or not (dry_run or image.remove(client, stored_image)):
                say(f"the image {name} and its run are kept: a model version, a container or another image needs it")
                needed.add(run_id)
            else:
                say(f"{'would remove' if dry_run else 'removed'} the image {name}: up to {_megabytes(stored_image.attrs['Size'])}")
    return needed


def _prune_cache(checkout: Path, local: Local, *, dry_run: bool, say: Say) -> None:
    if dry_run:
        say("would remove from DVC's cache what neither this checkout nor any commit or experiment uses")
        return
    if workspace.worktrees(checkout) or any(spool.is_held(path.parent) for path in local.spool.glob("*/run.json")):
        say("DVC's cache is not cleaned: a run is in progress, and no commit names its outputs yet")
        return
    folder = workspace.cache(checkout)
    before = _size(folder)
    command = [sys.executable, "-m", "dvc", "gc", "--workspace", "--all-commits", "--all-experiments", "--force"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise Unavailable(f"`dvc gc` failed ({' '.join(done.stderr.split())[-300:]}): run it by hand to see why")
    say(f"removed from DVC's cache: {_megabytes(before - _size(folder))}")


def _row(run: Run, release: Release | None, params: str) -> tuple[str, ...]:
    measured = run.metrics
    size = measured.get(IMAGE)
    return (
        run.name,
        _when(run),
        outcome(run),
        run.model,
        *(_scores(run).values() or ("–", "–")),
        run.tags.get("winner", "–"),
        f"{measured[SPEEDUP]:.1f}×{'' if is_valid(run) else ' (not valid)'}" if SPEEDUP in measured else "–",
        number(measured.get(P50)),
        units.three(measured["benchmark/noise_ratio"]) if "benchmark/noise_ratio" in measured else "–",
        _image(run, release).rpartition(":")[2] or "–",
        f"{size / 1e6:.0f}" if size else "–",
        ", ".join(filter(None, (release.version, release.serves))) if release else "–",
        params or "–",
    )


def _scores(run: Run) -> dict[str, str]:
    """The score on the validation rows and on the test rows, by name: `validation accuracy`; empty without one."""
    keys = client.score_names(run.metrics) or ()
    names = [key.removeprefix("train/").replace("_", " ") for key in keys]
    return {name: figures.share(run.metrics[key]) if key in run.metrics else "–" for name, key in zip(names, keys, strict=True)}


def _image(run: Run, release: Release | None) -> str:
    return run.tags.get("image", release.image if release else "")


def _differing(run: Run, runs: Sequence[Run]) -> str:
    """The params in which this run differs from any other one of its model, which may be many."""
    others = [other for other in runs if other.model == run.model]
    keys = {key for other in others for key, *_ in params_that_differ(run, other) if _of_stages(key)}
    shown = space.label({key: run.params.get(key, "–") for key in sorted(keys)[:_MOST_PARAMS]})
    return f"{shown}, …" if len(keys) > _MOST_PARAMS else shown


def _of_stages(key: str) -> bool:
    return key.partition(".")[0] not in space.SHARED


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        made.add_column(Text(name), overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def _when(run: Run) -> str:
    return run.started.astimezone().strftime("%Y-%m-%d %H:%M")


def number(value: float | None) -> str:
    """A figure in four digits; a dash for None."""
    return "–" if value is None else figures.number(value)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"

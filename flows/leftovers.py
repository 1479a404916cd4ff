"""Clean up after dead runs: remove their worktrees, and keep their params and lock as a DVC experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flows import stages, workspace
from flows.workspace import Workspace
from paddleship.errors import PaddleshipError


def sweep(checkout: Path, *, on_line: Callable[[str], None]) -> list[str]:
    """Remove the worktrees of runs whose process has ended, failed, was cancelled or killed. Returns their run ids.

    A run is dead if its lock is free, which also works for runs in other containers.
    """
    removed = []
    for root in workspace.worktrees(checkout):
        with workspace.abandoned(checkout, root) as ours:
            if ours:
                try:
                    _keep_lineage(Workspace(root, checkout), on_line=on_line)
                except PaddleshipError as error:
                    on_line(f"params.yaml and dvc.lock of the run {root.name} could not be kept as a DVC experiment ({error})")
                workspace.remove(checkout, root)
                removed.append(root.name)
    return removed


def _keep_lineage(place: Workspace, *, on_line: Callable[[str], None]) -> None:
    """Save params and lock of a run that could not save them itself, for its complete stages only."""
    name = workspace.experiment(place.root.name)
    if not (place.root / "dvc.lock").exists() or workspace.has_experiment(place.checkout, name):
        return
    whole = [stage.address for stage in stages.graph(place.root) if stages.are_current(place.root, stage)]
    if whole:
        stages.save_experiment(place.root, place.checkout, name, whole, on_line=on_line)

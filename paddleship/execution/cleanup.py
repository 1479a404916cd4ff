"""Clean up after dead runs: remove their worktrees, and keep their params and lock as a DVC experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paddleship.errors import PaddleshipError
from paddleship.execution import snapshots, workspace


def sweep(checkout: Path, *, on_line: Callable[[str], None]) -> list[str]:
    """Remove the worktrees of runs whose process has ended, failed, was cancelled or killed. Returns their run ids.

    A run is dead if its lock is free, which also works for runs in other containers.
    """
    removed = []
    for root in workspace.worktrees(checkout):
        with workspace.abandoned(checkout, root) as ours:
            if ours:
                if not root.name.startswith(workspace.LEG):
                    _keep_lineage(checkout, root, on_line=on_line)
                    snapshots.forget(checkout, root.name)
                workspace.remove(checkout, root)
                removed.append(root.name)
    return removed


def _keep_lineage(checkout: Path, root: Path, *, on_line: Callable[[str], None]) -> None:
    """Save params and lock of a run that could not save them itself."""
    name = workspace.experiment(root.name)
    try:
        if snapshots.has_results(root) and not workspace.has_experiment(checkout, name):
            snapshots.keep(root, name)
    except PaddleshipError as error:
        on_line(f"params.yaml and dvc.lock of the run {root.name} could not be kept as a DVC experiment ({error})")

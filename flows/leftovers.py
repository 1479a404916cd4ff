"""What dead runs left in the checkout: their worktrees go, and what leads back to them stays as a DVC experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flows import stages, workspace
from flows.workspace import Workspace
from paddleship.errors import PaddleshipError


def sweep(checkout: Path, *, on_line: Callable[[str], None]) -> list[str]:
    """Remove the worktrees of runs whose process has ended, failed, cancelled or killed; their run ids.

    Whether one has ended is told by its lock, which the kernel frees, so a living run is left alone in whichever container it is.
    """
    removed = []
    for root in workspace.worktrees(checkout):
        with workspace.abandoned(checkout, root) as ours:
            if ours:
                try:
                    _keep_lineage(Workspace(root, checkout), on_line=on_line)
                except PaddleshipError as error:
                    on_line(f"params and lock of the run {root.name} are not kept as a DVC experiment ({error})")
                workspace.remove(checkout, root)
                removed.append(root.name)
    return removed


def _keep_lineage(place: Workspace, *, on_line: Callable[[str], None]) -> None:
    """Params and lock of a run that could not save them itself; only of its stages that are whole, since others may be half."""
    name = workspace.experiment(place.root.name)
    if not (place.root / "dvc.lock").exists() or workspace.has_experiment(place.checkout, name):
        return
    whole = [stage.address for stage in stages.graph(place.root) if stages.is_current(place.root, stage)]
    if whole:
        stages.save_experiment(place.root, place.checkout, name, whole, on_line=on_line)

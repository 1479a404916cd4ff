"""From an image or a running container back to what it was made of."""

from __future__ import annotations

from contextlib import closing

from paddleship.errors import BadInput
from paddleship.lineage import Lineage
from tasks import image


def trace(name: str) -> tuple[str, Lineage]:
    """What `name` is in the engine, and its lineage from the image's labels. Raises BadInput, Unavailable."""
    with closing(image.connect()) as client:
        what, labels = image.labels_of(client, name)
    lineage = Lineage.from_labels(labels)
    if lineage is None:
        raise BadInput(f"{what} carries no lineage of paddleship: it was not built by the stage `package`")
    return what, lineage


def describe(what: str, lineage: Lineage) -> str:
    """The lineage for a person, and the commands that lead back."""
    run = lineage.mlflow_run_id or "none (made without a tracker)"
    changed = f", with changes in {', '.join(lineage.git_changes)}" if lineage.git_changes else ""
    lines = [
        what,
        f"  commit        {lineage.git_commit}{changed}",
        f"  data          sha256 {lineage.data_sha256}",
        f"  params        sha256 {lineage.params_sha256}",
        f"  dvc.lock      sha256 {lineage.dvc_lock_sha256}",
        f"  weights       sha256 {lineage.weights_sha256}",
        f"  candidate     {lineage.candidate} ({lineage.runtime}), {lineage.candidate_digest}",
        f"  parity        noise ratio {lineage.noise_ratio:.2f} (eager float32 = 1)",
        f"  benchmark     {lineage.speedup:.1f}× eager (95% interval {lineage.speedup_low:.1f} to {lineage.speedup_high:.1f})",
        f"  MLflow run    {run}",
        f"  Prefect run   {lineage.prefect_flow_run_id or 'none (made without a flow)'}",
        "",
        f"back to the source:  git checkout {lineage.git_commit}",
        "back to the rows:    dvc pull data/prepared, then compare data_sha256 in data/prepared/schema.json",
    ]
    return "\n".join(lines)

"""Where the evidence of a challenger is: in the checkout, or in a worktree of the run that made it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.config.sections.paths import Paths
from paddleship.containers import image
from paddleship.errors import BadInput
from paddleship.execution import snapshots, stages, workspace
from paddleship.lineage.release import Lineage
from paddleship.promotion.ledger import Shipped

_NEEDED = ("prepare", "optimize", "verify")  # stages whose outs are judged by


@contextmanager
def of(checkout: Path, values: Params, client: Any, challenger: Shipped) -> Iterator[Params]:
    """The params whose paths lead to the challenger's rows, candidate and parity evidence, with the promotion params of `values`.

    Raises BadInput if they are neither in the checkout nor in an experiment, which is fetched if another clone ran it.
    """
    if _has(checkout, values, challenger):
        yield _rooted(checkout, values, values)
        return
    stored_image = image.find(client, challenger.image_id)
    lineage = Lineage.from_labels(stored_image.labels) if stored_image is not None else None
    if lineage is None or lineage.experiment is None:
        raise BadInput(
            f"the evidence in {values.paths.parity!r} is not of version {challenger.version} of {challenger.model!r}: bring its source, "
            f"params and data back with the commands that `paddleship trace {challenger.image}` prints, then `dvc pull`"
        )
    snapshots.have_experiment(checkout, lineage.git_commit, lineage.experiment)
    with workspace.at_experiment(checkout, lineage.git_commit, lineage.experiment) as root:
        stages.bring(root, _NEEDED)
        theirs = loading.load(root / "params.yaml")
        if not _has(root, theirs, challenger):
            raise BadInput(
                f"the experiment {lineage.experiment!r} holds no evidence of version {challenger.version} of {challenger.model!r}: "
                "run the pipeline again with its params"
            )
        yield _rooted(root, theirs, values)


def _has(root: Path, values: Params, challenger: Shipped) -> bool:
    """Whether verify proved this candidate there, and the rows there are those that verify read."""
    path = root / values.paths.parity / "passed.json"
    if not path.exists() or stages.read_by(root, "verify", values.paths.prepared) != stages.made_by(root, "prepare", values.paths.prepared):
        return False
    proven = json.loads(path.read_text(encoding="utf-8"))
    return any(facts.get("digest") == challenger.candidate_digest for facts in proven.values())


def _rooted(root: Path, theirs: Params, values: Params) -> Params:
    paths = {name: str(root / path) for name, path in theirs.paths.model_dump().items()}
    data = theirs.data.rooted(root)
    return theirs.model_copy(update={"paths": Paths(**paths), "data": data, "promote": values.promote})

"""Where an image comes from: the same facts as labels on the image and as release.json."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from paddleship import __version__

PREFIX = "io.paddleship."
DIGEST_LABEL = PREFIX + "candidate-digest"
RUN_LABEL = PREFIX + "mlflow-run-id"
_OCI = "org.opencontainers.image."


class Lineage(BaseModel):
    """The way back from an image to what it was made of. Hashes are SHA-256 in hex.

    `code_sha256` is that of the user's code, wherever it lies, and `library_sha256` that of the part of this library in the
    image. `git_changes` names tracked files that differed from the commit; `noise_ratio` and `speedup` are the verdicts of
    verify and benchmark in one number each, `measured_on` the machine of the latter, and `benchmark_valid` whether it was
    free. The run ids are None for a run without tracker or flow, `experiment` (the DVC experiment that keeps params and
    lock of a run in a worktree of its own) for a run in the checkout.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    git_commit: str
    git_changes: list[str]
    data_sha256: str
    params_sha256: str
    dvc_lock_sha256: str
    weights_sha256: str
    code_sha256: str = "unknown"  # of images that were built before it was noted
    library_sha256: str = "unknown"
    candidate: str
    candidate_digest: str
    runtime: str
    noise_ratio: float
    speedup: float
    speedup_low: float
    speedup_high: float
    measured_on: str = "unknown"
    benchmark_valid: bool = True
    mlflow_run_id: str | None = None
    mlflow_tracking_uri: str | None = None
    prefect_flow_run_id: str | None = None
    experiment: str | None = None

    def labels(self, *, base_image: str, created: datetime, source: str | None = None) -> dict[str, str]:
        """OCI labels and one `io.paddleship.*` label per fact; `source` is the repository's address."""
        oci = {
            "title": self.model,
            "description": f"{self.model} in {self.runtime}, proven against eager PaddlePaddle",
            "version": self.candidate_digest[:12],
            "revision": self.git_commit,
            "created": created.isoformat(timespec="seconds"),
            "base.name": base_image,
            **({"source": source} if source else {}),
        }
        own = {key.replace("_", "-"): _text(value) for key, value in self.model_dump().items() if value is not None}
        return {
            **{_OCI + key: value for key, value in oci.items()},
            **{PREFIX + key: value for key, value in own.items()},
            PREFIX + "version": __version__,
        }

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Lineage | None:
        """The lineage of an image, or None when it is none of ours."""
        values: dict[str, Any] = {
            key.removeprefix(PREFIX).replace("-", "_"): value for key, value in labels.items() if key.startswith(PREFIX)
        }
        values.pop("version", None)
        if "candidate_digest" not in values:
            return None
        values["git_changes"] = [name for name in values.get("git_changes", "").split(" ") if name]
        return cls.model_validate(values)


def _text(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)

"""The lineage of an image, as labels on the image and in release.json."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from paddleship import __version__
from paddleship.errors import BadInput

PREFIX = "io.paddleship."
CANDIDATE_LABEL = PREFIX + "candidate"
DIGEST_LABEL = PREFIX + "candidate-digest"
RUN_LABEL = PREFIX + "mlflow-run-id"
_OCI = "org.opencontainers.image."
CREATED, SOURCE = _OCI + "created", _OCI + "source"


def content_labels(*, licenses: str, base_digest: str | None) -> dict[str, str]:
    """The OCI labels that follow from what an image contains; without those that are unknown."""
    known = {"licenses": licenses, "base.digest": base_digest}
    return {_OCI + key: value for key, value in known.items() if value}


def created() -> datetime:
    """The date of an image that is built now: that of SOURCE_DATE_EPOCH, with which equal inputs give an equal image. Raises BadInput."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"SOURCE_DATE_EPOCH must be whole seconds since 1970 (got {epoch!r}): set it to a number, or unset it") from None


class Lineage(BaseModel):
    """What an image was made from. Hashes are SHA-256 in hex.

    `code_sha256` is the hash of the user's code, `library_sha256` of the part of this library that computes answers, `server_sha256` of the
    part that serves them. `git_changes` names tracked files that differ from the commit; `code_in_repository` is False if the user's code
    is in another place.
    `weights_source` is `trained`, or `imported` with the hash of the file that train.source named.
    `unproven` names libraries of the server that were not installed where the image was built, so only `accept` tested them.
    `noise_ratio` is the result of verify, `loosened` names the params that weaken its proof, `speedup` is the result of benchmark;
    `measured_on` is the machine of the benchmark, `benchmark_valid` whether it had little other load.
    The run ids are None without tracker or flow. `experiment` is the DVC experiment that keeps params and lock of an isolated run; None
    for a run in the checkout.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    git_commit: str
    git_changes: list[str]
    data_sha256: str
    params_sha256: str
    dvc_lock_sha256: str
    weights_sha256: str
    weights_source: str = "unknown"
    code_in_repository: bool = True
    code_sha256: str = "unknown"  # for images that were built before this field existed
    library_sha256: str = "unknown"
    server_sha256: str = "unknown"
    candidate: str
    candidate_digest: str
    runtime: str
    noise_ratio: float
    loosened: str = ""
    unproven: str = ""
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
        """OCI labels, and one `io.paddleship.*` label for each field; `source` is the repository's address."""
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
        """The lineage in the labels of an image; None if paddleship did not build it."""
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

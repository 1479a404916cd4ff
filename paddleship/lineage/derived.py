"""The part of a lineage that follows from the outs of the stages, so that `accept` derives it again instead of believing a receipt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from paddleship.config import loosening
from paddleship.config.params import Params
from paddleship.custody import sources
from paddleship.errors import BadInput
from paddleship.lineage.release import CREATED, SOURCE, Lineage
from paddleship.model import building
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json

_CHOSEN = ("speedup", "speedup_low", "speedup_high", "measured_on", "benchmark_valid")
_AGAIN = "build the image again with `paddleship run --again package`"


def facts(params: Params, candidate: Candidate, choice: Mapping[str, Any], proven: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of Lineage that data, candidate, proof, benchmark and the server of this paddleship determine."""
    schema = read_json(Path(params.paths.prepared) / "schema.json", stage="prepare")
    return {
        "model": params.name,
        "data_sha256": schema["data_sha256"],
        "weights_sha256": candidate.weights_sha256,
        "weights_source": _weights_source(Path(params.paths.checkpoint)),
        "code_sha256": candidate.code_sha256,
        "library_sha256": candidate.library_sha256,
        "server_sha256": sources.server_sha256(),
        "candidate": candidate.name,
        "candidate_digest": candidate.digest,
        "runtime": candidate.runtime,
        "noise_ratio": proven[candidate.name]["noise_ratio"],
        "loosened": "; ".join(loosening.of(params)),
        **{key: choice[key] for key in _CHOSEN},
    }


def _weights_source(checkpoint: Path) -> str:
    imported = read_json(checkpoint / building.FACTS, stage="train").get("imported")
    return f"imported, sha256 {imported['imported_sha256']}" if imported else "trained"


def require_receipt(
    receipt: Mapping[str, Any],
    expected: Mapping[str, Any],
    inputs: Mapping[str, str],
    *,
    params: Mapping[str, Any],
    image: str,
    base_image: str,
) -> None:
    """Raise BadInput unless the receipt of `package` has this lineage, its labels, this name of the image and of its base, and was made
    from these outs, by stage, and these params.
    """
    for key, value in (("image", image), ("base_image", base_image)):
        _require(f"the {key} {receipt[key]!r}", receipt[key], value, f"params and outs give {value!r}")
    for key in sorted(params.keys() | receipt["params"].keys()):
        _require(f"{key} {receipt['params'].get(key)!r}", receipt["params"].get(key), params.get(key), f"it is {params.get(key)!r} now")
    for key, value in expected.items():
        _require(f"the {key} {receipt['lineage'].get(key)!r}", receipt["lineage"].get(key), value, f"the stages' outs give {value!r}")
    for stage, digest in inputs.items():
        if receipt.get("inputs", {}).get(stage) != digest:
            raise BadInput(f"the image was not built from the present result of {stage}: {_AGAIN}")
    labels = receipt["labels"]
    lineage = Lineage.model_validate(receipt["lineage"])
    again = lineage.labels(base_image=base_image, created=_time(labels.get(CREATED)), source=labels.get(SOURCE))
    for key in sorted(again.keys() | labels.keys()):
        _require(f"the label {key}={labels.get(key)!r}", labels.get(key), again.get(key), f"its lineage gives {again.get(key)!r}")


def _time(text: Any) -> datetime:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        raise BadInput(f"the receipt of package has the label {CREATED}={text!r}, which is no time: {_AGAIN}") from None


def _require(what: str, recorded: Any, expected: Any, why: str) -> None:
    if recorded != expected:
        raise BadInput(f"the receipt of package has {what}, but {why}: {_AGAIN}")

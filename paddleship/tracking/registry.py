"""Register the winner in MLflow: the candidate folder as a pyfunc model that loads without this project."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.image import requirements, user_packages
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry as runtimes
from paddleship.shipped.computing.spec import TensorSpec

ALIAS = "challenger"
_HERE = Path(__file__).parent
_ROOT = Path(__file__).parents[2]
_DATA_TYPES = {
    "str": "string",
    "bytes": "binary",
    "bool": "boolean",
    "float32": "float",
    "float64": "double",
    "int32": "integer",
    "int64": "long",
}


def register(client: Any, run_id: str, candidate: Path, release: Mapping[str, Any], *, description: str = "") -> str:
    """Register an accepted image as a model version, or find its version; `challenger` is the version accepted last.

    Only the time of acceptance counts, so a run that changed nothing, or is registered late, does not move the alias back. Raises
    CandidateError for a refused release.
    """
    name = release["model"]
    if not release["accepted"]:
        raise CandidateError(f"{release['image']} was refused by accept: only accepted images are registered")
    version = _find(client, name, release["image_id"]) or _create(client, name, run_id, candidate, release, description)
    first = _find(client, name, release["image_id"]) or version
    if first != version:  # another run registered this image at the same time
        client.delete_model_version(name, version)
    return f"{name} version {first}{f' ({ALIAS})' if _point(client, name) == first else ''}"


def _point(client: Any, name: str) -> str:
    """Set `challenger` to the version accepted last; check again after each change, because other runs register at the same time."""
    while True:
        newest = str(max(client.search_model_versions(f"name = '{name}'"), key=lambda one: (_accepted_at(one), int(one.version))).version)
        if str(client.get_registered_model(name).aliases.get(ALIAS)) == newest:
            return newest
        client.set_registered_model_alias(name, ALIAS, newest)


def _find(client: Any, name: str, image_id: str) -> str | None:
    """The first model version of that image; None if there is none."""
    versions = client.search_model_versions(f"name = '{name}'")
    return min((str(version.version) for version in versions if version.tags.get("image_id") == image_id), key=int, default=None)


def _accepted_at(version: Any) -> str:
    """When its image was accepted, in ISO 8601 and UTC; versions without that tag sort first."""
    return str(version.tags.get("accepted_at", ""))


def _tags(release: Mapping[str, Any]) -> dict[str, str]:
    facts = ("candidate", "candidate_digest", "image", "image_id", "git_commit", "data_sha256", "measured_on", "benchmark_valid")
    return {"accepted_at": str(release["judged_at"]), **{key: str(release[key]) for key in facts}}


def _create(client: Any, name: str, run_id: str, candidate: Path, release: Mapping[str, Any], description: str) -> str:
    from mlflow import pyfunc
    from mlflow.exceptions import MlflowException

    about = Candidate.load(candidate)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # MLflow asks for type hints to validate requests; the signature does that
        folder, code = Path(scratch) / "model", Path(scratch) / "code"
        runtime = runtimes.get(release["runtime"])
        code.mkdir()
        user_packages.lay_out(about, code)
        pyfunc.save_model(
            path=str(folder),
            python_model=str(_HERE / "pyfunc_model.py"),
            artifacts={"candidate": str(candidate)},
            signature=_signature(about),
            input_example=_example(about),
            code_paths=[str(_ROOT / "paddleship"), *map(str, code.iterdir())],
            pip_requirements=[*requirements.of(runtime.registration), *user_packages.pins(about)],
        )
        client.log_artifacts(run_id, str(folder), "model")
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(client.create_model_version(name, f"runs:/{run_id}/model", run_id, tags=_tags(release), description=description).version)


def _signature(candidate: Candidate) -> Any:
    """The signature of requests and answers for MLflow, without `label` of a classifier."""
    from mlflow.models import ModelSignature
    from mlflow.types import schema

    def tensor(spec: TensorSpec) -> Any:
        return schema.TensorSpec(spec.numpy_dtype, tuple(-1 if isinstance(size, str) else size for size in spec.shape), spec.name)

    def column(spec: TensorSpec) -> Any:
        of_row: Any = schema.DataType[_DATA_TYPES[spec.dtype]]
        for _ in spec.shape[1:]:
            of_row = schema.Array(of_row)
        return schema.ColSpec(of_row, spec.name)

    requests = preprocess.build(candidate.preprocess, candidate.inputs).requests
    describe = column if any(spec.dtype in ("str", "bytes") for spec in requests) else tensor  # MLflow takes columns or tensors, not both
    return ModelSignature(
        inputs=schema.Schema([describe(spec) for spec in requests]),
        outputs=schema.Schema([tensor(spec) for spec in candidate.outputs]),
    )


def _example(candidate: Candidate) -> Any:
    """An example request of one row without real data: a word, or the lowest valid values; a table of them if there are both.

    None if a column is of files, of which no example can be made up.
    """
    requests = preprocess.build(candidate.preprocess, candidate.inputs).requests
    if any(spec.dtype == "bytes" for spec in requests):
        return None
    sizes = {str(size): 1 for spec in requests for size in spec.shape} | {rule.name: rule.smallest for rule in candidate.dimensions}
    columns = {spec.name: np.array(["text"]) if spec.dtype == "str" else _lowest(spec, sizes) for spec in requests}
    if len({spec.dtype == "str" for spec in requests}) == 1:
        return columns
    from pandas import DataFrame

    return DataFrame({name: values.tolist() for name, values in columns.items()})


def _lowest(spec: TensorSpec, sizes: Mapping[str, int]) -> Any:
    shape = [sizes[size] if isinstance(size, str) else size for size in spec.shape]
    return np.full(shape, spec.limits(sizes)[0] or 0, spec.numpy_dtype)

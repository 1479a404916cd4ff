"""The winner in MLflow's registry: the exact candidate folder as a pyfunc model, loadable without this project."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.image import foreign, requirements
from paddleship.shipped.common import preprocess
from paddleship.shipped.common.candidate import Candidate
from paddleship.shipped.common.spec import TensorSpec
from paddleship.shipped.runtimes import registry as runtimes

ALIAS = "challenger"
_HERE = Path(__file__).parent
_ROOT = Path(__file__).parents[2]


def register(client: Any, run_id: str, candidate: Path, release: Mapping[str, Any]) -> str:
    """Make a model version of the candidate and point `challenger` at it; one that is there already is used again."""
    name, digest = release["model"], release["candidate_digest"]
    version = _find(client, name, digest)
    if version is None:
        version = _create(client, name, run_id, candidate, release)
    else:
        for key in ("image", "image_id"):  # the same model, perhaps in a newer image
            client.set_model_version_tag(name, version, key, str(release[key]))
    client.set_registered_model_alias(name, ALIAS, version)
    return f"{name} version {version} ({ALIAS})"


def _find(client: Any, name: str, digest: str) -> str | None:
    for version in client.search_model_versions(f"name = '{name}'"):
        if version.tags.get("candidate_digest") == digest:
            return str(version.version)
    return None


def _create(client: Any, name: str, run_id: str, candidate: Path, release: Mapping[str, Any]) -> str:
    from mlflow import pyfunc
    from mlflow.exceptions import MlflowException

    about = Candidate.load(candidate)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # MLflow asks for type hints to check requests by; the signature does that
        folder, code = Path(scratch) / "model", Path(scratch) / "code"
        runtime = runtimes.get(release["runtime"])
        code.mkdir()
        foreign.lay_out(runtime, code)
        pyfunc.save_model(
            path=str(folder),
            python_model=str(_HERE / "pyfunc_model.py"),
            artifacts={"candidate": str(candidate)},
            signature=_signature(about),
            input_example=_example(about),
            code_paths=[str(_ROOT / "paddleship"), *map(str, code.iterdir())],
            pip_requirements=requirements.of(runtime.registration),
        )
        client.log_artifacts(run_id, str(folder), "model")
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    facts = ("candidate", "candidate_digest", "image", "image_id", "git_commit", "data_sha256")
    tags = {key: str(release[key]) for key in facts}
    return str(client.create_model_version(name, f"runs:/{run_id}/model", run_id, tags=tags).version)


def _signature(candidate: Candidate) -> Any:
    """What a request holds and what the model gives, as MLflow describes it; a classifier's `label` comes on top."""
    from mlflow.models import ModelSignature
    from mlflow.types import schema

    def describe(spec: TensorSpec) -> Any:
        shape = tuple(-1 if isinstance(size, str) else size for size in spec.shape)
        return schema.ColSpec("string", spec.name) if spec.dtype == "str" else schema.TensorSpec(spec.numpy_dtype, shape, spec.name)

    requests = preprocess.build(candidate.preprocess, candidate.inputs).requests
    return ModelSignature(
        inputs=schema.Schema([describe(spec) for spec in requests]),
        outputs=schema.Schema([describe(spec) for spec in candidate.outputs]),
    )


def _example(candidate: Candidate) -> dict[str, Any]:
    """A request of one row that is nobody's data: a word, or the lowest valid values."""
    requests = preprocess.build(candidate.preprocess, candidate.inputs).requests
    sizes = {str(size): 1 for spec in requests for size in spec.shape} | {rule.name: rule.smallest for rule in candidate.dimensions}
    return {spec.name: np.array(["text"]) if spec.dtype == "str" else _lowest(spec, sizes) for spec in requests}


def _lowest(spec: TensorSpec, sizes: Mapping[str, int]) -> Any:
    shape = [sizes[size] if isinstance(size, str) else size for size in spec.shape]
    return np.full(shape, spec.limits(sizes)[0] or 0, spec.numpy_dtype)

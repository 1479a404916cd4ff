"""Show the lineage of an image or a running container."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path

from paddleship.config import loading
from paddleship.containers import image
from paddleship.custody import sources
from paddleship.errors import BadInput, PaddleshipError, Unavailable, without_credentials
from paddleship.image import sbom
from paddleship.lineage import source
from paddleship.lineage.release import Lineage
from paddleship.lineage.source import CODE, SOURCE_FOLDER


def trace(name: str) -> tuple[str, Lineage]:
    """The kind of `name` in the engine, and its lineage from the image's labels. Raises BadInput, Unavailable."""
    with closing(image.connect()) as client:
        what, labels = image.labels_of(client, name)
    lineage = Lineage.from_labels(labels)
    if lineage is None:
        raise BadInput(f"{what} carries no lineage of paddleship: it was not built by the stage `package`")
    return what, lineage


def bill(name: str) -> str:
    """The bill of materials of an image or container. Raises BadInput if it has none, Unavailable."""
    with closing(image.connect()) as client:
        text = image.read_file(client, image.id_of(client, name), sbom.IN_IMAGE)
    if not text:
        raise BadInput(f"{name!r} has no bill of materials: it was built by an older paddleship; run `paddleship run --again package`")
    return text


def contents(name: str) -> str:
    """What the bill of materials of an image or container counts, as text; an image of an older paddleship has none."""
    try:
        parts = json.loads(bill(name))["components"]
    except BadInput:
        return "not recorded: the image was built by an older paddleship"
    kinds = {kind: sum(one.get("purl", "").startswith(f"pkg:{kind}/") for one in parts) for kind in ("pypi", "deb")}
    return f"{kinds['pypi']} packages of Python, {kinds['deb']} of Debian ({sbom.IN_IMAGE}, or `paddleship trace {name} --sbom`)"


def accepted(name: str, *, store: str | None) -> str:
    """Whether this very image, by its id, is one that was accepted: its labels do not show that, because another image can have them.

    `store` is where the model versions of this checkout are. Raises BadInput, Unavailable.
    """
    with closing(image.connect()) as client:
        identity = image.id_of(client, name)
    asked = [f"{_release()} here"]
    if _released() == identity:
        return f"yes, {_release()} here names this image id"
    if store is not None:
        from paddleship.tracking import runs  # imports MLflow

        try:
            version = next((one for one in runs.versions(store) if one.image_id == identity), None)
        except Unavailable as trouble:
            asked.append(f"a model version ({trouble})")
        else:
            if version is not None:
                return f"yes, version {version.version} of {version.model!r} has this image id"
            asked.append("a model version of this checkout")
    return f"not known: labels can be copied, and the image id {identity[:19]} is not that of {' or '.join(asked)}"


def _release() -> str:
    """The file of the release of the folder that this process works in."""
    with suppress(PaddleshipError, OSError):
        return loading.load(Path("params.yaml")).paths.release
    return "release.json"


def _released() -> str | None:
    """The id of the image that was accepted in the folder that this process works in; None if none is known."""
    with suppress(OSError, ValueError):
        release = json.loads(Path(_release()).read_text(encoding="utf-8"))
        return str(release["image_id"]) if release.get("accepted") else None
    return None


def describe(what: str, lineage: Lineage, *, store: str | None = None, accepted: str = "", contents: str = "") -> str:
    """The lineage as text, with the commands that restore its source.

    `accepted` says whether the image itself is known to be the accepted one, `contents` what it contains. `store` is where this checkout's
    runs are: an image names a server, but no store in a folder of the machine that built it.
    """
    if lineage.mlflow_tracking_uri is None and store is not None:
        lineage = lineage.model_copy(update={"mlflow_tracking_uri": without_credentials(store)})
    run = lineage.mlflow_run_id or "none (made without a tracker)"
    changed = f", with changes in {', '.join(lineage.git_changes)}" if lineage.git_changes else ""
    lines = [
        what,
        *([f"  accepted      {accepted}"] if accepted else []),
        f"  commit        {lineage.git_commit}{changed}",
        f"  data          sha256 {lineage.data_sha256}",
        f"  params        sha256 {lineage.params_sha256}",
        f"  dvc.lock      sha256 {lineage.dvc_lock_sha256}",
        f"  weights       sha256 {lineage.weights_sha256} ({lineage.weights_source})",
        f"  your code     sha256 {lineage.code_sha256}",
        f"  library       sha256 {lineage.library_sha256}",
        f"  server        sha256 {lineage.server_sha256}",
        f"  candidate     {lineage.candidate} ({lineage.runtime}), {lineage.candidate_digest}",
        f"  parity        noise ratio {lineage.noise_ratio:.2f} (eager float32 = 1)",
        f"  benchmark     {lineage.speedup:.1f}× eager (95% interval {lineage.speedup_low:.1f} to {lineage.speedup_high:.1f})"
        f"{'' if lineage.benchmark_valid else ', not valid: the machine was not free'}",
        f"  measured on   {lineage.measured_on}",
        f"  MLflow run    {run}",
        *([f"  contents      {contents}"] if contents else []),
        f"  Prefect run   {lineage.prefect_flow_run_id or 'none (made without a flow)'}",
        *compared(lineage),
        "",
        *back(lineage),
    ]
    return "\n".join(lines)


def compared(lineage: Lineage) -> list[str]:
    """Whether the folder that this process works in has the source of the lineage; nothing where it has no params.

    If its params are those of another model, only the commit is compared.
    """
    if not Path("params.yaml").exists():
        return []
    code = "?"
    try:
        values = loading.load(Path("params.yaml"))
        if values.name != lineage.model:
            other = f"of another model, {values.name!r}, so nothing else is compared"
            return ["", "in this folder:", _comparison("commit", _commit(lineage), lineage.git_commit), f"  {'params':13} {other}"]
        code = sources.code_sha256(values.code)
        held = source.params_sha256(values)
    except PaddleshipError as trouble:
        held = f"cannot be read ({trouble})"
    pairs = {
        "commit": (_commit(lineage), lineage.git_commit),
        "params": (held, lineage.params_sha256),
        "dvc.lock": (source.lock_sha256(), lineage.dvc_lock_sha256),
        "your code": (code, lineage.code_sha256),
    }
    return ["", "in this folder:", *(_comparison(name, ours, theirs) for name, (ours, theirs) in pairs.items())]


def _comparison(name: str, ours: str, theirs: str) -> str:
    return f"  {name:13} {'the same' if ours == theirs else f'another: {ours}'}"


def _commit(lineage: Lineage) -> str:
    """The commit that is checked out, or the one below it where that is what the run kept on top of it."""
    return source.parent() if lineage.experiment is not None and source.parent() == lineage.git_commit else source.commit()


def back(lineage: Lineage) -> list[str]:
    """The commands that restore source, params and rows, in the checkout of the run or in a clone of it.

    A DVC experiment is a commit below refs/exps, on top of the commit of the run; it holds params.yaml and dvc.lock. For a run in the
    checkout, where they may not be committed, they are in its MLflow run.
    """
    commit = lineage.git_commit
    if lineage.experiment is not None:
        ref = f"refs/exps/{commit[:2]}/{commit[2:]}/{lineage.experiment}"
        exists = f"git rev-parse --quiet --verify {ref} >/dev/null"
        restore = [f"  {exists} || git fetch origin {ref}:{ref}", f"  git checkout --quiet {ref}"]
    elif lineage.mlflow_run_id is not None:
        restore = [
            f"  git checkout --quiet {commit}",
            f"  {_server(lineage)}mlflow artifacts download --run-id {lineage.mlflow_run_id} --artifact-path {SOURCE_FOLDER} --dst-path .",
            f"  cp {SOURCE_FOLDER}/params.yaml {SOURCE_FOLDER}/dvc.lock .",
        ]
    else:
        lock = "of the commits that `git log -- dvc.lock` lists, take the one where this command says of dvc.lock: the same"
        restore = [f"  git checkout --quiet {commit}", f"  # {lock}"]
    return [
        "back to source, params and rows, in the checkout of the run or a clone of it, with .venv/bin on the PATH:",
        *restore,
        "  dvc pull prepare  # from the DVC remote: if .dvc/config has a path beside the checkout, use a clone beside it",
        *_code(lineage),
    ]


def _code(lineage: Lineage) -> list[str]:
    """How to restore the user's code, if the commit does not hold it."""
    if lineage.code_in_repository and not lineage.git_changes:
        return []
    if lineage.code_in_repository:
        copy_note = (
            f"; if they are below code.watch, the MLflow run keeps up to 20 MB of your code in {CODE}" if lineage.mlflow_run_id else ""
        )
        return [f"  # not as in the commit: {', '.join(lineage.git_changes)}{copy_note}"]
    known = "  # your code is outside the repository: restore its files, and run this command again to see whether it is the same"
    if lineage.mlflow_run_id is None:
        return [known]
    if lineage.experiment is None:  # downloaded with params.yaml and dvc.lock
        return [f"{known}.", f"  # {CODE} has up to 20 MB of it."]
    return [
        f"{known}.",
        f"  # The run keeps up to 20 MB of it, which this brings to {CODE}:",
        f"  {_server(lineage)}mlflow artifacts download --run-id {lineage.mlflow_run_id} --artifact-path {SOURCE_FOLDER} --dst-path .",
    ]


def _server(lineage: Lineage) -> str:
    """The variable that lets a command ask the MLflow server of the run."""
    return f"MLFLOW_TRACKING_URI={lineage.mlflow_tracking_uri} " if lineage.mlflow_tracking_uri else ""

"""The deployments of prefect.yaml: work pools, worker, and how a run of one is started and followed."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddleship.config import params_overlay
from paddleship.errors import BadInput, Unavailable, without_credentials
from paddleship.orchestration import automations, notifications
from paddleship.orchestration.not_started import Waiting
from paddleship.servers import background
from paddleship.servers.local_state import HEARTBEAT_S, Local
from paddleship.system import own_folder

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.schemas.objects import WorkPool

CHECKOUT = "PADDLESHIP_CHECKOUT"  # names the clone of a worker, in which the flow runs of its pool begin
_POLL_S = 1
_RUN_STAGES = "flows/run_stages.py:run_stages"
POOLS = {"local": "process", "docker": "docker"}  # of prefect.yaml, with their types


def deploy(local: Local) -> None:
    """Create the work pools, register prefect.yaml, and create the automations. Raises Unavailable."""
    os.environ["PREFECT_API_URL"] = _url(local)
    for name, kind in POOLS.items():
        asyncio.run(_have_pool(name, kind, renew=True))
    _prefect(local, "--no-prompt", "deploy", "--all")
    automations.watch_heartbeats()
    automations.retrain_on_drift()
    notifications.set_up(params_overlay.load(local.checkout, None).notify)


async def _have_pool(name: str, kind: str, *, renew: bool = False) -> tuple[WorkPool, bool]:
    """The work pool of that name, created for `kind` if there is none, and whether it is new.

    `renew` gives one that exists the job template of this Prefect.
    """
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.utilities import get_default_base_job_template_for_infrastructure_type

    async with get_client() as client:
        template = await get_default_base_job_template_for_infrastructure_type(kind) or {}
        try:
            return await client.create_work_pool(WorkPoolCreate(name=name, type=kind, base_job_template=template)), True
        except ObjectAlreadyExists:
            if renew:  # `overwrite=True` above would also remove its concurrency limit, and end its pause
                await client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
            return await client.read_work_pool(name), False


def work(local: Local, *, pool: str = "local", limit: int | None = None) -> int:
    """Run a worker of a pool until it is interrupted. Returns its exit code. Raises BadInput and Unavailable.

    It runs at most `limit` flow runs at a time. A pool that does not exist is created, and stages of runs on other machines can be sent to
    one of processes from then on. With PREFECT_WORKER_WEBSERVER_PORT set, it answers health checks at that port.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"--limit is {limit}, and such a worker would never run anything: give 1 or more")
    kind = _kind_of(local, pool)
    name = f"{pool}-{platform.node()}-{os.getpid()}"
    command = [_command(), "worker", "start", "--pool", pool, "--type", kind, "--name", name]
    environment = {
        **_environment(local),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
        CHECKOUT: str(local.checkout),
        "TMPDIR": str(own_folder.temporary()),  # Prefect's worker has a folder of a fixed name there
    }
    if limit is not None:
        command += ["--limit", str(limit)]
    if "PREFECT_WORKER_WEBSERVER_PORT" in os.environ:
        command.append("--with-healthcheck")
    if kind == "process":
        _offer_stages(local, pool)
    else:
        environment["DOCKER_HOST"] = _engine(local.checkout, pool)
        if pool in POOLS:  # the containers of prefect.yaml mount it; otherwise the engine would create it as root
            (local.checkout / "data").mkdir(exist_ok=True)
    os.chdir(local.checkout)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what a script starts with `&`, and then Prefect's worker outlives SIGTERM too
    os.execve(command[0], command, environment)  # noqa: S606 the worker replaces this process, and gets its signals


def _kind_of(local: Local, pool: str) -> str:
    """What a pool runs, `process` or `docker`; a pool that does not exist is created, for processes unless POOLS says otherwise.

    Raises BadInput and Unavailable.
    """
    local.use()
    os.environ["PREFECT_API_URL"] = url = _url(local)
    background.require(url, name="Prefect", variable="PREFECT_API_URL")
    existing, new = asyncio.run(_have_pool(pool, POOLS.get(pool, "process")))
    kind = existing.type
    if new:
        print(f"the work pool {pool!r} is new: created, for {'processes' if kind == 'process' else 'containers'}", flush=True)
    if kind not in POOLS.values():
        raise BadInput(
            f"the work pool {pool!r} is of the type {kind}, and this starts workers of processes and of Docker: give another --pool"
        )
    return kind


def _offer_stages(local: Local, pool: str) -> None:
    """Create the deployment of `run-stages` of a pool of processes, or update it."""
    from prefect import get_client
    from prefect.flows import load_flow_from_entrypoint
    from prefect.utilities.callables import parameter_schema

    run_stages: Any = load_flow_from_entrypoint(str(local.checkout / _RUN_STAGES))
    with get_client(sync_client=True) as client:
        client.create_deployment(
            client.create_flow(run_stages),
            pool,
            description=f"Stages of runs on other machines. A run whose `pools` name {pool} starts it.",
            entrypoint=_RUN_STAGES,
            pull_steps=[{"prefect.deployments.steps.set_working_directory": {"directory": f"{{{{ ${CHECKOUT} }}}}"}}],
            work_pool_name=pool,
            parameter_openapi_schema=parameter_schema(run_stages).model_dump_for_openapi(),
        )
    automations.watch_heartbeats()


def follow(local: Local, name: str, parameters: dict[str, Any], *, run_name: str | None = None) -> Any:
    """Start a run of a deployment, print its states, and return the last one. Raises BadInput and Unavailable."""
    os.environ["PREFECT_API_URL"] = url = _url(local)
    background.require(url, name="Prefect", variable="PREFECT_API_URL")
    run = begin(name, parameters, run_name=run_name)
    print(f"flow run {run.name} {run.id}", flush=True)
    print(f"its table, image and links: {url.removesuffix('/api')}/runs/flow-run/{run.id}?tab=Artifacts", flush=True)
    return last_state(run.id, say=lambda line: print(line, flush=True))


def begin(name: str, parameters: dict[str, Any], *, run_name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Start a run of a deployment, as a child of the current flow run if there is one. Raises BadInput."""
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound

    try:
        return run_deployment(name=name, parameters=parameters, timeout=0, flow_run_name=run_name, tags=list(tags))
    except ObjectNotFound:
        raise BadInput(f"there is no deployment {name!r}: `prefect deployment ls` lists them, and `make ui` registers ours") from None


def last_state(flow_run_id: Any, *, say: Callable[[str], None], give_up: Callable[[], bool] = lambda: False) -> State[Any] | None:
    """Wait until a flow run has ended, print its states and why it does not begin, and return the last state.

    None if `give_up` returns true because it takes too long.

    Raises ConnectionError while Prefect does not answer.
    """
    from httpx import TransportError
    from prefect import get_client

    shown, waiting = "", Waiting()
    with get_client(sync_client=True) as client:
        while True:
            try:
                run = client.read_flow_run(flow_run_id)
                reason = waiting.reason(client, run)
            except TransportError as error:
                raise ConnectionError(str(error)) from None
            state = run.state
            if state is not None and state.name != shown:
                shown = state.name or ""
                say(shown)
            if reason:
                say(reason)
            if state is not None and state.is_final():
                return state
            if give_up():
                return None
            time.sleep(_POLL_S)


def cancel(flow_run_id: Any) -> None:
    """Ask Prefect to cancel a flow run; its worker ends it."""
    from prefect import get_client
    from prefect.states import Cancelling

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run_id, Cancelling())


def _engine(checkout: Path, pool: str) -> str:
    """The address of an engine that has the images which prefect.yaml names for a pool. Raises Unavailable."""
    if find_spec("prefect_docker") is None:
        raise Unavailable(
            f"prefect-docker, which the pool {pool} needs, is not installed: run `make setup`, or add the extra docker-worker"
        )
    from paddleship.containers import image

    try:
        client = image.connect()
    except Unavailable:
        raise Unavailable(
            "no Docker engine is reachable: run `make engine`, or start one and set DOCKER_HOST; "
            f"the pool {pool} needs one, and the pool local does not"
        ) from None
    with closing(client):
        for name in _images(checkout, pool):
            if not image.exists(client, name):
                raise Unavailable(f"the engine has no image {name!r}, and images are not pulled: run `make train-image`")
        return image.host_of(client)


def _images(checkout: Path, pool: str) -> list[str]:
    """The images of a pool's deployments in prefect.yaml."""
    import yaml

    deployments = yaml.safe_load((checkout / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    named = (one["work_pool"].get("job_variables", {}).get("image") for one in deployments if one["work_pool"]["name"] == pool)
    return sorted({name for name in named if name})


def _prefect(local: Local, *arguments: str) -> None:
    uri = without_credentials(local.tracking_uri())  # prefect.yaml hands it to containers, and the server stores it
    environment = {**_environment(local), "MLFLOW_TRACKING_URI": uri}
    done = subprocess.run(
        [_command(), *arguments], cwd=local.checkout, env=environment, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split())[-300:]
        raise Unavailable(f"`prefect {' '.join(arguments)}` failed ({output}): see {local.state / 'prefect.log'}")


def _environment(local: Local) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PREFECT_API_URL": _url(local), "PREFECT_HOME": str(local.prefect_home), "PATH": path}


def _url(local: Local) -> str:
    url = local.prefect_url()
    if url is None:
        raise Unavailable("no Prefect server is running: run `make ui` first")
    return url


def _command() -> str:
    return str(Path(sys.executable).parent / "prefect")

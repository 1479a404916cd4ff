"""A run over three machines, of which one loses its power in the middle of a stage.

Each machine is a set of namespaces with a clone, a cache and a home folder of its own. They share a git server, an S3 server with DVC's
remote, Prefect's and MLflow's servers, and nothing else. The machine with the engine is on the network of this one, where the engine is.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from paddleship.containers import image
from paddleship.servers.background import free_port
from tests.e2e.machines import SERVER, Machine, are_possible, bridge, power_off, processes_of, served
from tests.flows.helpers import git, wait_for
from tests.flows.test_pipeline import row_of

BIN = Path(sys.executable).parent
STAGES = ("prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept")
POOLS = {"prepare": "gpu", "train": "gpu", "benchmark": "target", "package": "engine", "accept": "engine"}
KEYS = {"AWS_ACCESS_KEY_ID": "machines", "AWS_SECRET_ACCESS_KEY": "of-a-test-only", "AWS_DEFAULT_REGION": "us-east-1"}

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not are_possible(), reason="needs root, unshare and ip to make machines"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


@pytest.fixture(scope="module")
def spaces():
    with bridge(["gpu", "target", "desk"]) as made:
        yield made


@pytest.fixture(scope="module")
def servers(base, spaces, linear_checkout_of, with_tables, engine):
    """Git, S3, Prefect and MLflow on the network of the machines; the variables of whoever uses them."""
    git_port, s3_port, prefect_port, mlflow_port = (free_port() for _ in range(4))
    image_name = {"repository": f"paddleship/test-machines-{os.getpid()}"}  # a run of another test may make the same candidate
    source = linear_checkout_of("source", optimize={"candidates": ["paddle", "onnxruntime"]}, package=image_name)
    storage = f"url = s3://data/dvc\nendpointurl = http://{SERVER}:{s3_port}\n"
    (source / ".dvc/config").write_text(f"[core]\nremote = storage\nanalytics = false\n['remote \"storage\"']\n{storage}")
    git(source, "commit", "-qam", "a remote that all machines reach")
    home = with_tables(base / "state")
    git(base, "clone", "--quiet", "--bare", str(source), "git/origin.git")
    (base / "buckets/data").mkdir(parents=True)
    api = f"http://{SERVER}:{prefect_port}/api"
    database = f"sqlite:///{home / '.paddleship/mlflow.db'}"
    keys = {"NANIO_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "NANIO_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    store = {"PREFECT_HOME": str(home / ".paddleship/prefect"), "PREFECT_API_URL": api, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    wanted = (
        (git_port, f"git daemon --export-all --enable=receive-pack --base-path={base / 'git'} --listen={SERVER} --port={git_port}", {}),
        (s3_port, f"{BIN / 'nanio'} serve --data-dir {base / 'buckets'} --host {SERVER} --port {s3_port}", keys),
        (prefect_port, f"{BIN / 'prefect'} server start --host {SERVER} --port {prefect_port}", store),
        (
            mlflow_port,
            f"{BIN / 'mlflow'} server --host {SERVER} --port {mlflow_port} --workers 1 --allowed-hosts * --backend-store-uri {database} "
            f"--artifacts-destination {home / 'artifacts'}",
            {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        ),
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "DOCKER_HOST", "PYTHONPATH"))}
    ours = {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": f"http://{SERVER}:{mlflow_port}", "COLUMNS": "200"}
    with contextlib.ExitStack() as stack:
        for port, command, environment in wanted:
            stack.enter_context(served(base / f"server-{port}", command.split(), address=(SERVER, port), **environment))
        yield kept | KEYS | ours | {"ORIGIN": f"git://{SERVER}:{git_port}/origin.git"}


@pytest.fixture(scope="module")
def machines(base, spaces, servers, engine):
    """Three machines for workers, one of them with the engine, and a desk at which somebody starts a run; each with a clone."""
    made = {}
    for name in ("gpu", "target", "engine", "desk"):
        docker = image.host_of(engine) if name == "engine" else "unix:///nowhere"
        settings = {"PYTHONPATH": str(base / name / "clone"), "DOCKER_HOST": docker}
        made[name] = Machine(base, name, servers | settings, space=spaces.get(name))
        made[name].run("git", "clone", "--quiet", servers["ORIGIN"], "clone")
    return made


@pytest.fixture(scope="module")
def done(base, machines, engine):
    """The run: its output, and the seconds that it took before and after the loss of a machine."""
    pools = sorted(set(POOLS.values()))
    with contextlib.ExitStack() as on_end:
        workers = {pool: machines[pool].work(in_clone("worker", "--pool", pool)) for pool in pools}
        for process in workers.values():
            on_end.callback(power_off, process)
        for pool in pools:
            wait_for(lambda pool=pool: "started!" in machines[pool].log.read_text())
        started = time.monotonic()
        on = [word for stage, pool in POOLS.items() for word in ("--on", f"{stage}={pool}")]
        run = on_end.enter_context(
            machines["desk"].start(*in_clone("run", *on), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        on_end.callback(power_off, run)
        wait_for(lambda: processes_of(machines["gpu"], "tasks.train"))
        power_off(workers["gpu"])
        wait_for(lambda: not processes_of(machines["gpu"], "tasks.train"))
        lost = time.monotonic()
        on_end.callback(power_off, machines["gpu"].work(in_clone("worker", "--pool", "gpu")))
        output, _ = run.communicate(timeout=1000)
        ended = time.monotonic()
    assert run.returncode == 0, output
    yield output, (lost - started, ended - lost)
    engine.images.remove(image_of(output), force=True)


def test_a_machine_sees_its_own_folder_only(base, machines):
    assert machines["gpu"].run("ls", str(base)).split() == ["gpu"]
    assert machines["target"].run("hostname") == "target\n"


def test_every_stage_ran_once_on_its_machine_and_only_the_one_that_lost_its_machine_twice(machines, done, capsys):
    output, (before, after) = done
    with capsys.disabled():
        print(f"\n{output[output.index('stage ') :]}\n{before:.0f} s until the machine was lost, {after:.0f} s from then to the end")
    finished = subprocess.CompletedProcess((), 0, output)
    for stage in STAGES:
        assert row_of(stage, finished)[2:4] == ["ran", POOLS.get(stage, "desk")]
    logs = {pool: machines[pool].log.read_text() for pool in POOLS.values()} | {"desk": output}
    for stage in STAGES:
        times = {name: count for name, log in logs.items() if (count := log.count(f"> python -m tasks.{stage}\n"))}
        assert times == {POOLS.get(stage, "desk"): 2 if stage == "train" else 1}


def test_the_image_leads_back_to_the_run_wherever_it_was_made(base, machines, done):
    origin = base / "git/origin.git"
    traced = machines["engine"].run(*in_clone("trace", image_of(done[0]), "--json"))
    lineage = json.loads(traced[traced.index("{") :])
    assert lineage["git_commit"] == git(origin, "rev-parse", "HEAD").strip()
    assert set(lineage["git_changes"]) <= {"params.yaml"}, "its overlay, as in every isolated run"
    assert lineage["measured_on"].startswith("target (")
    assert set(kept_lock(origin, lineage["experiment"])["stages"]) == set(STAGES)
    assert git(origin, "for-each-ref", "refs/paddleship") == "", "what carried the run is gone"
    for name in ("gpu", "target", "engine", "desk"):
        assert list((base / name / "clone/.paddleship/runs").iterdir()) == [] or name == "gpu", "no worktree is left"


def test_one_machine_alone_makes_the_same_model_and_the_same_candidates(base, servers, done):
    there = kept_lock(base / "git/origin.git", "run-*")
    kept = {name: value for name, value in servers.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    alone = Machine(base, "alone", kept | {"PYTHONPATH": str(base / "alone/clone")})
    alone.run("git", "clone", "--quiet", servers["ORIGIN"], "clone")
    alone.run(*in_clone("run", "--until", "optimize"))
    here = yaml.safe_load((base / "alone/clone/dvc.lock").read_text())
    for stage in ("prepare", "train", "export", "optimize"):
        one, other = (outs(lock["stages"][stage]) for lock in (here, there))
        assert one == other
        assert one


def kept_lock(origin, experiment):
    (ref,) = git(origin, "for-each-ref", "--format=%(refname)", f"refs/exps/*/*/{experiment}").split()
    return yaml.safe_load(git(origin, "show", f"{ref}:dvc.lock"))


def outs(stage):
    """The hashes of what a stage made, without its report, which has durations."""
    return {out["path"]: out["md5"] for out in stage["outs"] if not out["path"].startswith("reports")}


def in_clone(*arguments):
    return "bash", "-c", f"cd clone && exec {sys.executable} -m paddleship.cli.main {' '.join(arguments)}"


def image_of(output):
    return next(line.split()[1] for line in output.splitlines() if line.startswith("image "))

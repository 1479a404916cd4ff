"""What the tests of flows/ share."""

import json
import subprocess
import sys
import time
import urllib.request
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

import psutil
from sqlalchemy import create_engine, text

REPOSITORY = Path(__file__).parents[2]
DVC = str(Path(sys.executable).parent / "dvc")
PREFECT = str(Path(sys.executable).parent / "prefect")
PROGRAM = str(Path(sys.executable).parent / "paddleship")
OUTCOMES = ("ran", "restored", "unchanged", "failed", "not run")
STAGES = ("fetch", "prepare", "train", "export", "accept")


def git(folder, *arguments):
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def register_pool(environment, *arguments, **more):
    command = [str(REPOSITORY / "infra/register_pool.sh"), *arguments]
    return subprocess.run(command, env={**environment, "PREFECT": PREFECT, **more}, capture_output=True, text=True, check=False)


def wait_for(condition):
    """Poll until the condition holds, and give what it gave."""
    deadline = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)
    return found


def prefect_api(url, path, body=None):
    """Ask Prefect's server; like its own client, again where it answers 503, because its SQLite was busy."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{url}/{path}", data, {"Content-Type": "application/json"})  # noqa: S310 loopback

    def answer():
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 loopback
                return [json.load(response)]
        except HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return None

    return wait_for(answer)[0]


def started_by_commands(root, url):
    """The flow runs of the commands whose locks are in this checkout."""
    commands = [path.stem for path in (root / ".paddleship/flows").iterdir()]
    return [run for command in commands for run in prefect_api(url, "flow_runs/filter", {"flow_runs": {"tags": {"all_": [command]}}})]


def hanging(root):
    """Processes of a stage that hangs, once it does."""
    path = root / "pids"
    return [int(pid) for pid in wait_for(lambda: path.exists() and path.read_text()).split()]


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def how_it_went(done):
    """Stage → outcome, from the table at the end of a run."""
    found = {}
    for line in done.stdout.splitlines():
        cells = line.split(maxsplit=2)
        if len(cells) == 3 and cells[0] in STAGES:
            found[cells[0]] = next((outcome for outcome in OUTCOMES if cells[2].startswith(outcome)), None)
    return found


def report_of(root, stage):
    return json.loads((root / "reports" / f"{stage}.json").read_text())


def mlflow_runs(root):
    """(status, failure) of every MLflow run of the checkout."""
    engine = create_engine(f"sqlite:///{root}/.paddleship/mlflow.db")
    query = "select status, (select value from tags t where t.run_uuid = r.run_uuid and t.key = 'failure') from runs r order by start_time"
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text(query))]
    engine.dispose()
    return rows


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 loopback
            return answer.status == 200
    except OSError:
        return False

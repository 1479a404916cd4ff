"""A toy checkout: the real graph's shape, real DVC, real processes, and stages that fail on demand."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
import yaml

from flows import servers
from flows.local import Local
from paddleship.config import params
from tests.flows.helpers import PROGRAM, REPOSITORY, git

STAGE = """
import os, signal, subprocess, sys, time
from datetime import UTC, datetime
from pathlib import Path

import yaml

from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict

name = sys.argv[1]
how, out = Path("how", name).read_text().strip(), Path(f"{name}.txt")
epochs = yaml.safe_load(Path("params.yaml").read_text())["train"]["epochs"]
print(f"{name} at work")
out.write_text("half")
if how.startswith("hang unless ") and not Path(how.removeprefix("hang unless ")).exists():
    how = "hang"
if how == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}")
    child.wait()
if how == "be killed":
    Path("attempts").open("a").write("x")
    os.kill(os.getpid(), signal.SIGKILL)
if how == "be killed once" and not Path("attempts").exists():
    Path("attempts").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
if how == "find bad data":
    print("error: data.raw holds no rows: give some", file=sys.stderr)
    sys.exit(2)
if how == "need an engine":
    print("error: no Docker engine is reachable: run `make engine`", file=sys.stderr)
    sys.exit(4)
out.write_text(f"whole, {epochs} epochs")
value = 3 if how == "miss the gate" else 1
report = Report(
    stage=name,
    headline=f"score {value}",
    metrics={"score": value, "epochs": epochs},
    verdict=Verdict(checks=[Check.at_most("score", value, 2, advice="lower it")]),
    facts={"data_sha256": "0" * 64, "rows": 1} if name == "prepare" else {},
    findings=[Finding("batch-dependent", "warning", "padding counts", "mask it")] if how == "warn" else [],
    started_at=datetime.now(UTC),
)
report.write(Path("reports"))
for finding in report.serious():
    print(f"{name}: {finding}")
if how == "miss the gate":
    print("error: score is 3 (limit 2): lower it", file=sys.stderr)
    sys.exit(3)
"""


def _stage(name, *needs, **more):
    outs = [f"{name}.txt", f"reports/{name}.json", f"reports/{name}.metrics.json"]
    return {"cmd": f"python stage.py {name}", "deps": ["stage.py", f"how/{name}", *needs], "outs": outs, **more}


GRAPH = {
    "prepare": _stage("prepare", "data/raw"),
    "train": _stage("train", "prepare.txt", params=["train"]),
    "export": _stage("export", "train.txt"),
    "accept": _stage("accept", "export.txt", "prepare.txt"),
}
FETCH = {"wdir": "..", "cmd": "mkdir -p data/raw && cp data/source data/raw/rows", "deps": ["data/source"], "outs": ["data/raw"]}


@pytest.fixture(autouse=True)
def _forked(warm_commands):
    """Let the commands that tests and the flows in them start be forked, in the short form of the suite."""


@pytest.fixture
def toy(tmp_path, base_params):
    """A committed checkout in a folder of its own, with the remote of the repository's .dvc/config beside it."""
    root = tmp_path / "toy"
    for name in ("how", "data", ".dvc"):
        (root / name).mkdir(parents=True)
    overlay = yaml.safe_load((REPOSITORY / "examples/linear/params.yaml").read_text())
    files = {
        "params.yaml": "# the toy's params\n" + yaml.safe_dump(params.merge(base_params, overlay), sort_keys=False),
        "dvc.yaml": yaml.safe_dump({"stages": GRAPH}, sort_keys=False),
        "data/dvc.yaml": yaml.safe_dump({"stages": {"fetch": FETCH}}),
        "data/source": "rows\n",
        "stage.py": STAGE,
        ".gitignore": ".paddleship/\n*.txt\n/reports\n/data/raw\n/pids\n/attempts\n",
        ".dvc/config": (REPOSITORY / ".dvc/config").read_text(),
        ".dvc/.gitignore": (REPOSITORY / ".dvc/.gitignore").read_text(),
        ".dvcignore": (REPOSITORY / ".dvcignore").read_text(),
        **{f"how/{name}": "well\n" for name in GRAPH},
    }
    for name, text in files.items():
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "toy")
    return root


@pytest.fixture
def let(toy):
    """Make a stage of the toy do something, as `STAGE` knows it: miss the gate, warn, hang, hang unless FILE exists, be killed …"""
    return lambda stage, how: (toy / "how" / stage).write_text(f"{how}\n")


@pytest.fixture(scope="session")
def free_port():
    return servers.free_port


@pytest.fixture(scope="session")
def prefect_url(tmp_path_factory, free_port, with_tables):
    """A real Prefect server for the session; an ephemeral one per run would cost seconds each."""
    checkout = with_tables(tmp_path_factory.mktemp("prefect"))
    local = replace(Local(checkout), prefect_port=free_port())
    yield local._prefect().start() + "/api"
    local.stop()


@pytest.fixture
def environment(tmp_path, prefect_url):
    """Of a user whose own Prefect server is `prefect_url`, and who has nothing else set."""
    ours = ("PREFECT", "MLFLOW", "DOCKER_HOST", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PREFECT_API_URL": prefect_url, "PREFECT_HOME": str(tmp_path / "prefect"), "COLUMNS": "200"}


@pytest.fixture
def pipeline(toy, environment, mlflow_db):
    """Run the pipeline in the toy, as `make pipeline` does."""
    (toy / ".paddleship").mkdir()
    shutil.copy(mlflow_db, toy / ".paddleship" / "mlflow.db")

    def run(*arguments, checkout=toy, **more):
        command = [PROGRAM, "run", "--until", "export", *arguments]
        return subprocess.run(command, cwd=checkout, env={**environment, **more}, capture_output=True, text=True, check=False)

    return run

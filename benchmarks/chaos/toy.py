"""A toy checkout: the real graph's shape, real DVC, real processes, and stages that fail on demand.

A stage takes TOY_SECONDS_<STAGE> seconds where that is set, with a half-written out, and does what the file how/<stage> says.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from paddleship.config import loading

REPOSITORY = Path(__file__).parents[2]

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
time.sleep(float(os.environ.get(f"TOY_SECONDS_{name.upper()}", 0)))
if how.startswith("hang unless ") and not Path(how.removeprefix("hang unless ")).exists():
    how = "hang"
if how == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}")
    child.wait()
    time.sleep(600)  # the child alone was killed
if how == "be killed":
    Path("attempts").open("a").write("x")
    os.kill(os.getpid(), signal.SIGKILL)
if how == "be killed once" and not Path("attempts").exists():
    Path("attempts").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
if how == "end its process":
    os._exit(3)
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


def _stage(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    outs = [f"{name}.txt", f"reports/{name}.json", f"reports/{name}.metrics.json"]
    return {"cmd": f"python stage.py {name}", "deps": ["stage.py", f"how/{name}", *needs], "outs": outs, **more}


GRAPH = {
    "prepare": _stage("prepare", "data/raw"),
    "train": _stage("train", "prepare.txt", params=["train"]),
    "export": _stage("export", "train.txt"),
    "accept": _stage("accept", "export.txt", "prepare.txt"),
}
FETCH = {"wdir": "..", "cmd": "mkdir -p data/raw && cp data/source data/raw/rows", "deps": ["data/source"], "outs": ["data/raw"]}


def make(root: Path) -> Path:
    """Make a committed checkout in a new folder, with the remote of the repository's .dvc/config beside it."""
    for name in ("how", "data", ".dvc"):
        (root / name).mkdir(parents=True)
    values = loading.merge(loading.read(REPOSITORY / "params.yaml"), loading.read(REPOSITORY / "examples/linear/params.yaml"))
    files = {
        "params.yaml": "# the toy's params\n" + yaml.safe_dump(values, sort_keys=False),
        "dvc.yaml": yaml.safe_dump({"stages": GRAPH}, sort_keys=False),
        "data/dvc.yaml": yaml.safe_dump({"stages": {"fetch": FETCH}}),
        "data/source": "rows\n",
        "stage.py": STAGE,
        ".gitignore": ".paddleship/\n__pycache__/\n*.txt\n/reports\n/data/raw\n/pids\n/attempts\n",
        ".dvc/config": (REPOSITORY / ".dvc/config").read_text(encoding="utf-8"),
        ".dvc/.gitignore": (REPOSITORY / ".dvc/.gitignore").read_text(encoding="utf-8"),
        ".dvcignore": (REPOSITORY / ".dvcignore").read_text(encoding="utf-8"),
        **{f"how/{name}": "well\n" for name in GRAPH},
    }
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    shutil.copytree(REPOSITORY / "flows", root / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    who = ["-c", "user.name=toy", "-c", "user.email=toy@localhost", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "toy"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root

"""What the tests of promotion share: accepted model versions, each in the checkout that made it, and one place for what they all see."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from paddleship.config import loading
from paddleship.tracking.run import Tracker

REPOSITORY = Path(__file__).parents[2]
REPOSITORY_OF_IMAGES = f"paddleship/test-promote-{os.getpid()}"
STAGES = ("prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept")


@dataclass
class Team:
    """Checkouts by model version; all share one MLflow store and one ledger in `state`."""

    state: Path
    checkouts: dict[str, Path] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def uri(self):
        return f"sqlite:///{self.state / 'mlflow.db'}"

    @property
    def ledger(self):
        return self.state / "ledger.jsonl"

    @property
    def images(self):
        """The repository of all images, as the checkout that made them named it."""
        return json.loads((self.checkouts["1"] / "release.json").read_text())["image"].rpartition(":")[0]

    def settings(self, **promote):
        """Give all checkouts the same `promote` section."""
        for checkout in self.checkouts.values():
            path = checkout / "params.yaml"
            values = yaml.safe_load(path.read_text())
            values["promote"] = {"rows": 50, "latency_seconds": 2, "allow_slower": True, "ledger": str(self.ledger), **promote}
            path.write_text(yaml.safe_dump(values, sort_keys=False))

    def copy(self, state):
        """The same versions with a store and a ledger in a folder of their own."""
        shutil.copytree(self.state, state)
        return Team(state, self.checkouts, {**self.environment})

    def start(self, checkout, *arguments):
        """A command in a checkout; its output has both streams."""
        return subprocess.Popen(
            [sys.executable, "-m", "paddleship.cli.main", *arguments],
            cwd=self.checkouts[checkout],
            env=self.env(checkout),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, checkout, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "paddleship.cli.main", *arguments],
            cwd=self.checkouts[checkout],
            env=self.env(checkout) | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def env(self, checkout):
        paths = os.pathsep.join([str(REPOSITORY), str(self.checkouts[checkout])])
        return {**os.environ, **self.environment, "PYTHONPATH": paths, "MLFLOW_TRACKING_URI": self.uri}

    def register(self, version, checkout):
        """Make the accepted image of a checkout the model version of that number."""
        values = loading.load(checkout / "params.yaml")
        release = json.loads((checkout / "release.json").read_text())
        tags = {"mlflow.runName": version}
        tracker = Tracker.start(
            values, tracking_uri=self.uri, artifact_root=(self.state / "artifacts").as_uri(), spool=self.state / "spool", tags=tags
        )
        said = tracker.register(checkout / values.paths.candidates / release["candidate"], checkout / "release.json")
        tracker.finish()
        assert said == f"linear version {version} (challenger)", said
        self.checkouts[version] = checkout


def make(checkout, stage, stages=STAGES, **sections):
    """Run stages in a checkout with changed params."""
    path = checkout / "params.yaml"
    values = yaml.safe_load(path.read_text())
    for section, keys in sections.items():
        values[section] = values[section] | keys if isinstance(keys, dict) else keys
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    for name in stages:
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr

"""`paddleship drift`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from paddleship.cli.command_context import here
from paddleship.config import params_overlay
from paddleship.errors import GateFailed, Unavailable
from paddleship.orchestration import terminal


def add(commands: Any) -> None:
    """The command and what it is given."""
    drift = commands.add_parser(
        "drift", help="compare the requests that a server counted with the training rows; exit code 3: a feature drifted"
    )
    drift.add_argument("--sample", metavar="FOLDER", help="what a server with --sample writes (default: drift.sample of params.yaml)")
    drift.add_argument("--candidate", metavar="FOLDER", help="the candidate that serves (default: the one that counted requests last)")
    drift.add_argument("--hours", type=int, metavar="N", help="how many of the last hours count (default: drift.hours of params.yaml)")
    drift.add_argument("--params", metavar="FILE", help="a file laid over params.yaml, such as examples/linear/params.yaml")
    drift.add_argument("--retrain", action="store_true", help="tell Prefect of new drift, whose automation starts the deployment retrain")
    drift.set_defaults(command=_drift)


def _drift(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    from rich.table import Table

    from paddleship.drift import drift_page
    from paddleship.orchestration import drift_check

    overlay = params_overlay.path_in(checkout, arguments.params)
    given = {name: str(Path(value).resolve()) for name in ("sample", "candidate") if (value := getattr(arguments, name))}
    settings = params_overlay.load(checkout, overlay)
    result = drift_check.check(checkout, settings, sample=given.get("sample"), candidate=given.get("candidate"), hours=arguments.hours)
    table = Table(*drift_page.HEAD)
    for cells in drift_page.rows(result):
        table.add_row(*cells)
    terminal.show(table)
    print(result.headline, *drift_page.not_watched(result), f"report  {checkout / settings.paths.reports / drift_check.REPORT}", sep="\n")
    if arguments.retrain:
        if not local.prefect_url():
            raise Unavailable("--retrain needs a Prefect server, and none is running: run `make ui`, or leave it out")
        local.use()
        if new := drift_check.tell(local, result, params_file=overlay):
            print(f"sent to Prefect as events: {', '.join(new)}")
    return 0 if result else GateFailed.exit_code

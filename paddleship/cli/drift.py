"""`paddleship drift`."""

from __future__ import annotations

from pathlib import Path

import click

from paddleship.cli import options
from paddleship.cli.command_context import open_checkout
from paddleship.config import params_overlay
from paddleship.errors import GateFailed, Unavailable
from paddleship.orchestration import terminal


@click.command()
@click.option("--sample", metavar="FOLDER", help="what a server with --sample writes  [default: drift.sample of params.yaml]")
@click.option("--candidate", metavar="FOLDER", help="the candidate that serves  [default: the one that counted requests last]")
@click.option("--hours", type=int, metavar="N", help="how many of the last hours count  [default: drift.hours of params.yaml]")
@options.OVERLAY
@click.option("--retrain", is_flag=True, help="tell Prefect of new drift, whose automation starts the deployment retrain")
def drift(sample: str | None, candidate: str | None, hours: int | None, params: str | None, retrain: bool) -> int:
    """Compare the requests that a server counted with the training rows; exit code 3: a feature drifted."""
    checkout, local = open_checkout()
    from rich.table import Table

    from paddleship.drift import drift_page
    from paddleship.orchestration import drift_check

    overlay = params_overlay.path_in(checkout, params)
    settings = params_overlay.load(checkout, overlay)
    result = drift_check.check(checkout, settings, sample=_resolved(sample), candidate=_resolved(candidate), hours=hours)
    table = Table(*drift_page.HEAD)
    for cells in drift_page.rows(result):
        table.add_row(*cells)
    terminal.show(table)
    print(result.headline, *drift_page.not_watched(result), f"report  {checkout / settings.paths.reports / drift_check.REPORT}", sep="\n")
    if retrain:
        if not local.prefect_url():
            raise Unavailable("--retrain needs a Prefect server, and none is running: run `make ui`, or leave it out")
        local.use()
        if new := drift_check.notify(local, result, params_file=overlay):
            print(f"sent to Prefect as events: {', '.join(new)}")
    return 0 if result else GateFailed.exit_code


def _resolved(folder: str | None) -> str | None:
    return str(Path(folder).resolve()) if folder else None

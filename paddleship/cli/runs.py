"""`paddleship runs`: list, show, compare, open and remove runs."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddleship.cli.command_context import open_checkout
from paddleship.errors import BadInput
from paddleship.orchestration import terminal

if TYPE_CHECKING:
    from paddleship.cli.releases import Release
    from paddleship.servers.local_state import Local
    from paddleship.tracking.runs import Run

_RUN = "NAME|ID"


@click.group(no_args_is_help=False)
def runs() -> None:
    """List, show, compare, open and remove runs."""


@runs.command("list")
@click.option("--limit", type=int, default=20, show_default=True, metavar="N", help="how many to print")
def list_runs(limit: int) -> int:
    """The runs, the newest first."""
    if limit < 1:
        raise BadInput(f"--limit must be at least 1 (got {limit}): give the number of runs to print")
    checkout, local = open_checkout()
    from paddleship.cli import run_tables
    from paddleship.tracking.runs import find

    all_runs = find(local.tracking_uri())
    terminal.show(run_tables.table(all_runs[:limit], _releases(checkout, local, all_runs)))
    if len(all_runs) > limit:
        print(f"of {len(all_runs)} runs, the newest {limit}: --limit {len(all_runs)} prints all")
    return 0


@runs.command()
@click.argument("name", metavar=_RUN)
def show(name: str) -> int:
    """Show all facts about one run."""
    checkout, local = open_checkout()
    from paddleship.cli import run_tables
    from paddleship.tracking.runs import find, named

    all_runs = find(local.tracking_uri())
    run = named(all_runs, name)
    before = next((other for other in all_runs if other.model == run.model and other.started < run.started), None)
    terminal.show(run_tables.details(run, _releases(checkout, local, [run]).get(run.run_id), before))
    return 0


@runs.command()
@click.argument("names", metavar=f"{_RUN}|MODEL/VERSION|MODEL@ALIAS...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="also the rows that are equal, of two runs")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="write a page that compares the runs")
def compare(names: Sequence[str], everything: bool, html: Path | None) -> int:
    """Show which of several runs is better, and the differences between two of them."""
    _, local = open_checkout()
    from paddleship.cli import run_comparison
    from paddleship.cli.run_pair import RunPair
    from paddleship.tracking.runs import find, named, of_version, reports

    if len(names) < 2:
        raise BadInput(f"compare needs two runs or more (got {len(names)}): `paddleship runs list` prints their names")
    uri = local.tracking_uri()
    all_runs = find(uri)
    chosen = [of_version(uri, name) or named(all_runs, name) for name in names]
    if len({run.run_id for run in chosen}) < len(chosen):
        raise BadInput(f"{', '.join(names)} name one run twice: give different runs")
    run_comparison.require_no_sweep(chosen, all_runs)
    measured = [reports(uri, run) for run in chosen]
    print(*run_comparison.answer(chosen, measured), "", sep="\n")
    if len(chosen) == 2:
        pair = RunPair.of(chosen[0], chosen[1], (measured[0], measured[1]))
        terminal.show(run_comparison.table(pair, everything=everything))
        if not everything and (equal := run_comparison.equal_rows(pair)):
            print(f"{equal} equal rows are left out: --all prints them")
        print("", *run_comparison.conclusion(pair), sep="\n")
    if html:
        run_comparison.write_page(html, chosen, measured)
        print(f"page: {html}")
    return 0


@runs.command("open")
@click.argument("name", metavar=_RUN)
def open_page(name: str) -> int:
    """Open the page of a run in MLflow, or print its address where there is no browser."""
    _, local = open_checkout()
    from paddleship.tracking.runs import address, find, named

    uri = local.tracking_uri()
    page = address(uri, named(find(uri), name))
    if page is None:
        raise BadInput("no MLflow server shows the pages of this checkout: run `make ui`")
    print(page)
    webbrowser.open(page)
    return 0


@runs.command()
@click.option("--keep", type=int, default=20, show_default=True, metavar="N", help="how many of the newest runs to keep")
@click.option("--cache", is_flag=True, help="also remove from DVC's cache what this checkout, commits and experiments do not use")
@click.option("--everyone", is_flag=True, help="also remove the runs of other checkouts that use the same MLflow")
@click.option("--dry-run", is_flag=True, help="print what would be removed, and remove nothing")
def prune(keep: int, cache: bool, everyone: bool, dry_run: bool) -> int:
    """Remove old runs of this checkout: worktrees, images, MLflow runs, experiments."""
    checkout, local = open_checkout()
    if keep < 0:
        raise BadInput(f"--keep must be at least 0 (got {keep}): give the number of runs to keep")
    from paddleship.cli import run_tables

    run_tables.prune(checkout, local, keep=keep, everyone=everyone, cache=cache, dry_run=dry_run, say=print)
    return 0


def _releases(checkout: Path, local: Local, all_runs: Sequence[Run]) -> Mapping[str, Release]:
    """The releases of the runs; empty, with the reason on standard error, if the params or the ledger cannot be read."""
    from paddleship.cli import releases

    try:
        return releases.of_runs(checkout, local.tracking_uri(), all_runs)
    except BadInput as error:
        print(f"warning: not known which run serves: {error}", file=sys.stderr)
        return {}

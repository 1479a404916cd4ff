"""`paddleship run` and `paddleship ci`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from paddleship.cli import options
from paddleship.cli.command_context import end, get_ready, load_flow, open_checkout, run_flow
from paddleship.config import params_overlay
from paddleship.errors import BadInput, PaddleshipError
from paddleship.reports.order import STAGES, StageName


@click.command()
@click.option("--params", metavar="FILE", help="a file laid over params.yaml; runs the last commit in a separate worktree")
@options.UNTIL
@click.option("--commit", metavar="NAME", help="a commit, branch or tag to run in a separate worktree  [default: this checkout]")
@click.option("--deployment", metavar="NAME", help="let a worker run it, such as develop-to-deploy/local, and follow it")
@click.option("--name", metavar="NAME", help="name of the run in Prefect and MLflow  [default: model, differing params, end of its id]")
@click.option("--no-register", is_flag=True, help="do not register the accepted candidate as challenger")
@click.option("--on", multiple=True, metavar="STAGE=POOL", help="run this stage on a worker of that pool; once per stage")
@click.option(
    "--again", multiple=True, type=click.Choice(STAGES), metavar="STAGE", help="run this stage although nothing changed; once per stage"
)
@click.option("--timeout", type=int, metavar="SECONDS", help="end the run as failed after so many seconds  [default: no limit]")
def run(
    params: str | None,
    until: StageName,
    commit: str | None,
    deployment: str | None,
    name: str | None,
    no_register: bool,
    on: tuple[str, ...],
    again: tuple[str, ...],
    timeout: int | None,
) -> int:
    """Run the pipeline in this checkout."""
    checkout, local = open_checkout()
    pools, wait = _pools(on), None
    in_place = not (params or commit or deployment or pools)
    if in_place and not (again or name):
        wait = get_ready(checkout, local)  # Prefect takes seconds to start, and is needed unless nothing changed
        if _is_done(checkout, local, until, register=not no_register):
            return 0
    elif in_place:
        _remove_earlier_page(checkout)
    overlay = params_overlay.path_in(checkout, params)
    if overlay and not deployment:
        _require_params(checkout, overlay, commit or "HEAD")
    arguments: dict[str, Any] = {"params_file": overlay, "until": until, "commit": commit}
    if no_register:
        arguments["register_model"] = False
    if pools:
        arguments["pools"] = pools
    if again:
        arguments["again"] = list(again)
    if timeout is not None:
        if timeout < 1:
            raise BadInput(f"--timeout must be at least 1 (got {timeout}): give seconds, or leave it out for no limit")
        arguments["timeout_s"] = timeout
    return end(_pipeline(checkout, local, deployment, name=name, wait=wait, **arguments))


def _is_done(checkout: Path, local: Any, until: StageName, *, register: bool) -> bool:
    """Whether the last run in the checkout did all that is asked for, and nothing changed since; if not, its page is removed."""
    from paddleship.orchestration import up_to_date

    done = False
    try:
        done = up_to_date.show(checkout, local, until, register=register)
    finally:
        if not done:
            _remove_earlier_page(checkout)
    return done


def _remove_earlier_page(checkout: Path) -> None:
    from paddleship.cli import earlier_page
    from paddleship.system import disk

    with disk.full_is_unavailable("the run"):
        earlier_page.remove_in(checkout)


@click.command()
@options.UNTIL
@click.option("--deployment", metavar="NAME", help="let a worker run this commit, which must be pushed, and follow it")
@click.option("--force", is_flag=True, help="run although nothing changed, on a schedule for example")
@click.option("--report", type=Path, default=Path("reports/ci.md"), show_default=True, metavar="FILE", help="where the report goes")
def ci(until: StageName, deployment: str | None, force: bool, report: Path) -> int:
    """Run the pipeline if params, code or data changed, and write a report: what a CI job calls."""
    from paddleship.cli import ci_report
    from paddleship.execution import workspace

    report, commit = report.absolute(), "unknown"
    try:
        ci_report.begin(report)
        checkout, local = open_checkout()
        commit = workspace.commit(checkout)
        return _ci_job(checkout, local, until, deployment, report, commit=commit, force=force)
    except PaddleshipError as error:
        ci_report.fail(error, commit, report)
        raise
    except BaseException as error:
        ci_report.fail(PaddleshipError(f"the job ended by {type(error).__name__}: {error}: see its log"), commit, report)
        raise


def _ci_job(checkout: Path, local: Any, until: StageName, deployment: str | None, report: Path, *, commit: str, force: bool) -> int:
    """Run what changed, and write the report. Returns the exit code of the run."""
    from paddleship.cli import ci_report, earlier_page
    from paddleship.orchestration import pending_changes

    changed = pending_changes.changes(checkout, until)
    if not changed and not force:
        print(ci_report.skip(checkout, report))
        return 0
    print("\n".join(pending_changes.lines(changed)) or "nothing changed since dvc.lock: the pipeline runs because of --force", flush=True)
    earlier_page.remove(report.parent)
    forced: dict[str, Any] = {"force": force} if (deployment or "").startswith("retrain/") else {}
    state = _pipeline(checkout, local, deployment, until=until, commit=commit if deployment else None, trigger="CI", **forced)
    ci_report.write(local, state, changed, report, commit=commit)
    print(f"report  {report}")
    return end(state)


def _pipeline(
    checkout: Path,
    local: Any,
    deployment: str | None,
    *,
    name: str | None = None,
    wait: Callable[[], None] | None = None,
    **parameters: Any,
) -> Any:
    """Run the pipeline here or let a worker run it, under a name of its own if there is one; its last state."""
    if deployment:
        os.chdir(checkout)
        local.use()
        from paddleship.orchestration.deployment import follow

        return follow(local, deployment, parameters, run_name=name)
    flow = load_flow(checkout, local, "flows.pipeline", wait=wait).develop_to_deploy
    if name:
        flow = flow.with_options(flow_run_name=lambda: name)
    return run_flow(local, flow, **parameters, isolated=False)


def _require_params(checkout: Path, file: str, commit: str) -> None:
    """Check a file that is laid over the params of a commit before anything starts. Raises ParamsError."""
    from paddleship.config import loading
    from paddleship.execution import workspace

    workspace.overlaid(checkout, loading.read(checkout / file), origin=file, commit=commit)


def _pools(pairs: tuple[str, ...]) -> dict[str, str]:
    """Stage → work pool. Raises BadInput."""
    for pair in pairs:
        if not all(pair.partition("=")):
            raise BadInput(f"--on must be STAGE=POOL (got {pair!r}), such as --on train=gpu")
    return dict(pair.split("=", 1) for pair in pairs)

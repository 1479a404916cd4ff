"""`paddleship`: the pipeline, its local servers, and the way back from an image. Exit codes: see paddleship/errors.py."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from paddleship.cli import drift, promotion, sweep
from paddleship.cli.command_context import end, get_ready, here, load_flow, run_flow
from paddleship.config import params_overlay
from paddleship.config.graph_modes import ModeName, NetworkName
from paddleship.errors import BadInput, Cancelled, GateFailed, PaddleshipError
from paddleship.execution import startup
from paddleship.orchestration import terminal
from paddleship.reports.order import STAGES
from paddleship.system import defects, disk, output

if TYPE_CHECKING:
    from paddleship.cli.releases import Release
    from paddleship.servers.local_state import Local
    from paddleship.tracking.runs import Run


def main() -> None:
    """Parse, run one command, exit by its outcome; a user's mistake is one line, and so is a defect, whose traceback is in a file."""
    output.print_any_character()
    startup.keep_what_they_make()
    terminal.survive_closed_output()
    arguments = _parser().parse_args()
    try:
        with disk.full_is_unavailable("paddleship"):
            sys.exit(arguments.command(arguments))
    except PaddleshipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("error: interrupted: what is finished is kept, so the same command continues after it", file=sys.stderr)
        sys.exit(Cancelled.exit_code)
    except Exception as error:
        line, code = defects.report(error, what="paddleship", folder=Path("reports"))
        print(f"error: {line}", file=sys.stderr)
        sys.exit(code)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BadInput.exit_code, f"error: {message} (see `{self.prog} --help`)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="paddleship", description="From an eager PaddlePaddle model to a proven, hardened image.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the pipeline in this checkout")
    run.add_argument("--params", metavar="FILE", help="a file laid over params.yaml; runs the last commit in a separate worktree")
    run.add_argument("--until", choices=STAGES, default="accept", help="the last stage to run (default: accept)")
    run.add_argument("--commit", metavar="NAME", help="a commit, branch or tag to run in a separate worktree (default: this checkout)")
    run.add_argument("--deployment", metavar="NAME", help="let a worker run it, such as develop-to-deploy/local, and follow it")
    run.add_argument(
        "--name", metavar="NAME", help="name of the run in Prefect and MLflow (default: the model, the params that differ, two words)"
    )
    run.add_argument("--no-register", action="store_true", help="do not register the accepted candidate as challenger")
    run.add_argument(
        "--on", action="append", default=[], metavar="STAGE=POOL", help="run this stage on a worker of that pool; once per stage"
    )
    run.add_argument(
        "--again", action="append", default=[], choices=STAGES, metavar="STAGE", help="run this stage although nothing changed"
    )
    run.add_argument("--timeout", type=int, metavar="SECONDS", help="end the run as failed after so many seconds (default: no limit)")
    run.set_defaults(command=_run)

    ci = commands.add_parser("ci", help="what a CI job calls: run the pipeline if params, code or data changed, and write a report")
    ci.add_argument("--until", choices=STAGES, default="accept", help="the last stage to run (default: accept)")
    ci.add_argument("--deployment", metavar="NAME", help="let a worker run this commit, which must be pushed, and follow it")
    ci.add_argument("--force", action="store_true", help="run although nothing changed, on a schedule for example")
    ci.add_argument("--report", type=Path, default=Path("reports/ci.md"), metavar="FILE", help="default: reports/ci.md")
    ci.set_defaults(command=_ci)

    doctor = commands.add_parser("doctor", help="check whether a model converts, and say what to change")
    doctor.add_argument(
        "model", nargs="?", metavar="MODULE:FACTORY", help="factory of the model (default: model.factory of params.yaml here)"
    )
    doctor.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SPEC",
        help="'NAME:DTYPE[DIM,…]' or with '=LOW..HIGH', where HIGH may be a DIM; once per input",
    )
    doctor.add_argument(
        "--dimension", action="append", default=[], metavar="SIZES", help="'NAME=LOW..HIGH' or with '/MULTIPLE': sizes of a dimension"
    )
    doctor.add_argument("--params", metavar="FILE", help="a file laid over params.yaml that names the model")
    doctor.add_argument("--kwargs", default="{}", metavar="JSON", help="arguments of the factory")
    doctor.add_argument("--root", metavar="FOLDER", help="folder added to the import path (default: . or code.root)")
    doctor.add_argument("--seconds", type=float, default=120, metavar="N", help="time for the whole examination (default: 120)")
    doctor.add_argument("--checkpoint", metavar="FOLDER", help="trained weights (default: fresh random weights)")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(command=_doctor)

    compare = commands.add_parser("compare-graph-modes", help="benchmark eager and static graphs of Paddle and PyTorch on this machine")
    compare.add_argument("--full", action="store_true", help="sizes for GPUs")
    compare.add_argument("--networks", nargs="+", choices=get_args(NetworkName), help="default: as in params.yaml")
    compare.add_argument("--modes", nargs="+", choices=get_args(ModeName), help="default: all")
    compare.add_argument("--rounds", type=int, metavar="N", help="interleaved blocks (default: as in params.yaml)")
    compare.add_argument("--threads", type=int, metavar="N", help="threads and cores of every mode")
    compare.add_argument("--torch-site", metavar="FOLDER", help="site-packages of PyTorch where it is not installed beside Paddle")
    compare.set_defaults(command=_compare_graph_modes)

    compared = commands.add_parser("compare", help="compare two benchmarks: which candidate became faster or slower")
    compared.add_argument("earlier", type=Path, metavar="EARLIER", help="folder of an earlier benchmark: samples.parquet, samples.json")
    compared.add_argument("later", type=Path, nargs="?", metavar="LATER", help="default: the one of params.yaml here")
    compared.add_argument("--all", action="store_true", help="also the rows that are equal")
    compared.set_defaults(command=_compare)

    trace = commands.add_parser("trace", help="show the commit, data and params that an image or container was made from")
    trace.add_argument("name", metavar="IMAGE|CONTAINER")
    trace.add_argument("--json", action="store_true", help="print JSON")
    trace.set_defaults(command=_trace)

    runs = commands.add_parser("runs", help="list, show, compare, open and remove runs").add_subparsers(required=True, metavar="WHAT")
    listed = runs.add_parser("list", help="the runs, the newest first")
    listed.add_argument("--limit", type=int, default=20, metavar="N", help="how many to print (default: 20)")
    listed.set_defaults(command=_runs_list)
    shown = runs.add_parser("show", help="all that is known of one run")
    shown.add_argument("name", metavar="NAME|ID")
    shown.set_defaults(command=_runs_show)
    compared = runs.add_parser("compare", help="what differs between two runs, and which one is better in what")
    compared.add_argument("one", metavar="NAME|ID")
    compared.add_argument("other", metavar="NAME|ID")
    compared.set_defaults(command=_runs_compare)
    opened = runs.add_parser("open", help="open the page of a run in MLflow, or print its address where there is no browser")
    opened.add_argument("name", metavar="NAME|ID")
    opened.set_defaults(command=_runs_open)
    pruned = runs.add_parser("prune", help="remove old runs of this checkout: worktrees, images, MLflow runs, experiments")
    pruned.add_argument("--keep", type=int, default=20, metavar="N", help="how many of the newest runs to keep (default: 20)")
    pruned.add_argument(
        "--cache", action="store_true", help="also remove from DVC's cache what this checkout, commits and experiments do not use"
    )
    pruned.add_argument("--everyone", action="store_true", help="also remove the runs of other checkouts that use the same MLflow")
    pruned.add_argument("--dry-run", action="store_true", help="print what would be removed, and remove nothing")
    pruned.set_defaults(command=_runs_prune)

    sweep.add(commands)
    promotion.add(commands)
    drift.add(commands)

    commands.add_parser("deliver", help="send reports to MLflow that it did not receive while it was unavailable").set_defaults(
        command=_deliver
    )
    commands.add_parser("ui", help="start Prefect and MLflow on loopback, and deploy the flow").set_defaults(command=_ui)
    commands.add_parser("deploy", help="register the deployments with the Prefect server of PREFECT_API_URL").set_defaults(command=_deploy)
    worker = commands.add_parser("worker", help="run a worker for the deployments of a work pool, in the foreground")
    worker.add_argument("--pool", default="local", help="docker: the training image; any other name: processes (default: local)")
    worker.add_argument("--limit", type=int, metavar="N", help="run at most N flow runs at a time (default: as many as the pool allows)")
    worker.set_defaults(command=_worker)
    commands.add_parser("stop", help="stop what `ui` started").set_defaults(command=_stop)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    pools, wait = _pools(arguments.on), None
    if not (arguments.params or arguments.commit or arguments.deployment or arguments.again or arguments.name or pools):
        wait = get_ready(checkout, local)  # Prefect takes seconds to start, and is needed unless nothing changed

        from paddleship.orchestration import up_to_date

        if up_to_date.show(checkout, local, arguments.until, register=not arguments.no_register):
            return 0
    overlay = params_overlay.path_in(checkout, arguments.params)
    if overlay and not arguments.deployment:
        _require_params(checkout, overlay, arguments.commit or "HEAD")
    given: dict[str, Any] = {"params_file": overlay, "until": arguments.until, "commit": arguments.commit}
    if arguments.no_register:
        given["register_model"] = False
    if pools:
        given["pools"] = pools
    if arguments.again:
        given["again"] = arguments.again
    if arguments.timeout is not None:
        if arguments.timeout < 1:
            raise BadInput(f"--timeout must be at least 1 (got {arguments.timeout}): give seconds, or leave it out for no limit")
        given["timeout_s"] = arguments.timeout
    return end(_pipeline(checkout, local, arguments.deployment, name=arguments.name, wait=wait, **given))


def _require_params(checkout: Path, file: str, commit: str) -> None:
    """Check a file that is laid over the params of a commit before anything starts. Raises ParamsError."""
    from paddleship.config import loading
    from paddleship.execution import workspace

    workspace.overlaid(checkout, loading.read(checkout / file), origin=file, commit=commit)


def _pools(pairs: list[str]) -> dict[str, str]:
    """Stage → work pool. Raises BadInput."""
    for pair in pairs:
        if not all(pair.partition("=")):
            raise BadInput(f"--on must be STAGE=POOL (got {pair!r}), such as --on train=gpu")
    return dict(pair.split("=", 1) for pair in pairs)


def _ci(arguments: argparse.Namespace) -> int:
    checkout, local = here()

    from paddleship.cli import ci_report
    from paddleship.execution import workspace

    report = arguments.report.absolute()
    report.unlink(missing_ok=True)  # of an earlier job in the same workspace
    try:
        return _ci_job(checkout, local, arguments, report)
    except PaddleshipError as error:
        ci_report.fail(error, workspace.commit(checkout), report)
        raise


def _ci_job(checkout: Path, local: Any, arguments: argparse.Namespace, report: Path) -> int:
    """Run what changed, and write the report. Returns the exit code of the run."""
    from paddleship.cli import ci_report
    from paddleship.execution import workspace
    from paddleship.orchestration import pending_changes

    changed = pending_changes.changes(checkout, arguments.until)
    if not changed and not arguments.force:
        print(ci_report.skip(checkout, report))
        return 0
    print("\n".join(pending_changes.lines(changed)) or "nothing changed since dvc.lock: the pipeline runs because of --force", flush=True)
    commit = workspace.commit(checkout)
    retrain = (arguments.deployment or "").startswith("retrain/")
    forced = {"force": arguments.force} if retrain else {}
    state = _pipeline(
        checkout,
        local,
        arguments.deployment,
        until=arguments.until,
        commit=commit if arguments.deployment else None,
        trigger="CI",
        **forced,
    )
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


def _doctor(arguments: argparse.Namespace) -> int:
    from paddleship.cli import doctor

    return doctor.run(arguments)


def _compare_graph_modes(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    from paddleship.config import loading

    given = {name: getattr(arguments, name) for name in ("full", "networks", "modes", "rounds", "threads", "torch_site")}
    state = run_flow(local, load_flow(checkout, local, "flows.compare_graph_modes").compare_graph_modes, **given)
    if not state.is_completed():
        return end(state)
    print(f"{state.message}: see {loading.load(checkout / 'params.yaml').paths.reports}/compare-graph-modes.md")
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from paddleship.benchmark import samples
    from paddleship.config import loading
    from paddleship.statistics.estimates import Difference

    later = arguments.later or Path(loading.load(Path("params.yaml")).paths.benchmark)
    changes = samples.compare(arguments.earlier, later)
    print(f"{'speedup over the baseline':26} {'earlier':>8} {'later':>8}   change")
    print("\n".join(map(str, changes)) or "no participant is in both")
    return GateFailed.exit_code if any(change.difference == Difference.WORSE for change in changes) else 0


def _trace(arguments: argparse.Namespace) -> int:
    from paddleship.cli import trace

    what, lineage = trace.trace(arguments.name)
    print(lineage.model_dump_json(indent=1) if arguments.json else trace.describe(what, lineage, store=_store_here()))
    return 0


def _store_here() -> str | None:
    """The tracking URI of the checkout that holds this folder; None outside one, or before its first run."""
    from paddleship.execution.workspace import checkout_of
    from paddleship.servers.local_state import Local

    try:
        local = Local.of(checkout_of(Path.cwd()))
    except BadInput:
        return None
    return local.tracking_uri() if local.state.is_dir() else None


def _runs_list(arguments: argparse.Namespace) -> int:
    if arguments.limit < 1:
        raise BadInput(f"--limit must be at least 1 (got {arguments.limit}): give the number of runs to print")
    checkout, local = here()
    from paddleship.cli import runs
    from paddleship.tracking.runs import find

    found = find(local.tracking_uri())
    terminal.show(runs.table(found[: arguments.limit], _releases(checkout, local, found)))
    if len(found) > arguments.limit:
        print(f"of {len(found)} runs, the newest {arguments.limit}: --limit {len(found)} prints all")
    return 0


def _runs_show(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    from paddleship.cli import runs
    from paddleship.tracking.runs import find, named

    found = find(local.tracking_uri())
    run = named(found, arguments.name)
    before = next((other for other in found if other.model == run.model and other.started < run.started), None)
    terminal.show(runs.details(run, _releases(checkout, local, [run]).get(run.run_id), before))
    return 0


def _releases(checkout: Path, local: Local, found: Sequence[Run]) -> Mapping[str, Release]:
    """What became of the runs; empty, with the reason on standard error, if the params or the ledger cannot be read."""
    from paddleship.cli import releases

    try:
        return releases.of_runs(checkout, local.tracking_uri(), found)
    except BadInput as error:
        print(f"warning: not known which run serves: {error}", file=sys.stderr)
        return {}


def _runs_compare(arguments: argparse.Namespace) -> int:
    _, local = here()
    from paddleship.cli import run_comparison
    from paddleship.tracking.runs import find, named, reports

    uri = local.tracking_uri()
    found = find(uri)
    one, other = named(found, arguments.one), named(found, arguments.other)
    terminal.show(run_comparison.table(one, other, everything=arguments.all))
    if not arguments.all and (equal := run_comparison.equal_rows(one, other)):
        print(f"{equal} equal rows are left out: --all prints them")
    print("", *run_comparison.conclusion(one, other, (reports(uri, one), reports(uri, other))), sep="\n")
    return 0


def _runs_open(arguments: argparse.Namespace) -> int:
    _, local = here()
    from paddleship.tracking.runs import address, find, named

    uri = local.tracking_uri()
    page = address(uri, named(find(uri), arguments.name))
    if page is None:
        raise BadInput("no MLflow server shows the pages of this checkout: run `make ui`")
    print(page)
    webbrowser.open(page)
    return 0


def _runs_prune(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    if arguments.keep < 0:
        raise BadInput(f"--keep must be at least 0 (got {arguments.keep}): give the number of runs to keep")
    from paddleship.cli import runs

    runs.prune(
        checkout, local, keep=arguments.keep, everyone=arguments.everyone, cache=arguments.cache, dry_run=arguments.dry_run, say=print
    )
    return 0


def _deliver(_arguments: argparse.Namespace) -> int:
    _, local = here()
    from paddleship.tracking.run import deliver

    sent = deliver(local.spool, tracking_uri=local.tracking_uri())
    print("\n".join(f"delivered run {run_id}" for run_id in sent) or "nothing to deliver: MLflow has everything")
    return 0


def _ui(_arguments: argparse.Namespace) -> int:
    _, local = here()
    print("starting Prefect and MLflow")
    addresses = local.start()
    from paddleship.orchestration import deployment

    deployment.deploy(local)
    for name, url in addresses.items():
        print(f"{name:8}{url}")
    print("run it:  make worker, and in another terminal: .venv/bin/prefect deployment run develop-to-deploy/local --watch")
    return 0


def _deploy(_arguments: argparse.Namespace) -> int:
    _, local = here()
    from paddleship.orchestration import deployment

    deployment.deploy(local)
    return 0


def _worker(arguments: argparse.Namespace) -> int:
    _, local = here()
    from paddleship.orchestration import deployment

    return deployment.work(local, pool=arguments.pool, limit=arguments.limit)


def _stop(_arguments: argparse.Namespace) -> int:
    _, local = here()
    stopped = local.stop()
    print(f"stopped {', '.join(stopped)}" if stopped else "no server of paddleship is running")
    return 0


if __name__ == "__main__":
    main()

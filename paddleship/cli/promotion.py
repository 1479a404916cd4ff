"""`paddleship promote`, `rollback` and `ledger`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from paddleship.cli.command_context import end, here, load_flow, run_flow
from paddleship.config import params_overlay
from paddleship.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from paddleship.promotion.ledger import Entry, Ledger


def add(commands: Any) -> None:
    """The three commands and what they are given."""
    promote = commands.add_parser("promote", help="judge a model version against the champion, and put it in its place")
    promote.add_argument("version", nargs="?", default="challenger", metavar="VERSION|ALIAS", help="model version (default: challenger)")
    promote.set_defaults(command=_promote)
    rollback = commands.add_parser("rollback", help="bring a former champion back")
    rollback.add_argument("version", nargs="?", metavar="VERSION", help="model version (default: the champion before this one)")
    rollback.add_argument("--reason", default="", metavar="TEXT", help="why, for the ledger")
    rollback.set_defaults(command=_rollback)
    ledger = commands.add_parser("ledger", help="what serves and served, since when and why")
    ledger.add_argument("--at", metavar="TIME", help="what served then: 2026-11-20 (at the end of that day, UTC) or 2026-11-20T14:30")
    ledger.set_defaults(command=_ledger)
    for command in (promote, rollback, ledger):
        command.add_argument("--params", metavar="FILE", help="a file laid over params.yaml, such as examples/linear/params.yaml")


def _promote(arguments: argparse.Namespace) -> int:
    return _run("promote", arguments)


def _rollback(arguments: argparse.Namespace) -> int:
    """As a flow run where a Prefect server shows it; none is started or waited for, since that takes seconds."""
    checkout, local = here()
    if (url := local.prefect_url()) is not None and _answers(url):
        return _run("rollback", arguments, reason=arguments.reason)
    overlay = params_overlay.path_in(checkout, arguments.params)
    os.chdir(checkout)
    from paddleship.rollout.rollback import roll_back

    print(roll_back(arguments.version, overlay, reason=arguments.reason, step=_timed, say=_say))
    return 0


def _answers(url: str) -> bool:
    """Whether the Prefect server at this address answers; says so if it does not."""
    from paddleship.servers import background

    try:
        background.require(url, name="Prefect", variable="PREFECT_API_URL")
    except Unavailable as trouble:
        _say(f"{trouble}; the rollback goes on without it")
        return False
    return True


def _timed(name: str, work: Callable[[], Any]) -> Any:
    began = time.monotonic()
    result = work()
    _say(f"{name}: {time.monotonic() - began:.1f} s")
    return result


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _run(name: str, arguments: argparse.Namespace, **more: str) -> int:
    checkout, local = here()
    overlay = params_overlay.path_in(checkout, arguments.params)
    if name == "promote" and params_overlay.load(checkout, overlay).promote.approval == "human" and local.prefect_url() is None:
        raise BadInput("promote.approval is 'human', and no Prefect server shows the form: run `make ui`, or set promote.approval: none")
    flow = getattr(load_flow(checkout, local, "flows.promote"), name)
    state = run_flow(local, flow, version=arguments.version, params_file=overlay, **more)
    code = end(state)
    if not code:
        print(state.message)
    return code


def _ledger(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    from paddleship.promotion.ledger import Ledger
    from paddleship.tracking.champion import Registry

    at = _moment(arguments.at) if arguments.at else None
    params = params_overlay.load(checkout, params_overlay.path_in(checkout, arguments.params))
    try:
        elsewhere = Registry(local.tracking_uri(), params.name, artifact_root=local.artifact_root).entries()
    except Unavailable as trouble:
        print(f"only the entries of this machine's ledger file: {trouble}", file=sys.stderr)
        elsewhere = []
    ledger = Ledger(checkout / params.promote.ledger, params.name, elsewhere=elsewhere)
    if at is None:
        lines = [_line(entry, before) for before, entry in pairwise([None, *ledger.entries]) if entry]
        print("\n".join(lines) or f"nothing was promoted of {params.name!r} yet; for another model: --params FILE")
        return 0
    serving, unfinished = ledger.serving(at), ledger.unfinished(at)
    if serving is None:
        print(f"nothing of {params.name!r} served at {at:%Y-%m-%d %H:%M} UTC")
    else:
        print(*_told(serving), *_elsewhere(ledger, serving, at), sep="\n")
    if unfinished is not None and (serving is None or unfinished.shipped != serving.shipped):
        print(f"version {unfinished.shipped.version} was being put in its place since {unfinished.at:%H:%M:%S} UTC")
    return 0


def _line(entry: Entry, before: Entry | None) -> str:
    """An entry as a line, with its reason unless it is that of the entry before."""
    version = f"version {entry.shipped.version} ({entry.shipped.image_id.removeprefix('sha256:')[:12]})"
    where = f" as {entry.target}" if entry.target else ""
    why = f": {entry.why}" if before is None or entry.why != before.why else ""
    return f"{entry.at:%Y-%m-%d %H:%M:%S}  {_event(entry):9} {version} {entry.action:8} by {_who(entry)}{where}{why}"


def _event(entry: Entry) -> str:
    """The event; the champion of a model without a target serves nowhere that is known here."""
    return "champion" if entry.event == "serving" and entry.target is None else entry.event


def _who(entry: Entry) -> str:
    return f"{entry.by}{f', approved by {entry.approved_by}' if entry.approved_by else ''}"


def _elsewhere(ledger: Ledger, serving: Entry, at: datetime) -> list[str]:
    """The other targets, by the ledger, whose service had another image then."""
    others = {where: one for where, one in ledger.targets(at).items() if where != serving.target}
    return [f"  not changed   {where}: version {one.version}" for where, one in others.items() if one.image_id != serving.shipped.image_id]


def _told(entry: Entry) -> list[str]:
    """What served, since when and why, for a person."""
    shipped = entry.shipped
    return [
        f"version {shipped.version} of {shipped.model}, since {entry.at:%Y-%m-%d %H:%M:%S} UTC",
        f"  serves as     {entry.target or 'nothing: promote.target was null'}",
        f"  image         {shipped.reference or shipped.image}",
        f"  image id      {shipped.image_id}",
        f"  candidate     {shipped.candidate_digest}",
        f"  replaced      {f'version {entry.replaces}' if entry.replaces else 'nothing'}",
        f"  {entry.action:13} by {_who(entry)}",
        f"  why           {entry.why}",
        *(f"                {check}" for check in entry.evidence),
    ]


def _moment(text: str) -> datetime:
    """A time in UTC, or the end of a day. Raises BadInput."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"--at must be a day or a time, such as 2026-11-20 or 2026-11-20T14:30 (got {text!r})") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment + timedelta(days=1, microseconds=-1) if len(text) == len("2026-11-20") else moment

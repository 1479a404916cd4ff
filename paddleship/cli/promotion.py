"""`paddleship promote`, `rollback` and `ledger`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from paddleship.cli import options
from paddleship.cli.command_context import end, load_flow, open_checkout, run_flow
from paddleship.config import params_overlay
from paddleship.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from paddleship.promotion.ledger import Entry, Ledger


@click.command()
@click.argument("version", default="challenger", metavar="[VERSION|ALIAS]")
@options.OVERLAY
def promote(version: str, params: str | None) -> int:
    """Judge a model version (default: challenger) against the champion, and let it replace the champion."""
    return _run("promote", version, params)


@click.command()
@click.argument("version", required=False)
@click.option("--reason", default="", metavar="TEXT", help="why, for the ledger")
@options.OVERLAY
def rollback(version: str | None, reason: str, params: str | None) -> int:
    """Bring a former champion back (default: the one before this one)."""
    checkout, local = open_checkout()
    if (url := local.prefect_url()) is not None and _answers(url):  # none is started, since that takes seconds
        return _run("rollback", version, params, reason=reason)
    overlay = params_overlay.path_in(checkout, params)
    os.chdir(checkout)
    from paddleship.rollout.rollback import roll_back

    print(roll_back(version, overlay, reason=reason, step=_timed, say=_say))
    return 0


def _answers(url: str) -> bool:
    """Whether the Prefect server at this address answers; prints a message if it does not."""
    from paddleship.servers import background

    try:
        background.require(url, name="Prefect", variable="PREFECT_API_URL")
    except Unavailable as trouble:
        _say(f"{trouble}; the rollback goes on without it")
        return False
    return True


def _timed(name: str, work: Callable[[], Any]) -> Any:
    began = monotonic()
    result = work()
    _say(f"{name}: {monotonic() - began:.1f} s")
    return result


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _run(name: str, version: str | None, params: str | None, **more: str) -> int:
    checkout, local = open_checkout()
    overlay = params_overlay.path_in(checkout, params)
    if name == "promote" and params_overlay.load(checkout, overlay).promote.approval == "human" and local.prefect_url() is None:
        raise BadInput("promote.approval is 'human', and no Prefect server shows the form: run `make ui`, or set promote.approval: none")
    flow = getattr(load_flow(checkout, local, "flows.promote"), name)
    state = run_flow(local, flow, version=version, params_file=overlay, **more)
    code = end(state)
    if not code:
        print(state.message)
    return code


@click.command()
@click.argument("version", default="challenger", metavar="[VERSION|ALIAS]")
@click.option(
    "--key", type=click.Path(path_type=Path), envvar="PADDLESHIP_SIGN_KEY", show_envvar=True, help="file with the private key, in PEM"
)
@options.OVERLAY
def sign(version: str, key: Path | None, params: str | None) -> int:
    """Push the image of a model version (default: challenger) to promote.registry, and sign it there.

    PADDLESHIP_SIGN_PASSPHRASE is the passphrase of the key, if it has one.
    """
    if key is None:
        raise BadInput("there is no key to sign with: pass --key FILE, or set PADDLESHIP_SIGN_KEY")
    checkout, local = open_checkout()
    from paddleship.rollout import signing
    from paddleship.tracking.champion import Registry

    settings = params_overlay.load(checkout, params_overlay.path_in(checkout, params))
    registry = Registry(local.tracking_uri(), settings.name, artifact_root=local.artifact_root)
    print(signing.sign(settings, registry, version, key, passphrase=os.environ.get("PADDLESHIP_SIGN_PASSPHRASE")))
    return 0


@click.command("ledger")
@click.option("--at", "time", metavar="TIME", help="what served then: 2026-11-20 (at the end of that day, UTC) or 2026-11-20T14:30")
@options.OVERLAY
def ledger(time: str | None, params: str | None) -> int:
    """What serves and served, since when and why."""
    checkout, local = open_checkout()
    from paddleship.promotion.ledger import Ledger
    from paddleship.tracking.champion import Registry

    at = _moment(time) if time else None
    settings = params_overlay.load(checkout, params_overlay.path_in(checkout, params))
    try:
        elsewhere = Registry(local.tracking_uri(), settings.name, artifact_root=local.artifact_root).entries()
    except Unavailable as trouble:
        print(f"only the entries of this machine's ledger file: {trouble}", file=sys.stderr)
        elsewhere = []
    entries = Ledger(checkout / settings.promote.ledger, settings.name, elsewhere=elsewhere)
    if at is None:
        lines = [_line(entry, before) for before, entry in pairwise([None, *entries.entries]) if entry]
        print("\n".join(lines) or f"nothing was promoted of {settings.name!r} yet; for another model: --params FILE")
        return 0
    serving, unfinished = entries.serving(at), entries.unfinished(at)
    if serving is None:
        print(f"nothing of {settings.name!r} served at {at:%Y-%m-%d %H:%M} UTC")
    else:
        print(*_description(serving), *_other_targets(entries, serving, at), sep="\n")
    if unfinished is not None and (serving is None or unfinished.shipped != serving.shipped):
        print(f"version {unfinished.shipped.version} has been replacing it since {unfinished.at:%H:%M:%S} UTC")
    return 0


def _line(entry: Entry, before: Entry | None) -> str:
    """An entry as a line, with its reason unless it is that of the entry before."""
    version = f"version {entry.shipped.version} ({entry.shipped.image_id.removeprefix('sha256:')[:12]})"
    where = f" as {entry.target}" if entry.target else ""
    why = f": {entry.why}" if before is None or entry.why != before.why else ""
    return f"{entry.at:%Y-%m-%d %H:%M:%S}  {_event(entry):9} {version} {entry.action:8} by {_who(entry)}{where}{why}"


def _event(entry: Entry) -> str:
    """The event as text; for a model without a target it is unknown where the champion serves."""
    return "champion" if entry.event == "serving" and entry.target is None else entry.event


def _who(entry: Entry) -> str:
    return f"{entry.by}{f', approved by {entry.approved_by}' if entry.approved_by else ''}"


def _other_targets(ledger: Ledger, serving: Entry, at: datetime) -> list[str]:
    """The other targets, by the ledger, whose service had another image then."""
    others = {where: one for where, one in ledger.targets(at).items() if where != serving.target}
    return [f"  not changed   {where}: version {one.version}" for where, one in others.items() if one.image_id != serving.shipped.image_id]


def _description(entry: Entry) -> list[str]:
    """What served, since when and why, as lines."""
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

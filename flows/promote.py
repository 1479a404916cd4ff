"""The flows `promote` and `rollback`: who decides, in which order the steps run, and what is reported about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect import State, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field

from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.errors import GateFailed, PaddleshipError, Unavailable
from paddleship.execution import cleanup, workspace
from paddleship.orchestration import artifact, crashed_runs, run_names, run_state
from paddleship.promotion import answers
from paddleship.promotion.answers import Recording
from paddleship.promotion.ledger import Entry, Event, Ledger, Shipped
from paddleship.reports.report import Report
from paddleship.rollout import challenger_evidence
from paddleship.rollout.promotion_gate import challenge
from paddleship.rollout.rollback import REASON_CHARACTERS, carry_out, recording_of, roll_back, settings
from paddleship.rollout.rollout_steps import Rollout, full_acceptance, send, target_of
from paddleship.servers.local_state import Local
from paddleship.system import host, locks
from paddleship.tracking.champion import Registry

_POLL_S = 2  # between two checks whether a person has approved
_EVIDENCE_CHARACTERS = 400  # of a check in the ledger


class Approval(RunInput):
    """The form that a person fills in before a promotion continues."""

    approve: bool = Field(False, description="Let this version replace the champion")
    who: str = Field("", description="Who decides, for the ledger")
    reason: str = Field("", description="Why, for the ledger")


@flow(name="promote", validate_parameters=True, log_prints=False)
def promote(version: str = "challenger", params_file: str | None = None) -> State[Any]:
    """Judge a model version against the champion, and let it replace the champion: registry, target, ledger and alias.

    A run that was interrupted is completed by another one of the same version.

    Args:
        version: Number of the model version, or an alias such as challenger.
        params_file: A file laid over params.yaml, such as examples/linear/params.yaml.
    """
    run_names.set_name(f"promote {version}")
    return _flow_run(lambda: _promote(version, params_file))


@flow(name="rollback", validate_parameters=True, log_prints=False)
def rollback(version: str | None = None, params_file: str | None = None, reason: str = "") -> State[Any]:
    """Bring a former champion back if its image gives the recorded answers.

    Args:
        version: Number of a model version that was champion; the one before the present champion when left out.
        params_file: A file laid over params.yaml, such as examples/linear/params.yaml.
        reason: Why, for the ledger.
    """
    run_names.set_name(f"roll back to {version or 'the former champion'}")
    return _flow_run(lambda: roll_back(version, params_file, reason=reason, step=_task, say=get_run_logger().info, name=run_names.set_name))


def _flow_run(work: Callable[[], str]) -> State[Any]:
    """Work as a flow run that a later command marks as crashed if this process is killed."""
    try:
        crashed_runs.hold(Local.of(workspace.checkout_of(Path.cwd())))
        return Completed(message=work())
    except PaddleshipError as error:
        return run_state.failed(error)


def _promote(version: str, params_file: str | None) -> str:
    checkout, values, local = settings(params_file)
    cleanup.sweep(checkout, on_line=get_run_logger().warning)
    registry = Registry(local.tracking_uri(), values.name, artifact_root=local.artifact_root)
    ledger = Ledger(checkout / values.promote.ledger, values.name, elsewhere=registry.entries())
    challenger, champion = registry.version(version), registry.champion()
    run_names.set_name(f"promote {values.name} version {challenger.version}")
    with image.engine() as client:
        if (decision := _known(ledger, challenger, _gates(values))) is not None:
            get_run_logger().info(
                "version %s was decided on %s: nothing is judged again", challenger.version, decision.at.isoformat(timespec="seconds")
            )
            with locks.turn_on_machine(f"promote-{values.name}", say=get_run_logger().info):
                return carry_out(
                    Rollout(values, client, registry, ledger, decision, recording_of(ledger, registry, challenger), accept=None), step=_task
                )
        _require_settled(ledger, champion)
        if (target := target_of(values, client)) is not None:
            target.require_address()
        with challenger_evidence.of(checkout, values, client, challenger) as judged:
            report, recording = _task("challenge", lambda: _report(judged, client, challenger, champion, checkout / values.paths.reports))
            get_run_logger().info(report.headline)
            decision = _decide(report, judged, registry, ledger, challenger, champion)
            with locks.turn_on_machine(f"promote-{values.name}", say=get_run_logger().info):
                if (now := registry.champion()) != champion:
                    was, is_now = (one.version if one else "none" for one in (champion, now))
                    raise Unavailable(f"the champion changed from version {was} to {is_now} meanwhile: run the same command again")
                _require_settled(ledger, champion)
                answers.save(ledger.recordings, challenger.candidate_digest, recording)
                decision = ledger.append(decision)
                accept = partial(full_acceptance, client, judged, challenger)
                return carry_out(Rollout(values, client, registry, ledger, decision, recording, accept=accept), step=_task)


def _gates(values: Params) -> dict[str, Any]:
    """The params that decide, without those of the target."""
    return values.promote.model_dump(mode="json", exclude={"registry", "target", "ledger", "approval_hours", "latency_seconds"})


def _known(ledger: Ledger, challenger: Shipped, gates: dict[str, Any]) -> Entry | None:
    """The last decision about this image: an unfinished one by the same gates, or the one by which it serves already."""
    unfinished, serving = ledger.unfinished(), ledger.serving()
    serves = serving is not None and serving.shipped.image_id == challenger.image_id
    if unfinished is None:
        return serving if serves else None
    same = unfinished.shipped.image_id == challenger.image_id
    return unfinished if same and (serves or unfinished.action == "rollback" or unfinished.gates == gates) else None


def _require_settled(ledger: Ledger, champion: Shipped | None) -> None:
    """Raise Unavailable if the version that serves is not the champion in MLflow, with which a challenger is compared."""
    serving = ledger.serving()
    if serving is not None and (champion is None or champion.image_id != serving.shipped.image_id):
        named = f"version {champion.version}" if champion else "none"
        raise Unavailable(
            f"version {serving.shipped.version} serves, but the champion in MLflow is {named}: update MLflow with "
            f"`paddleship promote {serving.shipped.version}`, then run this again"
        )


def _report(judged: Params, client: Any, challenger: Shipped, champion: Shipped | None, folder: Path) -> tuple[Report, Recording]:
    """Judge the gates, and write their report."""
    started_at, clock = datetime.now(UTC), time.perf_counter()
    report, recording = challenge(judged, client, challenger, champion)
    report.started_at, report.seconds, report.host = started_at, round(time.perf_counter() - clock, 3), host.fingerprint()
    report.write(folder)
    return report, recording


def _decide(report: Report, judged: Params, registry: Registry, ledger: Ledger, challenger: Shipped, champion: Shipped | None) -> Entry:
    """Decide by the gates and, if required, by a person's approval. Raises GateFailed, with the refusal in the ledger."""
    page = _page(report)
    artifact.publish("promotion", page, description=report.headline)
    entry = Entry(
        event=Event.DECIDED,
        action="promote",
        shipped=challenger,
        replaces=champion.version if champion else None,
        why=report.headline,
        evidence=[str(check)[:_EVIDENCE_CHARACTERS] for check in report.verdict.checks],
        metrics=report.metrics,
        gates=_gates(judged),
    )
    reason = "" if report.verdict else "; ".join(str(check) for check in report.verdict.failures)
    approval: Approval | None = None
    if not reason and judged.promote.approval == "human":
        approval = _approval(page, judged)
        reason = "" if approval.approve else f"{approval.who or 'somebody'} refused it: {approval.reason or 'without a reason'}"
    if reason:
        ledger.append(entry.followed_by(Event.REFUSED, why=reason[:REASON_CHARACTERS]))
        send(registry, ledger)
        raise GateFailed(f"promote: {reason}")
    if approval is None:
        return entry
    why = f"{entry.why}; {approval.reason}" if approval.reason else entry.why
    return entry.model_copy(update={"approved_by": approval.who or "somebody", "why": why, "at": datetime.now(UTC)})


def _approval(page: str, judged: Params) -> Approval:
    """Wait until a person has filled in the form. Raises Unavailable if nobody does in time."""
    get_run_logger().info("waiting for an approval: open this flow run (%s) in Prefect and resume it", flow_run.name)
    hours = judged.promote.approval_hours
    try:
        form = Approval.with_initial_data(description=page)
        approval: Approval | None = pause_flow_run(wait_for_input=form, timeout=int(3600 * hours), poll_interval=_POLL_S)
    except FlowPauseTimeout:
        approval = None
    if approval is None:
        raise Unavailable(f"nobody approved it within {hours:g} hours (promote.approval_hours): run the same command again")
    return approval


def _task(name: str, work: Callable[[], Any]) -> Any:
    """Do the work as a task run of that name. Raises the PaddleshipError that it ends with."""
    errors: list[PaddleshipError] = []

    @task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
    def run() -> Any:
        began = time.monotonic()
        try:
            result = work()
        except PaddleshipError as error:
            errors.append(error)
            return run_state.failed(error)
        get_run_logger().info("%s: %.1f s", name, time.monotonic() - began)
        return [result]

    state = run(return_state=True)
    if errors:
        raise errors[0]
    return state.result()[0]


def _page(report: Report) -> str:
    """The evidence as Markdown; the gates are a list, because Prefect's form cuts wide tables off."""
    lines = [f"**{report.headline}**", ""]
    lines += [
        f"* {'passed' if check.passed else '**refused**'}: {check.name}: {_cell(check.measured)} (limit: {_cell(check.limit)})"
        for check in report.verdict.checks
    ]
    if report.metrics:
        lines += ["", "| figure | value |", "|---|---|", *(f"| {name} | {value:.5g} |" for name, value in report.metrics.items())]
    if examples := report.facts.get("examples"):
        lines += ["", "| row | label | champion | challenger |", "|---|---|---|---|"]
        lines += [
            f"| {_cell(one['row'])} | {_cell(one['label'])} | {_cell(one['champion'])} | {_cell(one['challenger'])} |" for one in examples
        ]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        value = ", ".join(f"{name}: {part}" for name, part in value.items())
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")

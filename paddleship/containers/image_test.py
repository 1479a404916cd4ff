"""An image on trial: run with restricted rights, asked, and judged by the answers of the eager model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paddleship.acceptance import judging
from paddleship.acceptance.observing import TIMEOUT_S, Observed, observe
from paddleship.acceptance.transport import Outcome, Server, ServerError, title
from paddleship.acceptance.transports import other_server, replaced_processes, server_at
from paddleship.config import loosening
from paddleship.config.params import Params
from paddleship.config.sections.accept import Accept
from paddleship.containers.sandbox import Sandbox, in_sandbox
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.errors import PaddleshipError
from paddleship.proof import parity
from paddleship.proof.cases import missing_rows
from paddleship.proof.evidence import Evidence
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.answers import loading as answers
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Preprocess
from paddleship.shipped.computing.runtimes import nvidia, registry
from paddleship.statistics import estimates

PORT = 8000
_STOP_TIMEOUT_S = 20
_POLL_S, _READY_TIMEOUT_S = 0.02, 2
_NOT_STOPPED = f"the server did not stop cleanly on SIGTERM (137: it was killed after {_STOP_TIMEOUT_S} s): run the image and read its log"
_MEMORY = "raise accept.memory_bytes, or lower verify.max_batch"
_READ_LOG = "run the image with `docker run`, and read its log"
_REPLACED = "a process of the server ended while it was asked: after SIGKILL raise accept.memory_bytes, else run the image and read its log"
_STOPPED_WELL = (0, 143)  # 143: the init process forwards SIGTERM


@dataclass(frozen=True)
class ContainerFacts:
    """The measurements from outside the container; `others` are those over the transports beside HTTP.

    So many processes of the server ended meanwhile and were `replaced`.
    """

    cold_start_ms: float
    observed: Observed
    peak_memory_bytes: int
    stop_s: float
    exit_code: int
    others: Sequence[Observed] = ()
    replaced: int = 0


class EndedError(PaddleshipError):
    """The container ended while it was asked; the message says why, `advice` what to do. `of_memory`: it needed more than its limit."""

    def __init__(self, message: str, advice: str = _READ_LOG, *, of_memory: bool = False) -> None:
        super().__init__(message)
        self.advice, self.of_memory = advice, of_memory


class NotReadyError(EndedError):
    """The container exited, or did not become ready in time; the message holds the end of its log."""


def attempt(client: Any, receipt: Mapping[str, Any], candidate: Candidate, params: Params) -> tuple[Report, dict[str, Any]]:
    """Run the image and judge its answers. Returns the report, and a request with its answer if there is one."""
    if registry.kind_of(candidate).gpu and (reason := nvidia.no_gpu()):
        advice = "run accept on a machine with a GPU (--on accept=POOL, with package)"
        return _refused("gpu", reason, "not accepted on a GPU", advice=advice), {}
    evidence = Evidence.load(Path(params.paths.parity)).only(lambda case: bool(case.raw))
    observed = partial(_observe, client, receipt["image_id"], candidate, params)
    try:
        seen = observed(evidence)
    except EndedError as obstacle:
        advice = _advice_on_memory(observed, evidence) if obstacle.of_memory else obstacle.advice
        if isinstance(obstacle, NotReadyError):
            return _refused("ready", str(obstacle), "the container never became ready", advice=advice), {}
        return _refused("running", str(obstacle), "the container ended while it was asked", advice=advice), {}
    except ServerError as obstacle:
        return _refused("first_answer", str(obstacle), "the server does not answer a held-out row"), {}
    served = served_candidate(candidate, params)
    checks, judgement = judging.checks(seen.observed, evidence, served, params.verify)
    if seen.others:
        checks = [*checks, judging.other_transports(seen.others, evidence, served, params.verify)]
    of_image = [_digest_check(seen.observed, candidate), _processes_check(seen.observed, params.package.processes)]
    verdict = Verdict(checks=[*of_image, *checks, *_checks(seen, params.accept)])
    left_out = len(evidence.cases) - len(seen.observed.asked)
    metrics = {**_metrics(seen, judgement), "batches_left_out": left_out}
    report = Report(
        stage="accept",
        headline=(
            f"{len(seen.observed.answers)} batches of up to {seen.observed.max_batch} rows over {_names(seen)} as eager"
            f"{f' ({left_out} left out for their size)' if left_out else ''}, "
            f"cold start {seen.cold_start_ms:.0f} ms, {seen.observed.load.throughput_per_s:,.0f} requests/s"
            f"{loosening.in_headline(params)}"
        )
        if verdict
        else f"refused: {verdict.failures[0]}",
        metrics=metrics,
        verdict=verdict,
        findings=judgement.findings if judgement is not None else [],
        facts={
            "image": receipt["image"],
            "loop": "closed",
            "concurrency": params.accept.concurrency,
            "requests": params.accept.load_requests,
        },
    )
    return report, seen.observed.example


def _names(seen: ContainerFacts) -> str:
    return " and ".join(title(observed.transport) for observed in (seen.observed, *seen.others))


def served_candidate(candidate: Candidate, params: Params) -> judging.ServedCandidate:
    answering = answers.load(Path(params.paths.candidates) / candidate.name, candidate)
    if not candidate.labels:
        return judging.ServedCandidate(candidate.precision, task=params.data.task, answering=answering)
    made = preprocess.build(candidate.preprocess, candidate.inputs)
    positions = dataset.positions_of(made, _rows(params, made), params.data)
    return judging.ServedCandidate(candidate.precision, tuple(params.data.class_names), params.data.task, positions, answering)


def _advice_on_memory(observed: Callable[..., ContainerFacts], evidence: Evidence) -> str:
    """What to do about a container that needs too much memory: the largest half, quarter … of the proven batch with which it fits."""
    size = max(len(case.raw) for case in evidence.cases) // 2
    while size:
        print(f"the container needs too much memory: trying it with batches of up to {size}")
        try:
            seen = observed(evidence.only(lambda case, most=size: len(case.raw) <= most), max_batch=size)  # type: ignore[misc]
        except (EndedError, ServerError) as obstacle:
            if not (isinstance(obstacle, EndedError) and obstacle.of_memory):
                return f"{_MEMORY}, which is the largest batch that the server takes"
        else:
            if not seen.replaced:
                return f"set verify.max_batch: {size}, with which the container stayed within its limit, or raise accept.memory_bytes"
        size //= 2
    return "raise accept.memory_bytes, or ship a smaller model: requests of one row need too much too"


def _observe(
    client: Any, image_id: str, candidate: Candidate, params: Params, evidence: Evidence, *, max_batch: int | None = None
) -> ContainerFacts:
    """Start the container, send all requests, stop it. Raises EndedError, and ServerError if it answers nothing.

    With `max_batch`, the server takes no larger batches.
    """
    encoders = preprocess.build(candidate.preprocess, candidate.inputs)
    rows = _rows(params, encoders)
    start, answered = time.perf_counter(), []
    ports, limited = (PORT, *params.package.ports.values()), [] if max_batch is None else ["--max-batch", str(max_batch)]
    with in_sandbox(client, image_id, memory_bytes=params.accept.memory_bytes, ports=ports, options=limited) as sandbox:
        server = server_at(sandbox.host, sandbox.port, model=params.name, timeout_s=TIMEOUT_S)
        wait_until_ready(server, sandbox, deadline=start + params.accept.ready_timeout_s)
        try:
            ask = partial(
                observe,
                batches=[rows.take(case.raw).columns for case in evidence.cases],
                pads={spec.name: spec.pad for spec in encoders.requests},
                malformed=encoders.malformed,
                missing=encoders.missing,
                requests=params.accept.load_requests,
                concurrency=params.accept.concurrency,
                seconds=params.accept.load_seconds,
            )
            observed = ask(server, on_first_answer=lambda: answered.append(time.perf_counter()))
            others = [ask(other) for other in other_servers(sandbox, server, params)]
            replaced = replaced_processes(server)
        except ServerError:
            require_running(sandbox)
            raise
        memory = sandbox.peak_memory_bytes()
        stop_s, exit_code = sandbox.stop(timeout_s=_STOP_TIMEOUT_S)
    return ContainerFacts(1000 * (answered[0] - start), observed, memory, stop_s, exit_code, others, replaced)


def _rows(params: Params, encoders: Preprocess) -> Rows:
    """The held-out rows, and those with missing numbers that `verify` made from them, in the order of their numbers."""
    rows = dataset.read(Path(params.paths.prepared), "test")
    return rows.joined(missing_rows.made_from(rows, encoders))


def other_servers(sandbox: Sandbox, server: Server, params: Params) -> Iterator[Server]:
    """The same server over the transports beside HTTP."""
    for name, port in params.package.ports.items():
        yield other_server(name, sandbox.host, sandbox.published[port], beside=server, model=params.name, timeout_s=TIMEOUT_S)


def require_running(sandbox: Sandbox) -> None:
    """Raise EndedError if the container ended by itself."""
    sandbox.require_not_stopped()
    state = sandbox.state
    if state["Running"]:
        return
    if state.get("OOMKilled"):
        limit = sandbox.container.attrs["HostConfig"]["Memory"]
        raise EndedError(
            f"the container needed more memory than its limit of {limit:,} bytes, and was killed",
            f"{_MEMORY}, which is the largest batch that the server takes",
            of_memory=True,
        )
    raise EndedError(f"the container exited with code {state['ExitCode']}: {sandbox.logs().strip()[-400:]}")


def _checks(seen: ContainerFacts, limits: Accept) -> list[Check]:
    slow = "raise accept.max_cold_start_ms, or ship a smaller model"
    stopped = seen.exit_code in _STOPPED_WELL
    return [
        Check.at_most("cold_start_ms", seen.cold_start_ms, limits.max_cold_start_ms, advice=slow),
        Check.at_most("replaced_processes", seen.replaced, 0, advice=_REPLACED),
        Check(name="exit_code", measured=seen.exit_code, limit="0 or 143", passed=stopped, advice=_NOT_STOPPED),
    ]


def _digest_check(observed: Observed, candidate: Candidate) -> Check:
    """Check that the server serves the candidate of the receipt."""
    served = observed.candidate_digest
    advice = "the image serves another model: build it again with `paddleship run --again package`"
    return Check(name="candidate_digest", measured=served, limit=candidate.digest, passed=served == candidate.digest, advice=advice)


def _processes_check(observed: Observed, wanted: int) -> Check:
    """Check that the server has as many processes as the params say; it is ready only once all of them are."""
    advice = "the image has other settings: build it again with `paddleship run --again package`"
    return Check(name="processes", measured=observed.processes, limit=wanted, passed=observed.processes == wanted, advice=advice)


def _metrics(seen: ContainerFacts, judgement: parity.Judgement | None) -> dict[str, float | int]:
    return {
        **judging.metrics(judgement, seen.observed.transport),
        "cold_start_ms": seen.cold_start_ms,
        **{name: value for observed in (seen.observed, *seen.others) for name, value in _speed(observed).items()},
        "container_peak_memory_bytes": seen.peak_memory_bytes,
        "stop_ms": 1000 * seen.stop_s,
        "accepted_batches": len(seen.observed.answers),
        "accepted_answers_to_many_callers": len(seen.observed.concurrent_load.samples_ms),
    }


def _speed(observed: Observed) -> dict[str, float]:
    tail, transport = estimates.percentiles(observed.load.samples_ms), observed.transport
    latencies = {f"{transport}_{key}": value for key, value in tail.items() if value is not None}
    return {**latencies, f"{transport}_throughput_per_s": observed.load.throughput_per_s}


def wait_until_ready(server: Server, sandbox: Sandbox, *, deadline: float) -> None:
    """Poll until the server is ready. Raises NotReadyError."""
    while time.perf_counter() < deadline:
        try:
            require_running(sandbox)
        except EndedError as ended:
            raise NotReadyError(str(ended), ended.advice, of_memory=ended.of_memory) from None
        with closing(server.connect(timeout_s=_READY_TIMEOUT_S)) as client:
            try:
                if client.ready().outcome is Outcome.ANSWERED:
                    return
            except ServerError:
                pass
        time.sleep(_POLL_S)
    raise NotReadyError(f"the server was not ready within accept.ready_timeout_s: {sandbox.logs().strip()[-400:]}")


def _refused(name: str, obstacle: str, headline: str, *, advice: str = _READ_LOG) -> Report:
    check = Check(name=name, measured=obstacle, limit=name, passed=False, advice=advice)
    return Report(stage="accept", headline=headline, verdict=Verdict(checks=[check]))

"""What a process counts, as families of Prometheus's metrics."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping

from paddleship import __version__
from paddleship.shipped.serving.errors import Kind
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.stages import Histogram
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.metrics.families import COUNTER, GAUGE, HISTOGRAM, Family, Sample

_STARTED = time.time()


def families(service: Service, guard: Guard) -> list[Family]:
    """All metrics of a process."""
    return [*_of_model(service), *_of_requests(service), *_of_connections(service, guard), *_of_process(service)]


def _of_model(service: Service) -> Iterator[Family]:
    candidate = service.candidate
    if candidate is not None:
        named = {
            "model": candidate.model,
            "version": candidate.digest[:12],
            "candidate": candidate.name,
            "candidate_digest": candidate.digest,
        }
        named |= {"runtime": candidate.runtime, "precision": candidate.precision, "server": __version__}
        yield Family.of("paddleship_info", GAUGE, "The served candidate; its version is the tag of the image.", [("", named, 1)])
    yield _gauge("paddleship_ready", "1 if the server answers requests.", service.state is State.READY)


def _of_requests(service: Service) -> Iterator[Family]:
    stages = service.stages
    yield _histograms(
        "paddleship_request_seconds", "Time of answered requests, from the first byte to the encoded answer.", {"": stages.request}
    )
    by_stage = {name: getattr(stages, name) for name in ("queue", "preprocess", "infer", "postprocess")}
    yield _histograms(
        "paddleship_stage_seconds", "Time of requests in each stage; infer is the time of their batch.", by_stage, label="stage"
    )
    yield _histograms("paddleship_batch_rows", "Rows of the batches of the model.", {"": stages.batch_rows})
    yield _histograms("paddleship_batch_requests", "Requests that shared a batch of the model.", {"": stages.batch_requests})
    yield _gauge("paddleship_queue_requests", "Requests that wait for the model.", service.queue.waiting)
    failed = [("", {"kind": kind.replace(" ", "_")}, service.failures[kind]) for kind in Kind]
    yield Family.of("paddleship_failures_total", COUNTER, "Requests without an answer, by the reason.", failed)


def _of_connections(service: Service, guard: Guard) -> Iterator[Family]:
    yield _gauge("paddleship_connections", "Open connections.", len(guard.connections))
    refused = [("", {"status": str(status)}, count) for status, count in sorted(guard.refused.items())]
    yield Family.of("paddleship_connections_refused_total", COUNTER, "Connections closed with an error, by status.", refused)
    yield _gauge("paddleship_budget_bytes", "Bytes that requests and answers in memory may have.", service.budget.total)
    yield _gauge("paddleship_budget_used_bytes", "Bytes that they have.", service.budget.used + service.budget.unread)


def _of_process(service: Service) -> Iterator[Family]:
    ready, peers = service.own_state is State.READY, service.peers
    yield _gauge("paddleship_processes", "Processes that answer requests.", ready)
    replaced = peers.replaced if peers is not None else 0
    yield Family.of("paddleship_processes_replaced_total", COUNTER, "Processes that ended and were replaced.", [("", {}, replaced)])
    used, page = os.times(), os.sysconf("SC_PAGE_SIZE")
    yield Family.of("process_cpu_seconds_total", COUNTER, "Processor time of the server.", [("", {}, used.user + used.system)])
    with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 as quick as may be
        yield _gauge("process_resident_memory_bytes", "Memory of the server.", int(stream.read().split()[1]) * page)
    yield _gauge("process_start_time_seconds", "When the server started, in seconds since 1970.", _STARTED)


def _gauge(name: str, help_text: str, value: float) -> Family:
    return Family.of(name, GAUGE, help_text, [("", {}, value)])


def _histograms(name: str, help_text: str, of: Mapping[str, Histogram], *, label: str = "") -> Family:
    samples = [sample for value, histogram in of.items() for sample in _samples(histogram, {label: value} if label else {})]
    return Family.of(name, HISTOGRAM, help_text, samples)


def _samples(histogram: Histogram, labels: Mapping[str, str]) -> Iterator[Sample]:
    counts = list(itertools.accumulate(histogram.counts))
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), counts, strict=True):
        yield "_bucket", {**labels, "le": bound}, count
    yield "_sum", labels, histogram.sum
    yield "_count", labels, counts[-1]

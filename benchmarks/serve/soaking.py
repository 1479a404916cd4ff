"""Clients of a soak: each process asks in every form, at its share of the rate, and compares every answer with eager's."""

from __future__ import annotations

import gzip
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paddleship.acceptance import judging
from paddleship.acceptance.questions import Question, questions
from paddleship.acceptance.transport import Client, Malformed, Outcome, Outputs, Server, ServerError
from paddleship.config.sections.verify import Verify
from paddleship.numerics import differences
from paddleship.proof.evidence import ROWS, Evidence

_MOST_FAULTS = 5
Ask = Callable[[Question], Outputs | None]  # None: the server has no room now


@dataclass(frozen=True)
class Load:
    """What a soak asks: the servers by transport, batches of raw columns with the evidence of their answers, and how they are judged.

    Each client has so many `connections` over each transport, so that it reaches all processes of a server.
    """

    servers: Sequence[Server]
    batches: Sequence[Mapping[str, Sequence[Any]]]
    pads: Mapping[str, float]
    evidence: Evidence
    served: judging.ServedCandidate
    limits: Verify
    connections: int = 1


@dataclass
class Seen:
    """What one process saw, by form: milliseconds of each answer, refusals for lack of room, errors and wrong answers."""

    took_ms: dict[str, list[float]] = field(default_factory=dict)
    busy: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return sum(map(len, self.took_ms.values()))

    def add(self, other: Seen) -> None:
        for form, took in other.took_ms.items():
            self.took_ms.setdefault(form, []).extend(took)
        for mine, theirs in ((self.busy, other.busy), (self.errors, other.errors), (self.wrong, other.wrong)):
            mine.update(theirs)
        self.faults += other.faults[:_MOST_FAULTS]


def run(load: Load, *, processes: int, seconds: float, rate: float | None) -> Seen:
    """Ask from so many processes for so many seconds: at `rate` requests a second together, or as fast as answers come."""
    context, seen = multiprocessing.get_context("spawn"), Seen()
    share = rate / processes if rate else None
    with context.Pool(processes) as pool:
        for one in pool.starmap(ask, [(load, seconds, share, seed) for seed in range(processes)]):
            seen.add(one)
    return seen


def ask(load: Load, seconds: float, rate: float | None, seed: int) -> Seen:
    """Ask one question after the other in a random form, at random times of that rate."""
    generator, seen = random.Random(seed), Seen()  # noqa: S311 a load
    connected = [(server, server.connect()) for server in load.servers for _ in range(load.connections)]
    asked = questions(load.batches, connected[0][1].metadata(), load.pads)
    forms = [(form, one) for server, client in connected for form, one in _forms(server, client).items()]
    due, end = time.perf_counter(), time.perf_counter() + seconds
    try:
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            (form, ask_in_form), index = generator.choice(forms), generator.randrange(len(asked))
            _ask_once(load, seen, form, ask_in_form, asked[index], index)
            due = due + generator.expovariate(rate) if rate else time.perf_counter()
    finally:
        for _, client in connected:
            client.close()
    return seen


def _forms(server: Server, client: Client) -> dict[str, Ask]:
    """How the questions are sent over one transport: with an independent client, and over HTTP also in JSON and compressed."""
    if server.transport != "http":
        return {server.transport: lambda question: client.ask(question.tensors)}

    def compressed(question: Question) -> Outputs | None:
        body = gzip.compress(server.encode(question.tensors), 1)
        return _read(server, client, Malformed("gzip", body, (), headers=(("Content-Encoding", "gzip"),)))

    return {
        "http, binary": lambda question: client.ask(question.tensors),
        "http, JSON": lambda question: _read(server, client, Malformed("JSON", server.encode(question.tensors), ())),
        "http, gzip": compressed,
    }


def _read(server: Server, client: Client, request: Malformed) -> Outputs | None:
    reply = client.provoke(request)
    if reply.outcome is Outcome.BUSY:
        return None
    if reply.outcome is not Outcome.ANSWERED:
        raise ServerError(f"{reply.code}: {reply.text(100)}", reply.code)
    return server.decode(reply.payload)


def _ask_once(load: Load, seen: Seen, form: str, ask_in_form: Ask, question: Question, index: int) -> None:
    began = time.perf_counter()
    try:
        outputs = ask_in_form(question)
    except ServerError as error:
        seen.errors[form] += 1
        seen.faults.append(f"{form}: {error}")
        return
    if outputs is None:
        seen.busy[form] += 1
        return
    seen.took_ms.setdefault(form, []).append(1000 * (time.perf_counter() - began))
    if fault := fault_of(load, index, outputs):
        seen.wrong[form] += 1
        seen.faults.append(f"{form}: {fault}")


def fault_of(load: Load, index: int, outputs: Outputs) -> str:
    """What is wrong with the answer to a question: an output beyond the limit of the proof, or another label; empty if nothing is."""
    evidence, case = load.evidence, load.evidence.cases[index]
    for name, truth in evidence.truth[index].items():
        if name not in outputs:
            return f"{case.name}: no output {name!r}"
        if outputs[name].shape != truth.shape:
            return f"{case.name}: {name} has the shape {list(outputs[name].shape)} instead of {list(truth.shape)}"
        error = float(differences.elementwise_distance(outputs[name], truth).max(initial=0))
        if load.served.precision == "float32" and not error <= load.limits.noise_limit * evidence.noise[ROWS][name].largest:
            return f"{case.name}: {name} is {error:.3g} from the truth"
    if not load.served.classes:
        return ""
    alone = replace(evidence, cases=(case,), truth=[evidence.truth[index]], reference=[evidence.reference[index]])
    return next(iter(judging.label_faults([outputs], alone, load.served, load.limits)), "")


def wait_for_answer(load: Load) -> None:
    """Ask every question once in every form, so that what a first answer costs is not part of the soak. Raises ServerError."""
    for server in load.servers:
        with closing(server.connect()) as client:
            for question in questions(load.batches, client.metadata(), load.pads):
                for ask_in_form in _forms(server, client).values():
                    ask_in_form(question)


def quantile(took_ms: Sequence[float], share: float) -> float:
    return float(np.quantile(took_ms, share)) if took_ms else float("nan")

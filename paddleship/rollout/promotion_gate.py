"""challenge: whether a model version may take the champion's place, by its rows, its speed and its image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.comparison import side_by_side
from paddleship.comparison.side_by_side import Limits, ServedImage
from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.errors import BadInput, Unavailable
from paddleship.lineage.release import DIGEST_LABEL
from paddleship.promotion import answers, latency, score_comparison
from paddleship.promotion.answers import Answered, Recording
from paddleship.promotion.ledger import Shipped
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json
from paddleship.shipped.computing.task_kinds.registration import Positions


def challenge(params: Params, client: Any, challenger: Shipped, champion: Shipped | None) -> tuple[Report, Recording]:
    """Ask both images the same held-out rows, compare their speed, and judge; also record a few of the challenger's answers.

    The rows and the candidate are those of `params.paths`. Raises BadInput if they are not the challenger's, and Unavailable.
    """
    candidate = _candidate(params, challenger)
    rows = _rows(params)
    encoders = preprocess.build(candidate.preprocess, candidate.inputs)
    pads = {spec.name: spec.pad for spec in encoders.requests}
    checks = [image_check(client, challenger)]
    metrics: dict[str, float | int] = {}
    facts: dict[str, Any] = {"challenger": challenger.model_dump(), "champion": champion.model_dump() if champion else None}
    recording: Recording = []
    if checks[0].passed:
        with side_by_side.serving(client, _served(client, challenger, params), _limits(params)) as server:
            recording = answers.record(server, rows, pads)
            theirs = answers.ask(server, rows, pads, who="challenger") if champion and params.promote.compare else None
        if champion and theirs:
            positions = dataset.positions_of(encoders, rows, params.data)
            checks += _compare(client, champion, challenger, theirs, (params, rows, pads), metrics, facts, positions=positions)
    verdict = Verdict(checks=checks)
    return Report(
        stage="promote", headline=_headline(challenger, champion, verdict, params, facts), metrics=metrics, verdict=verdict, facts=facts
    ), recording


def image_check(client: Any, shipped: Shipped) -> Check:
    """Whether the engine has the image that accept accepted, whatever its name now, and it holds the candidate of the model version."""
    stored_image = image.find(client, shipped.image_id)
    held = stored_image.labels.get(DIGEST_LABEL) if stored_image is not None else None
    return Check(
        name="accepted_image",
        measured="none" if stored_image is None else f"{_short(stored_image.id)} with the candidate {str(held)[:12]}",
        limit=f"{_short(shipped.image_id)} with the candidate {shipped.candidate_digest[:12]}",
        passed=stored_image is not None and held == shipped.candidate_digest,
        advice=f"the image that accept accepted as {shipped.image} is not in the engine: run the pipeline again",
    )


def _short(image_id: str) -> str:
    return image_id.removeprefix("sha256:")[:12]


def answers_check(who: str, answered: Answered, rows: Rows) -> Check:
    """Whether a server answered every row."""
    return Check(
        name="answered_rows",
        measured=f"{who}: {answered.fault or f'{len(answered.outputs)} of {len(rows)} rows'}",
        limit=f"all {len(rows)} rows",
        passed=not answered.fault,
        advice="where the inputs of the model changed, set promote.compare: false",
    )


def _candidate(params: Params, challenger: Shipped) -> Candidate:
    """The challenger's candidate, in this folder. Raises BadInput where another one lies here."""
    proven = read_json(Path(params.paths.parity) / "passed.json", stage="verify")
    names = [name for name, facts in proven.items() if facts.get("digest") == challenger.candidate_digest]
    if not names:
        raise BadInput(
            f"the evidence in {params.paths.parity!r} is not of version {challenger.version} of {challenger.model!r}: bring its source, "
            f"params and data back with the commands that `paddleship trace {challenger.image}` prints, then `dvc pull`"
        )
    return Candidate.load(Path(params.paths.candidates) / names[0])


def _rows(params: Params) -> Rows:
    rows = dataset.read(Path(params.paths.prepared), "test")
    return rows.take(range(min(len(rows), params.promote.rows)))


def _served(client: Any, shipped: Shipped, params: Params) -> ServedImage:
    """The image as it is run. Raises Unavailable where the engine does not have it."""
    if (stored_image := image.find(client, shipped.image_id)) is None:
        raise Unavailable(
            f"the image of version {shipped.version} ({shipped.image}) is not in the engine: `docker load` or pull it, or set "
            "promote.compare: false"
        )
    return ServedImage(f"the image of version {shipped.version} ({shipped.image})", stored_image.id, params.name)


def _limits(params: Params) -> Limits:
    return Limits(params.accept.memory_bytes, params.accept.ready_timeout_s)


def _compare(
    client: Any,
    champion: Shipped,
    challenger: Shipped,
    theirs: Answered,
    asked: tuple[Params, Rows, Mapping[str, float]],
    metrics: dict[str, float | int],
    facts: dict[str, Any],
    *,
    positions: Sequence[Positions],
) -> list[Check]:
    """The gates against the champion; adds the compared values to metrics and facts."""
    params, rows, pads = asked
    ours_served = _served(client, champion, params)
    with side_by_side.serving(client, ours_served, _limits(params)) as server:
        ours = answers.ask(server, rows, pads, who="champion")
        requests = [] if ours.fault or theirs.fault else side_by_side.encoded(server, rows, pads)
    checks = [answers_check("champion", ours, rows), answers_check("challenger", theirs, rows)]
    if not requests:
        return checks
    comparison = score_comparison.compare(
        rows, ours.outputs, theirs.outputs, task=params.data.task, classes=params.data.class_names, positions=positions
    )
    metrics |= comparison.metrics()
    facts |= {"examples": comparison.examples, "scores": comparison.scores()}

    raced = side_by_side.race(
        client,
        ours_served,
        _served(client, challenger, params),
        requests,
        _limits(params),
        effect=params.benchmark.effect,
        seconds=params.promote.latency_seconds,
    )
    metrics |= raced.metrics()
    facts |= {"latency": str(raced), "loop": "closed", "concurrency": 1}
    return [*checks, *score_comparison.checks(comparison, params.promote), latency.check(raced, allow_slower=params.promote.allow_slower)]


def _headline(challenger: Shipped, champion: Shipped | None, verdict: Verdict, params: Params, facts: Mapping[str, Any]) -> str:
    what = f"version {challenger.version} of {challenger.model}"
    if not verdict:
        return f"{what} is refused: {verdict.failures[0]}"
    if champion is None:
        return f"{what} is the first champion: there is none to compare it with"
    if not params.promote.compare:
        return f"{what} may replace version {champion.version}; they were not compared (promote.compare: false)"
    return f"{what} may replace version {champion.version}: {facts['scores']}; latency: {facts['latency']}"

"""The summary at the end of a run: stages, image, and next commands."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.errors import Unavailable
from paddleship.execution import stages
from paddleship.execution.repro import StageStatus
from paddleship.orchestration import terminal
from paddleship.reports.markdown import text
from paddleship.reports.provenance import measured_elsewhere
from paddleship.reports.report import Report
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.shipped.computing.runtimes import registry

_LONGEST_LINE = 1000  # a person can copy from a terminal
_SHOWN_VALUES = 8


@dataclass(frozen=True)
class Row:
    """One stage of this run: its result, its report, and where it ran."""

    stage: str
    status: StageStatus
    report: Report | None
    reason: str = ""
    where: str = ""  # the machine and its work pool, if it is not the one of the run

    @property
    def verdict(self) -> str:
        return "–" if self.report is None else self.report.outcome

    @property
    def seconds(self) -> str:
        return f"{self.report.seconds:.1f}" if self.report and self.status in (StageStatus.RAN, StageStatus.FAILED) else "–"

    @property
    def headline(self) -> str:
        return self.reason or (self.report.headline + measured_elsewhere(self.report) if self.report else "")


def show(rows: Sequence[Row], root: Path, values: Params, local: Local, *, links: Mapping[str, str | None]) -> None:
    """Print the stages of a run in `root`, its image, and where to see more; `links` are addresses by name."""
    say("")
    terminal.show(table(rows))
    say("")
    if notes := unseen(rows):
        say(*notes, "")
    if rows and all(row.status == StageStatus.UNCHANGED for row in rows):
        say("Nothing changed since the last run: every stage is up to date.", "")
    if rows[-1].stage == stages.LAST and rows[-1].report and rows[-1].status != StageStatus.FAILED:
        engine = None if rows[-1].where else engine_address()
        say(*release_lines(root / values.paths.release, engine=engine, requests=local.state / "requests"), "")
        if rows[-1].where:
            say(f"the image is in the engine of {rows[-1].where}", "")
    used = {url for url in (local.prefect_url(), local.tracking_uri()) if url}
    say(*(f"{name:8}{url}" for name, url in local.running().items() if any(one.startswith(url) for one in used)))
    say(*(f"{name} {url}" for name, url in links.items() if url))
    if not local.running() and all(row.status != StageStatus.FAILED for row in rows):
        say("compare runs: make ui")


def say(*lines: str) -> None:
    """Print lines as they are, without a line break of the terminal's width."""
    for line in lines:
        print(line, flush=True)


def table(rows: Sequence[Row]) -> Any:
    """The rows as a table for the terminal; the reason of a failure is printed below it."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    hosts = _hosts(rows)
    for name in ("stage", "seconds", "", *(["on"] if hosts else []), "verdict", "headline"):
        made.add_column(name, justify="right" if name == "seconds" else "left", overflow="fold")
    for row in rows:
        style = {StageStatus.FAILED: "red", StageStatus.NOT_RUN: "dim", StageStatus.UNCHANGED: "dim"}.get(row.status)
        headline = Text("see the error below" if row.reason else row.headline)
        made.add_row(
            row.stage, row.seconds, row.status, *(Text(host) for host in hosts.get(row.stage, ())), row.verdict, headline, style=style
        )
    return made


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a list in Markdown, for the artifact, because Prefect's page cuts wide tables off; the first screen has the error."""
    hosts = _hosts(rows)
    return "".join(f"* {_line(row, *hosts.get(row.stage, ()))}\n" for row in rows)


def _line(row: Row, host: str = "") -> str:
    how = [str(row.status), *([f"{row.seconds} s"] if row.seconds != "–" else []), *([f"on {host}"] if host else [])]
    result = [row.verdict if row.report else "", "the error above" if row.reason else text(row.headline)]
    return ": ".join([f"**{row.stage}** ({', '.join(how)})", *filter(None, result)])


def hosts(rows: Sequence[Row]) -> str:
    """The machine of each stage as text; empty if all ran on this one."""
    return "; ".join(f"{stage}: {host}" for stage, (host,) in _hosts(rows).items() if host)


def _hosts(rows: Sequence[Row]) -> dict[str, tuple[str]]:
    """Stage → the machine that ran or restored it; empty if no stage was sent to another pool."""
    if not any(row.where for row in rows):
        return {}
    return {row.stage: (row.where or ("" if row.status == StageStatus.NOT_RUN else platform.node()),) for row in rows}


def findings(rows: Sequence[Row]) -> str:
    """The errors and warnings of all stages as a list in Markdown, for the artifact."""
    return "\n".join(f"* {row.stage}: {text(str(finding))}" for row in rows if row.report for finding in row.report.serious())


def unseen(rows: Sequence[Row]) -> list[str]:
    """The errors and warnings of stages that did not run now, because the terminal has not shown them yet."""
    cached = [row for row in rows if row.status in (StageStatus.UNCHANGED, StageStatus.RESTORED)]
    return [f"{row.stage}: {finding}" for row in cached if row.report for finding in row.report.serious()]


def release_lines(release: Path, *, engine: str | None, requests: Path) -> list[str]:
    """The image of an accepted run, and the first commands to use it; a request that is too long for a line is kept in `requests`."""
    facts = json.loads(release.read_text(encoding="utf-8"))
    prefix = f"DOCKER_HOST={engine} " if engine and engine != os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock") else ""
    kind = registry.kinds().get(facts.get("candidate", ""))
    gpus = "--gpus all " if kind and kind.gpu else ""
    return [
        f"image   {facts['image']}",
        f"digest  {facts['image_id']}",
        "",
        "next:",
        f"  {prefix}docker run --rm {gpus}--read-only --tmpfs /tmp --cap-drop ALL -p 127.0.0.1:8000:8000 {facts['image']}",
        *_curl(facts["params"]["name"], facts["example"], requests),
        f"  {prefix}.venv/bin/paddleship trace {facts['image']}",
    ]


def engine_address() -> str | None:
    """The address of Docker for commands that a person copies; None without an engine."""
    try:
        return image.host_of(image.connect())
    except Unavailable:
        return None


def _curl(name: str, example: Mapping[str, Any], requests: Path) -> list[str]:
    """A request of one held-out row as a curl command, and the answer that accept got."""
    url = f"127.0.0.1:8000/v2/models/{name}/infer"
    body = json.dumps(example["request"], ensure_ascii=False)
    if len(body) > _LONGEST_LINE:
        path = requests / f"{name}.json"
        write_text(path, body)
        body = f"@{path}"
    command = f"curl -s {url} -d {shlex.quote(body)}"
    answer = json.dumps(example["answer"], ensure_ascii=False)
    if len(answer) > _LONGEST_LINE:
        outputs = [item | {"data": [*item["data"][:_SHOWN_VALUES], "…"]} for item in example["answer"]["outputs"]]
        answer = json.dumps(example["answer"] | {"outputs": outputs}, ensure_ascii=False)
    return [f"  {command}", f"    {answer}"]

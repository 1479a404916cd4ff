"""What a person reads at the end of a run: stages, the image, and what to do next."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.errors import Unavailable
from paddleship.report import Report
from tasks import image


@dataclass(frozen=True)
class Row:
    """One stage of this run: how it went ("ran", "unchanged", "restored", "failed", "not run") and what it reported."""

    stage: str
    how: str
    report: Report | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        return "–" if self.report is None else self.report.outcome

    @property
    def seconds(self) -> str:
        return f"{self.report.seconds:.1f}" if self.report and self.how in ("ran", "failed") else "–"

    @property
    def headline(self) -> str:
        return self.reason or (self.report.headline if self.report else "")


def table(rows: Sequence[Row]) -> Any:
    """The rows as a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("stage", "seconds", "", "verdict", "headline"):
        made.add_column(name, justify="right" if name == "seconds" else "left", overflow="fold")
    for row in rows:
        style = {"failed": "red", "not run": "dim", "unchanged": "dim"}.get(row.how)
        made.add_row(row.stage, row.seconds, row.how, row.verdict, Text(row.headline), style=style)
    return made


def markdown(rows: Sequence[Row]) -> str:
    """The rows as Markdown, for the artifact."""
    lines = ["| stage | seconds | how | verdict | headline |", "|---|---|---|---|---|"]
    lines += [f"| {row.stage} | {row.seconds} | {row.how} | {row.verdict} | {row.headline.replace('|', '/')} |" for row in rows]
    return "\n".join(lines) + "\n"


def findings(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The errors and warnings of all stages as a table for the artifact."""
    return [
        {"stage": row.stage, **{key: value or "" for key, value in finding.to_dict().items()}}
        for row in rows
        if row.report
        for finding in row.report.serious()
    ]


def unseen(rows: Sequence[Row]) -> list[str]:
    """The errors and warnings of stages that did not run now, so that the terminal has not shown them yet."""
    return [
        f"{row.stage}: {finding}" for row in rows if row.report and row.how in ("unchanged", "restored") for finding in row.report.serious()
    ]


def release_lines(release: Path, *, engine: str | None) -> list[str]:
    """The image of an accepted run, and the first commands of somebody who wants to use it."""
    facts = json.loads(release.read_text(encoding="utf-8"))
    prefix = f"DOCKER_HOST={engine} " if engine and engine != os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock") else ""
    return [
        f"image   {facts['image']}",
        f"digest  {facts['image_id']}",
        "",
        "next:",
        f"  {prefix}docker run --rm --read-only --tmpfs /tmp --cap-drop ALL -p 127.0.0.1:8000:8000 {facts['image']}",
        f"  {_curl(facts['params'])}",
        f"  {prefix}.venv/bin/paddleship trace {facts['image']}",
    ]


def engine_address() -> str | None:
    """Where Docker answers, for commands that a person copies; None when it does not."""
    try:
        return image.host_of(image.connect())
    except Unavailable:
        return None


def _curl(values: Mapping[str, Any]) -> str:
    """A request that this model answers, as a curl command."""
    if values["preprocess"]["kind"] == "characters":
        inputs = [{"name": values["preprocess"]["column"], "datatype": "BYTES", "shape": [1], "data": ["质量很好，非常喜欢"]}]
    else:
        inputs = [_zeros(item) for item in values["model"]["inputs"]]
    body = json.dumps({"inputs": inputs}, ensure_ascii=False)
    return f"curl -s 127.0.0.1:8000/v2/models/{values['name']}/infer -d '{body}'"


def _zeros(item: Mapping[str, Any]) -> dict[str, Any]:
    shape = [1, *(size if isinstance(size, int) else 4 for size in item["shape"][1:])]
    count = 1
    for size in shape:
        count *= size
    datatype = {"float32": "FP32", "float64": "FP64", "int32": "INT32", "int64": "INT64", "bool": "BOOL"}[item["dtype"]]
    return {"name": item["name"], "datatype": datatype, "shape": shape, "data": [item["low"] or 0] * count if count <= 64 else ["…"]}

"""Params that weaken the proof: what passes by them names them in headlines, report, lineage, release and label."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.faults.custody import params_edited
from benchmarks.faults.fault import Fault
from paddleship.containers import image
from paddleship.lineage.release import PREFIX

DEFAULT = "(default "  # after each param that is named
_AGAIN = ("verify", "benchmark", "package")


def texts(checkout: Path) -> dict[str, str]:
    """After `accept`: what each place says that may name loosened params."""
    verify, accept = (_read(checkout / f"reports/{stage}.json") for stage in ("verify", "accept"))
    receipt, release = _read(checkout / "image.json"), _read(checkout / "release.json")
    with closing(image.connect()) as client:
        labels = client.images.get(receipt["image_id"]).labels
    return {
        "verify's headline": verify["headline"],
        "verify's findings": "; ".join(one["message"] for one in verify["findings"] if one["kind"] == "loosened-limits"),
        "accept's headline": accept["headline"],
        "the lineage": receipt["lineage"]["loosened"],
        "release.json": release["loosened"],
        "the label": labels.get(f"{PREFIX}loosened", ""),
    }


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def faults(wrong: tuple[Any, ...]) -> tuple[Fault, ...]:
    """`wrong` changes files of the image, so that some of its answers are wrong."""
    limits = {"noise_limit": 8, "typical_limit": 3, "invariance_limit": 2}
    return (
        Fault(
            "an honest image by a limit of 2000", "accept", ("verify.noise_limit 2000 (default 8)",),
            damage=params_edited(verify={"noise_limit": 2000}), before=_AGAIN, named=texts,
        ),
        Fault(
            "an image that is wrong by 0.1% in batches of 5, by limits of 100000", "accept",
            tuple(f"verify.{name} 100000 (default {usual})" for name, usual in limits.items()),
            damage=params_edited(verify=dict.fromkeys(limits, 1e5)), before=_AGAIN, files=wrong, named=texts,
        ),
        Fault(
            "an image that few rows and callers prove", "accept",
            ("verify.samples 8 (default 256)", "verify.threads 1 (default 4)", "accept.concurrency 1 (default 8)"),
            damage=params_edited(verify={"samples": 8, "threads": 1}, accept={"concurrency": 1}), before=_AGAIN, named=texts,
        ),
    )  # fmt: skip

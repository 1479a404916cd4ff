"""The host of a measurement, shown wherever the measurement is used on another host."""

from __future__ import annotations

from paddleship.reports.report import Report
from paddleship.system import host


def measured_elsewhere(report: Report) -> str:
    """ " (measured on …, not here)" for a benchmark of another machine, or of this machine in another state; otherwise empty."""
    measured_on, now = report.facts.get("measured_on"), host.fingerprint()
    if measured_on is None:
        return ""
    if measured_on != host.describe():
        return f" (measured on {measured_on}, not here)"
    changed = [name for name in now | report.host if now.get(name) != report.host.get(name)]
    return f" (measured on this machine with another {', '.join(changed)})" if changed and report.host else ""

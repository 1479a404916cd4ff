"""What was requested of a benchmark and not measured, because there was no time or no core."""

from __future__ import annotations

from collections.abc import Sequence

from paddleship.reports.finding import Finding


def starts(made: int, wanted: int) -> list[Finding]:
    """Starts of every participant as a new process."""
    if made >= wanted:
        return []
    reason = "so the intervals hardly cover the difference between two processes of one program"
    message = f"benchmark.max_seconds left time for {made} of {wanted} starts, {reason}"
    return [Finding("imprecise", "warning", message, "raise benchmark.max_seconds")]


def points(
    measured: Sequence[tuple[str, Sequence[int], Sequence[int]]],
    *,
    sizes: Sequence[int],
    counts: Sequence[int],
    thread_count: int,
    cores: int,
) -> list[Finding]:
    """Points of the curves; `measured` holds name, batch sizes and numbers of processes."""
    findings = []
    too_many = [count for count in counts if count * thread_count > cores]
    if too_many:
        reason = f"{cores} cores are too few for {thread_count} threads per process"
        advice = "lower benchmark.concurrency, or use a machine with more cores"
        findings.append(_note(f"concurrency {', '.join(map(str, too_many))} was not measured ({reason})", advice))
    for size in sizes:
        if names := [name for name, seen, _ in measured if size not in seen]:
            message = f"batch size {size:,} was not measured for {', '.join(names)} (too slow for the time left)"
            findings.append(_note(message, f"raise benchmark.max_seconds, or remove {size:,} from benchmark.batch_sizes"))
    for count in counts:
        if count not in too_many and (names := [name for name, _, seen in measured if count not in seen]):
            message = f"concurrency {count} was not measured for {', '.join(names)} (no time left)"
            findings.append(_note(message, "raise benchmark.max_seconds"))
    return findings


def _note(message: str, advice: str) -> Finding:
    return Finding("not-measured", "note", message, advice)

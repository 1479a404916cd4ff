"""What is asked of a benchmark and impossible here: refused before any time is spent on it, or reported when the time was over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from paddleship.config.params import Select
from paddleship.errors import ParamsError, Unavailable
from paddleship.system import host

_COPIES = 2  # of the inputs in each process: ours and the runtime's


def require_one_paddle() -> None:
    """Raise Unavailable where no Paddle is installed, or both of its builds, which write the same package over each other."""
    found = [name for name in ("paddlepaddle", "paddlepaddle-gpu") if _installed(name)]
    if not found:
        raise Unavailable("Paddle is not installed: run `make setup` (or `make setup DEVICE=gpu`), or install the extra cpu or gpu")
    if len(found) == 2:
        raise Unavailable(
            "paddlepaddle and paddlepaddle-gpu are both installed and write the same package, so neither is whole: "
            "run `make clean setup DEVICE=cpu` (or gpu), or install one of them into a new environment"
        )


def require_cores(thread_count: int) -> None:
    """Raise ParamsError where a candidate would have more threads than there are cores, which makes one wait for the other."""
    cores = len(host.core_numbers())
    if thread_count > cores:
        raise ParamsError(
            f"optimize.threads {thread_count} is more than the cores that this process may use ({cores}): lower it, or measure on a "
            "machine like the one that will serve"
        )


def require_choice(settings: Select, proven: Mapping[str, int | None]) -> None:
    """Raise ParamsError for a select.candidate that was not proven, or an objective without figures; `proven`: image bytes by name."""
    wished = settings.candidate
    if wished is not None and wished not in proven:
        raise ParamsError(
            f"select.candidate {wished!r} was not proven (those that were: {', '.join(proven) or 'none'}; the report of verify says why): "
            "choose one of them, or null"
        )
    unknown = [name for name, size in proven.items() if size is None]
    if settings.objective == "image_bytes" and unknown:
        raise ParamsError(
            f"select.objective 'image_bytes' is not known for {', '.join(unknown)}: run in a checkout of paddleship, where "
            "docker/requirements says what an image holds, and with those packages installed; or choose another objective"
        )


def require_memory(batch_sizes: Sequence[int], *, rows: int, row_bytes: int, processes: int) -> None:
    """Raise ParamsError where the inputs alone do not fit: `rows` of them (a full batch at least) of each size in every process."""
    import psutil

    available = psutil.virtual_memory().available
    needed = _COPIES * processes * row_bytes * sum(max(size, rows) for size in batch_sizes)
    if needed > available:
        raise ParamsError(
            f"benchmark.batch_sizes {list(batch_sizes)} cannot be asked here: their inputs take {needed / 1e9:,.1f} GB in {processes} "
            f"processes, and {available / 1e9:,.1f} GB are free: leave {max(batch_sizes):,} out"
        )


def left_out(
    measured: Sequence[tuple[str, Sequence[int], Sequence[int]]],
    *,
    sizes: Sequence[int],
    counts: Sequence[int],
    thread_count: int,
    cores: int,
) -> list[str]:
    """What was asked for and not measured, with what to do; `measured`: of each name its batch sizes and its numbers of processes."""
    said = []
    too_many = [count for count in counts if count * thread_count > cores]
    if too_many:
        words = ", ".join(map(str, too_many))
        said.append(
            f"{words} processes at the same time were not measured, because {cores} cores are not enough for {thread_count} threads each: "
            "lower benchmark.concurrency, or use a larger machine"
        )
    for size in sizes:
        if names := [name for name, seen, _ in measured if size not in seen]:
            said.append(
                f"batches of {size:,} were left out for {', '.join(names)}, which would take too long: raise benchmark.max_seconds, or "
                "take the size out of benchmark.batch_sizes"
            )
    for count in counts:
        if count not in too_many and (names := [name for name, _, seen in measured if count not in seen]):
            said.append(f"there was no time for {count} processes at the same time of {', '.join(names)}: raise benchmark.max_seconds")
    return said


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True

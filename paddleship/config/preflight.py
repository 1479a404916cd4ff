"""Checks before the benchmark starts, and the list of measurements that were left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from paddleship.config.sections.select import Select
from paddleship.errors import ParamsError, Unavailable
from paddleship.system import environment, host

_GPU_BUILDS = ("paddlepaddle-gpu", "onnxruntime-gpu")
_COPIES = 2  # of the inputs in each process: one of ours and one of the runtime


def require_one_build() -> None:
    """Raise Unavailable if no Paddle is installed, or two builds of one library, which overwrite each other's files."""
    if not _installed("paddlepaddle") and not _installed("paddlepaddle-gpu"):
        raise Unavailable("Paddle is not installed: run `make setup`, or install one of the extras cpu, cuda and gpu")
    for build in filter(_installed, _GPU_BUILDS):
        if _installed(other := build.removesuffix(environment.GPU_BUILD)):
            raise Unavailable(
                f"{other} and {build} are both installed and overwrite each other's files: run `make clean setup` (RUNTIME=cuda: ONNX "
                "Runtime for GPUs, DEVICE=gpu: Paddle for GPUs), or install one of them into a new environment"
            )


def require_cores(thread_count: int) -> None:
    """Raise ParamsError if a candidate would have more threads than this process has cores."""
    cores = len(host.core_numbers())
    if thread_count > cores:
        raise ParamsError(
            f"optimize.threads is {thread_count}, and this process may use {cores} cores: lower it, or run on a machine with more cores"
        )


def require_choice(settings: Select, proven: Mapping[str, int | None]) -> None:
    """Raise ParamsError if select.candidate is not proven, or the objective has no value; `proven` maps names to image bytes."""
    wished = settings.candidate
    if wished is not None and wished not in proven:
        raise ParamsError(
            f"select.candidate {wished!r} is not proven (proven: {', '.join(proven) or 'none'}; see reports/verify.json): choose a proven "
            "candidate, or null"
        )
    unknown = [name for name, size in proven.items() if size is None]
    if settings.objective == "image_bytes" and unknown:
        raise ParamsError(
            f"select.objective 'image_bytes' is unknown for {', '.join(unknown)}: run in a checkout of paddleship with the packages of "
            "docker/requirements installed, or choose another objective"
        )


def require_memory(batch_sizes: Sequence[int], *, rows: int, row_bytes: int, processes: int) -> None:
    """Raise ParamsError if the inputs alone do not fit in memory: `rows` (a full batch at least) of each size, in every process."""
    import psutil

    available = psutil.virtual_memory().available
    needed = _COPIES * processes * row_bytes * sum(max(size, rows) for size in batch_sizes)
    if needed > available:
        raise ParamsError(
            f"benchmark.batch_sizes {list(batch_sizes)} do not fit in memory: the inputs need {needed / 1e9:,.1f} GB in {processes} "
            f"processes, and {available / 1e9:,.1f} GB are free: remove {max(batch_sizes):,}"
        )


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True

"""The libraries that compute and convert: their versions, and the code of runtimes and kinds in users' packages."""

from __future__ import annotations

from paddleship.data.task_kinds import registry as task_kinds
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.preprocess import registry as preprocess_kinds
from paddleship.shipped.computing.runtimes import registry
from paddleship.system import environment


def versions() -> dict[str, str]:
    """The installed versions, and a hash of the code of each runtime, preprocess kind and task kind outside paddleship."""
    points = {f"runtime {name}": one.entry_point for name, one in registry.found().items()}
    points |= {f"preprocess {name}": one.entry_point for name, one in preprocess_kinds.found().items()}
    points |= (tasks := task_kinds.entry_points())
    hashes = {name: discovery.code_sha256(point) for name, point in points.items() if point is not None}
    of_tasks = [point.dist.name for point in tasks.values() if point.dist]
    return environment.versions((*registry.distributions(), *preprocess_kinds.distributions(), *of_tasks)) | hashes

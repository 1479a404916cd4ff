"""`make image-bench`: the images of the candidates CANDIDATES of this checkout, by default those for ONNX Runtime and Paddle Inference.

Each is built, and built again after its model alone has changed. Then their containers are started in turn, in several rounds; a figure is
the median of its rounds, with the lowest and the highest. Prints tables and, as the last line, the figures as JSON; exits 3 if a goal is
missed. `SHORT=1`: two rounds. Needs `make pipeline UNTIL=verify`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.image import building, starting
from benchmarks.image.building import Image
from paddleship.config import loading
from paddleship.containers import image
from paddleship.system import host

_ROUNDS, _SHORT_ROUNDS, _SHOWN = 7, 2, 8
_GOALS = {
    "onnxruntime": {"on_58_mb_base_mb": 200, "first_answer_s": 0.6, "idle_mb": 80, "repackage_s": 3, "changed_layers": 1},
    "paddle": {"on_58_mb_base_mb": 740, "first_answer_s": 1.5, "repackage_s": 3, "changed_layers": 1},
}
Samples = dict[str, list[float]]


def main() -> None:
    machine, rounds = host.fingerprint(), _SHORT_ROUNDS if os.environ.get("SHORT") else _ROUNDS
    params = loading.load(Path("params.yaml"))
    names = os.environ.get("CANDIDATES", "").split() or [name for name in _GOALS if (Path(params.paths.candidates) / name).is_dir()]
    with image.engine() as client:
        images: list[Image] = []
        try:
            images += (building.build(client, params, name) for name in names)
            samples: dict[str, Samples] = {one.name: defaultdict(list) for one in images}
            for number in range(rounds):
                print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
                for one in images:
                    for figure, value in starting.measure(client, one.built.id, params).items():
                        samples[one.name][figure].append(value)
        finally:
            building.remove(client, images)
    figures = {one.name: {**one.figures, **_medians(samples[one.name])} for one in images}
    for one in images:
        print(_table(one, figures[one.name], samples[one.name]))
    missed = [f"{name} {figure}" for name, of_image in figures.items() for figure in _missed(of_image, _GOALS.get(name, {}))]
    flat = {f"{name}_{figure}": value for name, of_image in figures.items() for figure, value in of_image.items()}
    print(json.dumps({**flat, "goals": _GOALS, "goals_missed": missed, "rounds": rounds, "host": machine}))
    sys.exit(3 if missed and not os.environ.get("SHORT") else 0)


def _missed(figures: Mapping[str, float], goals: Mapping[str, float]) -> list[str]:
    return [figure for figure, goal in goals.items() if figures[figure] > goal]


def _medians(samples: Samples) -> dict[str, float]:
    return {figure: round(statistics.median(values), 3) for figure, values in samples.items()}


def _table(one: Image, figures: Mapping[str, float], samples: Samples) -> str:
    goals = _GOALS.get(one.name, {})
    lines = ["", f"image of {one.name}"]
    for figure, value in figures.items():
        spread = _spread(samples[figure]) if figure in samples else ""
        lines.append(f"  {figure:16} {value:10.2f}  {spread:22}{f'goal {goals[figure]:g}' if figure in goals else ''}")
    lines += [f"  layer   {size / 1e6:8.1f} MB  {instruction}" for size, instruction in one.layers]
    lines += [f"  package {size / 1e6:8.1f} MB  {package}" for package, size in one.packages[:_SHOWN]]
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    return f"[{min(values):.2f}, {max(values):.2f}]"


if __name__ == "__main__":
    main()

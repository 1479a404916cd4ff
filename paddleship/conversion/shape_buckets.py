"""Fixed sizes for dimensions that an exported program cannot keep dynamic: which to try, in which order, and what they cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from paddleship.reports.finding import Finding
from paddleship.shipped.computing.candidate import Program
from paddleship.shipped.computing.spec import TensorSpec

_MOST = 8  # programs of one candidate
_SHARES = (0.5, 0.9, 1.0)  # of the rows that fit into each size


def buckets(seen: Sequence[int]) -> list[int]:
    """Sizes that hold 50%, 90% and 100% of the rows."""
    ordered = sorted(seen)
    return sorted({ordered[max(0, round(share * len(ordered)) - 1)] for share in _SHARES})


def choices(specs: Sequence[TensorSpec], sizes: Callable[[], Mapping[str, Sequence[int]]]) -> Iterator[tuple[Program, ...]]:
    """First every dimension except the batch is fixed, then the batch too. `sizes` is called only if something must be fixed."""
    batch = str(specs[0].shape[0])
    dimensions = list(dict.fromkeys(size for spec in specs for size in spec.shape if isinstance(size, str)))
    known = sizes()
    for names in ([name for name in dimensions if name != batch], dimensions):
        if names and all(known.get(name) for name in names):
            options = [sorted(set(known[name])) for name in names]
            while len(list(itertools.product(*options))) > _MOST:
                longest = max(options, key=len)
                longest.remove(longest[0])
            yield tuple(
                Program("-".join(f"{name}{size}" for name, size in zip(names, chosen, strict=True)), dict(zip(names, chosen, strict=True)))
                for chosen in itertools.product(*options)
            )


def fixed(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> tuple[TensorSpec, ...]:
    """The specs with some dimensions as numbers."""
    return tuple(
        replace(spec, shape=tuple(sizes.get(size, size) if isinstance(size, str) else size for size in spec.shape)) for spec in specs
    )


def price(programs: Sequence[Program], specs: Sequence[TensorSpec], reason: str, obstacle: str | None) -> Finding:
    """What was tried, why, and what it costs the user, or why it did not work either."""
    names = list(programs[0].sizes)
    fixed_sizes = "; ".join(f"{name} is {', '.join(map(str, sorted({program.sizes[name] for program in programs})))}" for name in names)
    if obstacle:
        return Finding("fewer-dimensions", "note", f"with fixed sizes ({fixed_sizes}) it fails as well: {obstacle}")
    batch = str(specs[0].shape[0])
    cost = ["smaller inputs are padded to the next size and take its time"]
    if others := [name for name in names if name != batch]:
        cost.append(f"larger {' or '.join(others)} is refused")
    if batch in names:
        cost.append("larger batches are answered in parts")
    advice = "make the dimension work dynamically, or set the sizes in export.buckets"
    return Finding(
        "fewer-dimensions", "warning", f"sizes are fixed ({fixed_sizes}), because {reason}. {'; '.join(cost).capitalize()}", advice
    )

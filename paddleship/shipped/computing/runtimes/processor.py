"""What the processor lacks, asked before a library is imported that would end the process with SIGILL and without a word."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddleship.errors import CandidateError

_CPUINFO = Path("/proc/cpuinfo")


def require(flags: Mapping[str, Sequence[str]], runtime: str, *, cpuinfo: Path = _CPUINFO, machine: str = "") -> None:
    """Raise CandidateError unless the processor has the flags that a runtime needs on this machine, where that can be read."""
    needed = flags.get(machine or platform.machine(), ())
    known = _known(cpuinfo) if needed else {}
    if known and (absent := [flag for flag in needed if flag not in known["flags"].split()]):
        raise CandidateError(
            f"the runtime {runtime!r} needs a processor with {', '.join(absent)}, which this one ({known.get('model name', 'unknown')}) "
            "has not: use another machine, or a candidate of another runtime"
        )


def _known(cpuinfo: Path) -> dict[str, str]:
    """The facts of the first processor; empty where there are none, as outside Linux."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return facts if "flags" in facts else {}

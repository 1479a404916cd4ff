"""A wall clock that jumps for the processes of a run only, by a library that is loaded before theirs (clock.c)."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from paddleship.errors import Unavailable

DAY_S = 24 * 3600
_SOURCE = Path(__file__).with_name("clock.c")


@dataclass(frozen=True)
class Clock:
    """The wall clock of commands that are started with `environment`."""

    library: Path
    offset: Path

    @classmethod
    def make(cls, folder: Path) -> Clock:
        """Compile the library. Raises Unavailable without a compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise Unavailable("no C compiler is installed")
        made = cls(folder / "clock.so", folder / "clock.offset")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(made.library), str(_SOURCE), "-ldl"], check=True)
        made.offset.write_bytes(struct.pack("q", 0))
        return made

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "CHAOS_CLOCK": str(self.offset)}

    def jump_to(self, seconds: int) -> None:
        """Let the clock be `seconds` ahead from now on; behind where it is negative."""
        with self.offset.open("r+b") as file:
            file.write(struct.pack("q", seconds))

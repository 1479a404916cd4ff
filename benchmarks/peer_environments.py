"""Virtual environments for peers, under .peers/, so that their pins do not affect ours.

The newest versions on PyPI are installed once. Packages installed for paddleship are not used for peers, because our pins chose their
versions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / ".peers"
_READY = "ready.json"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with these packages; `left_out` are their dependencies that a CPU does not need."""

    name: str
    packages: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        return _FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its site-packages folder."""
        return self.home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

    @property
    def ready(self) -> bool:
        """Whether it was installed with the current packages."""
        marker = self.home / _READY
        return marker.exists() and json.loads(marker.read_text(encoding="utf-8")) == self._wanted()

    def _wanted(self) -> list[list[str]]:
        return [list(self.packages), list(self.left_out)]

    def install(self) -> str:
        """Create the environment if it is missing. Returns why it is unavailable, or an empty string."""
        if self.ready:
            return ""
        self.home.mkdir(parents=True, exist_ok=True)
        overrides = self.home.with_suffix(".overrides")
        overrides.write_text("".join(f"{name}; sys_platform == 'never'\n" for name in self.left_out), encoding="utf-8")
        uv = [sys.executable, "-m", "uv"]
        for command in (
            [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.home)],
            [*uv, "pip", "install", "--quiet", "--python", str(self.python), "--overrides", str(overrides), *self.packages],
        ):
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
            if done.returncode:
                return f"{', '.join(self.packages)} cannot be installed: {last_line(done.stderr)}"
        (self.home / _READY).write_text(json.dumps(self._wanted()) + "\n", encoding="utf-8")
        return ""

    def versions(self) -> Mapping[str, str]:
        """The installed version of each of its packages."""
        found = {one.name: one.version for one in metadata.distributions(path=[str(self.site)])}
        names = (package.partition("<")[0] for package in self.packages)
        return {name: found[name] for name in names if name in found}


def last_line(words: str) -> str:
    """The last line of a program's output before it failed."""
    return next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "no reason was given")

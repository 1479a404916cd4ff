"""Terminal sessions of the documentation: what a page shows is run, and what it prints is compared.

A block ```console has commands after `$ ` and what they print; `…` in it stands for anything. A block of code whose first line is a comment
with a path is a file to write: `# species/model.py`, or `# params.yaml, at the end`. Figures that depend on the machine are not compared.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

BIN = Path(sys.executable).parent
EXIT_CODE = "echo $?"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.\w+)(, at the end)?\n")
_DIGEST = re.compile(r"\b(?:sha256:)?[0-9a-f]{12,64}\b")
_VARIABLE = (  # of the machine and of the moment, and what takes their place
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?"), "MOMENT"),
    (_DIGEST, "DIGEST"),
    (re.compile(r", \d+ warnings?\b"), ""),
    (re.compile(r", not valid: the machine was not free| \(not valid\)"), ""),
    (re.compile(r"epoch \d+ of \d+"), "EPOCH"),
    (re.compile(r"[-+−]?\d[\d,]*\.\d+(e-?\d+)?|\d+(,\d{3})+"), "FIGURE"),
    (re.compile(r"\b\d+(?= (?:s|ms|MB|requests/s)\b)"), "FIGURE"),
    (re.compile(r"\bnoise ratio \d+\b"), "noise ratio FIGURE"),
    (re.compile(r"\s+"), " "),
)


def blocks(text):
    """(language, contents) of the code blocks, in order."""
    return _BLOCK.findall(text)


def commands(block):
    """(command, lines that it prints) of a ```console block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(lines[0], lines[1:]) for lines in (part.splitlines() for part in parts)]


def comparable(line):
    for pattern, instead in _VARIABLE:
        line = pattern.sub(instead, line)
    return line.strip()


def find(expected, printed):
    """The lines that match the expected ones in their order, and the first expected one that none matches; blank lines and `…` apart."""
    found, rest = [], list(printed)
    for line in expected:
        if line.strip() in ("", "…"):
            continue
        pattern = re.compile(".*".join(re.escape(comparable(part)) for part in line.split("…")))
        while rest and not pattern.fullmatch(comparable(rest[0])):
            rest.pop(0)
        if not rest:
            return found, line
        found.append((line, rest.pop(0)))
    return found, None


@dataclass
class Session:
    """Runs what a page shows, in the folder where its reader would be."""

    folder: Path
    project: Path  # where the files of the page belong
    replacements: dict[str, str] = field(default_factory=dict)  # on the page → here: paths, ports, and digests as they become known
    environment: dict[str, str] = field(default_factory=dict)
    code: int = 0

    def play(self, text, *, edit=lambda _path, contents: contents):
        """Write the files and run the commands of a part of a page; `edit` changes what is written to a file."""
        for language, contents in blocks(text):
            if language == "console":
                for (command, expected), after in pairwise([*commands(contents), ("", [])]):
                    self.run(command, expected, fails=after[0] == EXIT_CODE)
            elif match := _FILE.match(contents):
                path = self.project / match[1]
                before = path.read_text(encoding="utf-8") if match[2] else ""
                path.write_text(before + edit(path, self.here(contents[match.end() :])), encoding="utf-8")

    def here(self, text):
        for shown, actual in self.replacements.items():
            text = text.replace(shown, actual)
        return text

    def run(self, shown, expected, *, fails):
        """Run one command; `fails`: the page shows its exit code."""
        command = self.here(shown)
        if command.startswith("cd "):
            self.folder = self.folder / command.removeprefix("cd ")
            return
        if command == EXIT_CODE:
            assert [str(self.code)] == expected
            return
        done = self._process(command)
        self.code = done.returncode
        matched, missing = find([self.here(line) for line in expected], done.stdout.splitlines())
        assert missing is None, (
            f"$ {command}\nprints no line like\n  {missing}\nafter {matched[-1:]}; exit code {self.code}, output:\n{done.stdout}"
        )
        assert self.code == 0 or fails, f"$ {command}\nexits with {self.code}:\n{done.stdout}"
        if expected and "…" not in map(str.strip, expected):
            printed = [line for line in done.stdout.splitlines() if line.strip()]
            assert len(printed) == len(matched), f"$ {command}\nprints more:\n{done.stdout}"
        for line, actual in matched:
            self._learn(line, actual)

    def _process(self, command):
        """`paddleship` as a child of this process, everything else by a shell."""
        program = command.split(" ", 1)[0] == "paddleship"
        arguments = [str(BIN / "paddleship"), *shlex.split(command)[1:]] if program else ["bash", "-c", command]
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            arguments,
            cwd=self.folder,
            env={**_plain(), "PATH": path, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _learn(self, line, actual):
        """The digests of this run for those of the page, for the commands that follow."""
        shown, here = _DIGEST.findall(line), _DIGEST.findall(actual)
        if len(shown) == len(here):
            self.replacements |= {old: new for old, new in zip(shown, here, strict=True) if old != new}


def _plain():
    """The environment without the width of a terminal, in which tables would wrap."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}

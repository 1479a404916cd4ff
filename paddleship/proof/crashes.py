"""The cases that eager's process does not survive: they are left out, and after each only what was not answered is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from paddleship.errors import CandidateError, ModelError
from paddleship.proof.inputs import Case
from paddleship.shipped.common.spec import Arrays
from paddleship.system.isolate import Isolated
from paddleship.system.progress import Progress

MAX_CRASHES = 5  # of eager's process, after which no other edge is asked


class CrashError(Exception):
    """What eager's process died of, or hung on: a case, and the words of its end."""

    def __init__(self, case: Case, words: str) -> None:
        super().__init__(words)
        self.case = case


class Crashes:
    """The cases that eager's process did not survive, and those that are left out after too many of them, with the reason."""

    def __init__(self, cases: Sequence[Case], say: Callable[[str], None]) -> None:
        self.words: dict[str, str] = {}
        self._cases, self._say, self._count = cases, say, 0

    def add(self, end: CrashError, answered: Collection[int]) -> None:
        """Leave out what eager died of, and its family; after the last death that is allowed, all edges that are not `answered`.

        Raises ModelError where it died of rows.
        """
        if end.case.group == "rows":
            advice = "run the model on that row alone, and fix what it reads beyond its inputs, or leave the row out"
            raise ModelError(f"the eager model does not survive real rows ({end.case.name}): {end}: {advice}")
        family = [case.name for case in self._cases if case.family and case.family == end.case.family]
        self.words |= dict.fromkeys([end.case.name, *family], str(end))
        self._say(f"eager does not survive {end.case.name}, so nothing is asked that: {end}")
        self._count += 1
        if self._count == MAX_CRASHES:
            rest = [case.name for place, case in enumerate(self._cases) if case.group != "rows" and place not in answered]
            left = [name for name in rest if name not in self.words]
            self.words |= dict.fromkeys(left, f"not asked, because eager did not survive {self._count} cases before")
            self._say(f"eager did not survive {self._count} cases, so {len(left)} other edges are not asked")

    def follow(self, cases: Sequence[Case]) -> None:
        """Go on with these cases, which begin with those so far."""
        self._cases = cases

    def left(self, answered: Collection[int]) -> list[int]:
        """The places of the cases that are still to be asked."""
        return [place for place, case in enumerate(self._cases) if place not in answered and case.name not in self.words]


def ask_each(name: str, child: Isolated, cases: Sequence[Case], places: Sequence[int]) -> Iterator[tuple[int, Arrays | str]]:
    """Its answers to the cases at some places, or its words where it refuses. Raises CrashError."""
    progress = Progress(f"{name}: answering", len(places), "batches")
    for place in places:
        try:
            yield place, child.call("run", cases[place].inputs)
            progress.advance()
        except CandidateError as error:
            if child.usable:
                raise
            raise CrashError(cases[place], str(error)) from None

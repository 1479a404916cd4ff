"""Cases on which the eager process crashes or hangs: they are skipped, and the process is restarted for the remaining ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from paddleship.errors import CandidateError, ModelError
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.spec import Arrays
from paddleship.system.isolate import Isolated
from paddleship.system.progress import Progress

MAX_CRASHES = 5  # of eager's process, after which no other edge case is asked


class CrashError(Exception):
    """The case on which the eager process crashed or hung; the message says how the process ended."""

    def __init__(self, case: Case, message: str) -> None:
        super().__init__(message)
        self.case = case


class Crashes:
    """The cases on which eager crashed or hung, and those that are skipped after too many crashes, with the reason."""

    def __init__(self, cases: Sequence[Case], say: Callable[[str], None]) -> None:
        self.reasons: dict[str, str] = {}
        self._cases, self._say, self._count = cases, say, 0

    def add(self, end: CrashError, answered: Collection[int]) -> None:
        """Skip the case that eager crashed on, and its family; after the last allowed crash, skip all edge cases that are not `answered`.

        Raises ModelError if the case holds real rows.
        """
        if end.case.group == "rows":
            advice = "run the model on that row alone and fix forward, or remove the row"
            raise ModelError(f"the eager model crashed or hung on real rows ({end.case.name}): {end}: {advice}")
        family = [case.name for case in self._cases if case.family and case.family == end.case.family]
        self.reasons |= dict.fromkeys([end.case.name, *family], str(end))
        self._say(f"skipped {end.case.name}: the eager model crashed or hung on it: {end}")
        self._count += 1
        if self._count == MAX_CRASHES:
            rest = [case.name for index, case in enumerate(self._cases) if case.group != "rows" and index not in answered]
            left = [name for name in rest if name not in self.reasons]
            self.reasons |= dict.fromkeys(left, f"skipped after eager crashed or hung on {self._count} cases")
            self._say(f"skipped {len(left)} other edge cases after eager crashed or hung on {self._count} cases")

    def follow(self, cases: Sequence[Case]) -> None:
        """Continue with these cases; the first ones are the same as before."""
        self._cases = cases

    def left(self, answered: Collection[int]) -> list[int]:
        """The indices of the remaining cases."""
        return [index for index, case in enumerate(self._cases) if index not in answered and case.name not in self.reasons]


def ask_each(name: str, child: Isolated, cases: Sequence[Case], indices: Sequence[int]) -> Iterator[tuple[int, Arrays | str]]:
    """The answers to the cases with these indices, or the error message of a rejected case. Raises CrashError."""
    progress = Progress(f"{name}: answering", len(indices), "batches")
    for index in indices:
        try:
            yield index, child.call("run", cases[index].inputs)
            progress.advance()
        except CandidateError as error:
            if child.usable:
                raise
            raise CrashError(cases[index], str(error)) from None

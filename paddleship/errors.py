"""The exceptions of this library, and the exit code of a command that each of them ends.

    PaddleshipError
    ├── BadInput            2   a value, file or model that cannot be used
    │   ├── ParamsError         params.yaml: unknown key, wrong type or range
    │   ├── DataError           raw data that is missing, empty or does not fit the params
    │   ├── ModelError          factory, conversion or forward of the user's model
    │   │   └── OutputError         forward returns something that no program can return
    │   ├── CandidateError      a candidate folder that is missing, changed or unreadable
    │   │   ├── ProcessDied         a child process ended before it answered
    │   │   └── ProcessHung         a child process did not answer in time
    │   ├── RegistrationError   a runtime whose registration cannot be used, or two of one name
    │   └── RequestError        one request to the server (answered with 4xx, never an exit)
    ├── OutOfTime           2   a deadline was over before the work was done
    ├── GateFailed          3   a measured value missed its limit; the report is on disk
    ├── Unavailable         4   something outside paddleship is missing, full or in use: Docker engine, base image, server, disk, folder
    └── Cancelled         130   somebody cancelled it, or all that it waited for; an interrupt ends with this code too

    Defect                  1   code of paddleship failed in a child process; it carries that process's traceback

A few modules define subclasses (WrongError, ServerError, StageKilled …), with the exit code of their base class here.
Any other exception is a defect too: exit code 1, one line on the terminal, and the traceback in the file that the line names
(paddleship.system.defects).
Every message of a PaddleshipError names the thing, its value, the reason and the next step, and no address in it holds a credential.
"""

import re

_USER_OF_ADDRESS = re.compile(r"(?<=://)[^/\s'\"]*@")


def without_credentials(text: str) -> str:
    """The text with user and password removed from every address in it."""
    return _USER_OF_ADDRESS.sub("", text)


class PaddleshipError(Exception):
    """Base of all errors whose message is meant for the user. `outcome` is the outcome of a run that it ends."""

    exit_code = 1
    outcome = "Defect"

    def __str__(self) -> str:
        return without_credentials(super().__str__())


class BadInput(PaddleshipError):
    """User input that cannot be used. `where` is `file:line` in the user's code, if it is known."""

    exit_code = 2
    outcome = "BadInput"

    def __init__(self, message: str = "", *, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


class ParamsError(BadInput):
    """params.yaml has an unknown key or a value of the wrong type or range."""


class DataError(BadInput):
    """The data is missing, empty or does not fit the params."""


class ModelError(BadInput):
    """The user's model cannot be imported, built, run or converted."""


class OutputError(ModelError):
    """Forward returns no tensor, only its inputs, or an object that is neither a tensor nor a constant."""


class CandidateError(BadInput):
    """A candidate folder is missing, incomplete or was changed, or a candidate cannot be made.

    `kind` is the kind of finding (paddleship.reports.finding) that reports it.
    """

    kind = "conversion-failed"


class ProcessDied(CandidateError):
    """A child process ended before it answered. `signal` is the name of the signal that ended it; None if it exited by itself."""

    kind = "crash"

    def __init__(self, message: str = "", *, signal: str | None = None, where: str | None = None) -> None:
        super().__init__(message, where=where)
        self.signal = signal


class ProcessHung(CandidateError):
    """A child process did not answer within `seconds`."""

    kind = "hang"

    def __init__(self, message: str = "", *, seconds: float = 0) -> None:
        super().__init__(message)
        self.seconds = seconds


class Defect(Exception):
    """Code of paddleship itself failed in a child process. It is not a PaddleshipError, because the input is not at fault.

    `trace` is the traceback in the child process.
    """

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message, trace)
        self.message, self.trace = message, trace

    def __str__(self) -> str:
        return self.message


class RegistrationError(BadInput):
    """The registration of a runtime or a preprocess kind cannot be loaded or used, or two have the same name."""


class RequestError(BadInput):
    """A request to the server does not fit the model's inputs: `reason`, and `advice` as the next step."""

    def __init__(self, reason: str = "", advice: str = "") -> None:
        super().__init__(f"{reason}: {advice}" if advice else reason)
        self.reason, self.advice = reason, advice


class OutOfTime(PaddleshipError):
    """A deadline (paddleship.system.deadline) was over before the work was done. The input is not known to be at fault."""

    exit_code = 2
    outcome = "OutOfTime"


class GateFailed(PaddleshipError):
    """A measured value missed its limit; the report was written first."""

    exit_code = 3
    outcome = "GateFailed"


class Unavailable(PaddleshipError):
    """Something outside paddleship is missing or in use."""

    exit_code = 4
    outcome = "Unavailable"


class Cancelled(PaddleshipError):
    """Somebody cancelled the work, or all that it waited for."""

    exit_code = 130
    outcome = "Cancelled"


_KINDS = (BadInput, OutOfTime, GateFailed, Unavailable, Cancelled)


def of_outcome(outcome: str | None) -> type[PaddleshipError]:
    """The error that a run of this outcome ended with."""
    return next((kind for kind in _KINDS if kind.outcome == outcome), PaddleshipError)


def of_exit_code(code: int) -> type[PaddleshipError]:
    """The error that a command with this exit code, which is not 0, ended with."""
    return next((kind for kind in _KINDS if kind.exit_code == code), PaddleshipError)

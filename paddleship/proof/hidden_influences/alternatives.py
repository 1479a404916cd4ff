"""Other circumstances to try for a source that the user's code reads, with their descriptions."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from paddleship.proof.hidden_influences.sources import Cause, Read, Setting

Alternative = tuple[str, Setting]

_DAY_S = 86400.0
LATER_S = {"an hour later": 3600.0 + 61.5, "400 days later": 400 * _DAY_S + 7 * 3600 + 13 * 60 + 17.4, "30 years later": 10958 * _DAY_S}
_MOMENTS, _MONTH_S = 24, 30 * _DAY_S  # whole days, so that 24 moments reach every hour of the day; and every month and day of the week
_BUILT_EVERY = 2  # a process each, so that the model is built at every second one: all months, every second hour
_VALUES = 4  # of a variable, and of a name


def of(cause: Cause, reads: Sequence[Read], usual: Setting, *, built: bool = False) -> list[Alternative]:
    """What is tried for one source, given the lines that read it. `built`: each needs a process of its own."""
    texts = list(dict.fromkeys(word for read in reads if read.cause is cause for word in read.texts))
    made = {
        Cause.CLOCK: _clock(usual, built),
        Cause.ZONE: [(f"with TZ={zone}", replace(usual, zone=zone)) for zone in _zones(texts)],
        Cause.LOCALE: [(f"with the locale {name}", replace(usual, locale=name)) for name in _locales(texts)],
        Cause.CPUS: [(f"with {count} CPUs", replace(usual, cpus=count)) for count in (1, 2, 3, 64)],
        Cause.HOST: [(f"on a host called {name}", replace(usual, host=name)) for name in ["host-1", *_names(texts)][:_VALUES]],
        Cause.IDENTITY: [(f"with ids higher by {step}", replace(usual, identity=step)) for step in (1, 4321)],
        Cause.THREADS: [("in a thread beside 3 others", replace(usual, threads=3))],
        Cause.FILES: [("with other numbers in the files", replace(usual, files=True))],
    }
    return list(made.get(cause, []))


def _clock(usual: Setting, built: bool) -> Iterator[Alternative]:
    """Moments a month and an hour apart."""
    for text, shift in LATER_S.items() if built else ():
        yield text, replace(usual, now=usual.now + shift)
    for number in range(1, _MOMENTS + 1, _BUILT_EVERY if built else 1):
        now = usual.now + number * (_MONTH_S + 3600.0)
        yield f"at {datetime.datetime.fromtimestamp(now, datetime.UTC):%Y-%m-%d %H:%M} UTC", replace(usual, now=now)


def _zones(texts: Iterable[str]) -> list[str]:
    """Values of TZ that need no table of zones."""
    return ["AAA-9", "BBB+8", *(f"{text}-8" for text in texts if re.fullmatch("[A-Z]{3,5}", text))][:_VALUES]


def _locales(texts: Iterable[str]) -> list[str]:
    named = [text if "." in text else f"{text}.UTF-8" for text in texts if re.match("[a-z]{2}_[A-Z]{2}", text)]
    return [*named[:2], "de_DE.ISO8859-1", "zh_CN.GBK"]


def _names(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if re.fullmatch(r"[\w.-]+", text)]


def values(now: str | None, strings: Iterable[str]) -> list[str | None]:
    """Values that a variable gets instead of `now`: none, other numbers, and strings of the function that reads it."""
    texts = list(strings)
    numbers = [float(text) for text in (now, *texts) if text is not None and _is_number(text)]
    raised = [f"{number + 1:g}" for number in numbers[:1]]
    candidates = [None, *raised, *(text for text in texts if not _is_number(text)), "1", "0"]
    return [value for value in dict.fromkeys(candidates) if value != now][:_VALUES]


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False

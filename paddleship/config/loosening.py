"""Params that weaken the proof against their defaults.

No section is imported here, so that a new key of one section makes no stage stale that reads another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddleship.config.params import Params
    from paddleship.config.sections.accept import Accept
    from paddleship.config.sections.verify import Verify


_AT_MOST = ("noise_limit", "typical_limit", "invariance_limit", "max_flip_rate", "max_metric_drop")
_AT_LEAST = ("samples", "threads")


def of(params: Params) -> list[str]:
    """Each loosened param as `verify.noise_limit 2000 (default 8)`."""
    return [*of_verify(params.verify), *of_accept(params.accept)]


def in_headline(params: Params) -> str:
    """The end of a headline that names each loosened param; empty if there is none."""
    return f". Loosened: {', '.join(loosened)}" if (loosened := of(params)) else ""


def of_verify(verify: Verify) -> list[str]:
    """The limits that are higher and the sample sizes that are smaller than by default."""
    usual = type(verify)()
    fewer = [name for name in _AT_LEAST if getattr(verify, name) < getattr(usual, name)]
    return [*raised(verify, *_AT_MOST), *(_change("verify", name, getattr(verify, name), getattr(usual, name)) for name in fewer)]


def raised(verify: Verify, *names: str) -> list[str]:
    """Those of these limits that are higher than by default."""
    usual = type(verify)()
    return [
        _change("verify", name, getattr(verify, name), getattr(usual, name))
        for name in names
        if getattr(verify, name) > getattr(usual, name)
    ]


def of_accept(accept: Accept) -> list[str]:
    usual = type(accept)()
    loose = [name for name in ("concurrency",) if getattr(accept, name) < getattr(usual, name)]
    return [_change("accept", name, getattr(accept, name), getattr(usual, name)) for name in loose]


def _change(section: str, name: str, value: float, usual: float) -> str:
    return f"{section}.{name} {value:.15g} (default {usual:.15g})"

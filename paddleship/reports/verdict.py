"""Checks and verdicts: measured values with their limits."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from paddleship.reports import figures


class Check(BaseModel):
    """One measured value and its limit; `advice` is the next step if it fails."""

    model_config = ConfigDict(frozen=True)

    name: str
    measured: float | int | str | None
    limit: float | int | str | None
    passed: bool
    advice: str = ""

    @classmethod
    def at_most(cls, name: str, measured: float | None, limit: float, *, advice: str = "") -> Check:
        """Passes if `measured` is a number up to `limit`; NaN and None fail."""
        passed = measured is not None and measured <= limit
        return cls(name=name, measured=_finite(measured), limit=limit, passed=passed, advice=advice)

    @classmethod
    def at_least(cls, name: str, measured: float | None, limit: float, *, advice: str = "") -> Check:
        """Passes if `measured` is a number from `limit` up; NaN and None fail."""
        passed = measured is not None and measured >= limit
        return cls(name=name, measured=_finite(measured), limit=limit, passed=passed, advice=advice)

    @property
    def texts(self) -> tuple[str, str]:
        """What was measured and the limit, with the digits that show on which side of it the value is."""
        if isinstance(self.limit, str):
            return str(self.measured), self.limit
        return _show(self.measured, self.limit), _limit(self.limit)

    def __str__(self) -> str:
        measured, limit = self.texts
        text = f"{self.name}: {measured} (wanted: {limit})" if isinstance(self.limit, str) else f"{self.name} is {measured} (limit {limit})"
        return f"{text}: {self.advice}" if self.advice and not self.passed else text


class Verdict(BaseModel):
    """The checks of one stage, at least one; truthy if all of them passed."""

    model_config = ConfigDict(frozen=True)

    checks: list[Check] = Field(min_length=1)

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks if not check.passed]

    def __bool__(self) -> bool:
        return self.passed


def _finite(value: float | None) -> float | str | None:
    """NaN and infinity as text, because JSON has neither."""
    return value if value is None or abs(value) < float("inf") else str(value)


def _show(value: float | int | str | None, limit: float | int | None) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return figures.beside(value, value if limit is None else limit)


def _limit(value: float | int | None) -> str:
    return figures.limit(value) if value is not None else "none"

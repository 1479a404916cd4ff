"""Regression: the first output is the answer, and decides nothing."""

from __future__ import annotations

from paddleship.shipped.computing.task_kinds.registration import Decision

DECISION = Decision("regression", labels="numbers")

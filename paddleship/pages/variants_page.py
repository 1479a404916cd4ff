"""The page of a sweep: which variant is chosen and why, beside the others."""

from __future__ import annotations

from collections.abc import Sequence

from paddleship.pages import comparison_page
from paddleship.pages.comparison import Compared
from paddleship.pages.first_screen import NOT_VALID, FirstScreen
from paddleship.sweep import sweep_page
from paddleship.sweep.choice import Choice
from paddleship.sweep.variant import Variant

NAME = "sweep.html"


def of(name: str, variants: Sequence[Variant], choice: Choice) -> str:
    runs = {one.number: _compared(one, choice) for one in variants}
    best = runs[choice.best].name if choice.best is not None else None
    answer = sweep_page.headline(variants, choice)
    return comparison_page.render([*runs.values()], name=name, answer=f"{answer[0].upper()}{answer[1:]}.", best=best)


def _compared(variant: Variant, choice: Choice) -> Compared:
    screen = _screen(variant, choice.refused.get(variant.number, ""))
    params = {path: str(value) for path, value in variant.values.items()}
    findings = variant.ended.findings if variant.ended else ()
    return Compared(f"variant {variant.number} ({variant.label})", variant.figures, screen, params, findings)


def _screen(variant: Variant, refusal: str) -> FirstScreen:
    """What is known of one variant; `refusal` is the limit that it is beyond."""
    figures, ended = variant.figures, variant.ended
    if figures is None:
        trust = f"{ended.outcome}: {ended.reason}" if ended else "It has not run"
        return FirstScreen("No candidate was measured.", trust, ended.outcome if ended else "not run", False, False, "", ())
    answer = f"{figures.winner} is the winner."
    if refusal:
        return FirstScreen(answer, f"Beyond a limit of the sweep: {refusal}", "beyond a limit", False, False, "", ())
    if not figures.valid:
        return FirstScreen(answer, f"All gates passed, but {NOT_VALID}", "speed not valid", True, False, "", ())
    return FirstScreen(answer, "All gates passed", "passed", True, True, "", ())

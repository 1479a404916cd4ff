"""The page of an earlier run, which must not be read as that of a run that did not begin."""

from __future__ import annotations

from pathlib import Path

from paddleship.config import loading
from paddleship.config.sections.paths import Paths
from paddleship.errors import ParamsError
from paddleship.pages import run_page


def remove(folder: Path) -> None:
    """Remove the page in a folder, which a run replaces if it gets that far."""
    (folder / run_page.NAME).unlink(missing_ok=True)


def remove_in(checkout: Path) -> None:
    """Remove the page in the folder of the reports of a checkout, also if its params are not valid."""
    remove(_reports(checkout))


def _reports(checkout: Path) -> Path:
    """The folder that `paths.reports` names, or the default one if that cannot be read or is outside of the checkout."""
    try:
        paths = loading.read(checkout / "params.yaml").get("paths")
    except ParamsError:
        paths = None
    named = paths.get("reports") if isinstance(paths, dict) else None
    folder = checkout / str(named or "")
    if named and folder.resolve().is_relative_to(checkout.resolve()):
        return folder
    return checkout / str(Paths.model_fields["reports"].default)

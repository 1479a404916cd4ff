"""`paddleship images`: compare images, whoever made them."""

from __future__ import annotations

import signal
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddleship.errors import BadInput
from paddleship.orchestration import terminal

if TYPE_CHECKING:
    from paddleship.comparison.contestants import Contestant
    from paddleship.comparison.file_rows import FileRows
    from paddleship.promotion.image_comparison import ImageComparison

_IMAGE = "IMAGE|FOLDER"


@click.group(no_args_is_help=False)
def images() -> None:
    """Compare images, whoever made them."""


@images.command()
@click.argument("first", metavar=_IMAGE)
@click.argument("second", metavar=_IMAGE)
@click.option(
    "--rows",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="rows that both answer: .csv, .jsonl, .parquet (default: the held-out rows of this checkout, if one image was made from its data)",
)
@click.option("--label", metavar="COLUMN", help="the column of the labels (default: label, if there is one)")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, metavar="N", help="how many rows to ask, at most")
@click.option("--seconds", type=click.IntRange(min=1), default=30, show_default=True, metavar="N", help="time that latency is measured")
@click.option("--memory-mb", type=click.IntRange(min=6), default=2000, show_default=True, metavar="N", help="memory limit of a container")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    default="comparison.html",
    show_default=True,
    metavar="FILE",
    help="the page to write",
)
def compare(first: str, second: str, rows: Path | None, label: str | None, limit: int, seconds: int, memory_mb: int, html: Path) -> int:
    """Show which of two images is better: an image of the engine, or a candidate folder, of which one is built.

    Both answer the same rows. No training data, params or run of either is needed.
    """
    from paddleship.comparison import contestants, measurement
    from paddleship.comparison.side_by_side import Limits
    from paddleship.config.sections.accept import Accept
    from paddleship.config.sections.benchmark import Benchmark
    from paddleship.containers import image

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was built is removed
    limits = Limits(memory_mb * 10**6, Accept().ready_timeout_s)
    with image.engine() as client, ExitStack() as stack:
        one, other = (stack.enter_context(contestants.opened(client, name)) for name in (first, second))
        measurement.require_different(one, other)
        asked = _rows(rows, one, other, label=label, most=limit)
        compared = measurement.compare(client, one, other, asked, limits, effect=Benchmark().effect, seconds=seconds)
    _show(compared)
    _write(html, compared)
    return 0


def _rows(path: Path | None, one: Contestant, other: Contestant, *, label: str | None, most: int) -> FileRows:
    """The rows to ask. Raises BadInput."""
    from paddleship.comparison import file_rows

    made_from = {contestant.data_sha256 for contestant in (one, other)} - {None}
    path = path or _held_out(made_from)
    if path is None:
        raise BadInput(
            "an image holds no rows, and this folder does not have the data that one of the two was made from: pass --rows FILE, a table "
            f"with the columns {', '.join(file_rows.columns(one.candidate))} and, for a score, the labels"
        )
    return file_rows.read(path, one.candidate, label=label, most=most)


def _held_out(made_from: Collection[str | None]) -> Path | None:
    """The held-out rows of the checkout that this process works in, if they are of one of these data."""
    from paddleship.comparison import file_rows
    from paddleship.config import loading

    if not Path("params.yaml").exists():
        return None
    path = Path(loading.load(Path("params.yaml")).paths.prepared) / "test.parquet"
    return path if path.exists() and file_rows.data_sha256(path) in made_from else None


def _show(compared: ImageComparison) -> None:
    """Print the answer, what cannot be trusted, the figures, and rows that are answered differently."""
    from paddleship.cli.run_tables import table_of
    from paddleship.pages import image_comparison

    print(image_comparison.answer(compared), f"{image_comparison.trust(compared)}.", sep="\n")
    print(*(f"not certain: {doubt}" for doubt in image_comparison.doubts(compared)), "", sep="\n")
    names = [one.name for one in compared.images]
    terminal.show(table_of(("", *names, "the second against the first"), image_comparison.facts(compared)))
    if decisions := image_comparison.decisions(compared):
        print("", f"{decisions}.", sep="\n")
    if examples := compared.answers.examples:
        print("", "Rows that they decide differently:" if compared.answers.flips else "Rows whose answers differ most:", sep="\n")
        rows = [(str(one["number"]), ", ".join(one["row"].values()), one["label"], one["champion"], one["challenger"]) for one in examples]
        terminal.show(table_of(("row", ", ".join(examples[0]["row"]), "label", *names), rows))


def _write(path: Path, compared: ImageComparison) -> None:
    """Write the page. Raises BadInput if the file cannot be written."""
    from paddleship.pages import image_comparison_page
    from paddleship.shipped.computing.files import write_text

    try:
        write_text(path, image_comparison_page.of(compared))
    except OSError as error:
        raise BadInput(f"--html {str(path)!r} cannot be written ({error.strerror}): give another file") from None
    print(f"page: {path}")

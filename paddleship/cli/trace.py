"""`paddleship trace`."""

from __future__ import annotations

from pathlib import Path

import click

from paddleship.cli import options
from paddleship.errors import BadInput


@click.command()
@click.argument("name", metavar="IMAGE|CONTAINER")
@click.option("--sbom", "as_bill", is_flag=True, help="Print the image's bill of materials, in CycloneDX, instead.")
@options.JSON
def trace(name: str, as_bill: bool, as_json: bool) -> int:
    """Show the commit, data and params that an image or container was made from, and what it contains."""
    from paddleship.cli import image_lineage

    what, lineage = image_lineage.trace(name)
    if as_bill:
        print(image_lineage.bill(name), end="")
    elif as_json:
        print(lineage.model_dump_json(indent=1))
    else:
        store = _store_here()
        accepted = image_lineage.accepted(name, store=store)
        print(image_lineage.describe(what, lineage, accepted=accepted, store=store, contents=image_lineage.contents(name)))
    return 0


def _store_here() -> str | None:
    """The tracking URI of the checkout that holds this folder; None outside one, or before its first run."""
    from paddleship.execution.workspace import checkout_of
    from paddleship.servers.local_state import Local

    try:
        local = Local.of(checkout_of(Path.cwd()))
    except BadInput:
        return None
    return local.tracking_uri() if local.state.is_dir() else None

"""The artifact of a flow run: a single one with everything, because Prefect sorts several on the page of a run by their random ids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from paddleship.pages import html


def publish(key: str, *parts: str, description: str) -> None:
    """Make the artifact of this flow run from parts in Markdown, without the empty ones."""
    create_markdown_artifact(key=key, markdown="\n\n".join(filter(None, parts)), description=description)


def picture(path: Path) -> str:
    """A PNG file, inside the Markdown."""
    return f"![{path.stem}]({address(path)})"


def address(picture: Path) -> str:
    """An address that holds a PNG file itself."""
    return html.address(picture.read_bytes())


def links(addresses: Mapping[str, str | None]) -> str:
    """A list of links by their text, without those that have no address."""
    return "\n".join(f"* [{text}]({address})" for text, address in addresses.items() if address)

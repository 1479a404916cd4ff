"""The section `package`: the image."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paddleship.config.sections.section import Positive, Section
from paddleship.config.validation_errors import written_as


class Package(Section):
    repository: Annotated[
        str, written_as(r"[a-z0-9]+([._/-][a-z0-9]+)*", "lower-case letters and digits, with single . _ - / between them")
    ] = Field(description="name of the image, without a tag")
    base_image: str | None = Field(
        None, description="image that the image is built on; null: python:3.N-slim, of the Python that the candidate was proven with"
    )
    max_image_bytes: Positive = Field(2_000_000_000, description="gate: largest size of the image")

"""The section `package`: the image."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from paddleship.config.sections.section import Positive, Section
from paddleship.config.validation_errors import written_as
from paddleship.shipped.serving import transports
from paddleship.shipped.serving.transports import HTTP


class Package(Section):
    repository: Annotated[
        str, written_as(r"[a-z0-9]+([._/-][a-z0-9]+)*", "lower-case letters and digits, with single . _ - / between them")
    ] = Field(description="name of the image, without a tag")
    base_image: str | None = Field(
        None, description="image that the image is built on; null: python:3.N-slim, of the Python that the candidate was proven with"
    )
    transports: list[str] = Field([HTTP], description="protocols that the image serves: http, and others beside it, such as grpc")
    processes: int = Field(
        1, ge=1, le=64, description="server processes of a container, each with the model, that answer on the same ports"
    )
    unused_libraries: Literal["keep", "remove"] = Field(
        "keep",
        description="of a candidate on a GPU, the libraries that verify never saw in use: keep them in the image, or remove them, and with "
        "them every other model of GPU",
    )
    max_image_bytes: Positive = Field(2_000_000_000, description="gate: largest size of the image")

    @field_validator("transports")
    @classmethod
    def _known_transports(cls, names: list[str]) -> list[str]:
        known = [HTTP, *transports.names()]
        if strange := next((name for name in names if name not in known), None):
            raise ValueError(f"unknown transport {strange!r}: known ones are {', '.join(known)}")
        if HTTP not in names:
            raise ValueError(f"{HTTP} is missing: every image serves it, for health checks and metadata")
        return names

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the transports beside HTTP."""
        return {name: transports.get(name).PORT for name in self.transports if name != HTTP}

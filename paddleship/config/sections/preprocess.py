"""The section `preprocess`: how a raw row becomes the model's inputs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paddleship.config.sections.section import Positive, Section
from paddleship.shipped.computing.preprocess import UnicodeForm


class Preprocess(Section):
    kind: Literal["tensors", "characters"] = Field(
        "tensors", description="tensors: columns are the model's inputs; characters: text becomes ids, in the exported candidate too"
    )
    column: str = Field("text", description="characters: column of the text")
    input: str = Field("ids", description="characters: input of the model that takes the ids")
    unicode_form: UnicodeForm | None = Field("NFKC", description="Unicode normal form applied to text; null: none")
    vocabulary_size: Annotated[int, Field(ge=3)] = Field(
        4096, description="characters: number of ids, those for padding and unknown characters included"
    )
    max_length: Positive = Field(256, description="characters: text is cut to this length")
    multiple_of: Positive = Field(16, description="characters: rows are padded to a multiple of this length")

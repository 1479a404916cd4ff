"""The section `code`: the user's code."""

from __future__ import annotations

from pydantic import Field

from paddleship.config.sections.section import Section


class Code(Section):
    root: str = Field(".", description="folder added to the import path for your model and reader")
    watch: str = Field(description="file or folder of your code: when it changes, the stages run again")

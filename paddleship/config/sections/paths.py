"""The section `paths`: where the stages write."""

from __future__ import annotations

from pydantic import Field

from paddleship.config.sections.section import Section


class Paths(Section):
    prepared: str = Field("data/prepared", description="folder of the split data")
    checkpoint: str = Field("models/checkpoint", description="folder of the trained weights")
    exported: str = Field("models/exported", description="folder of the exported program")
    candidates: str = Field("models/candidates", description="folder of the candidates")
    parity: str = Field("models/parity", description="folder of the proofs")
    regression: str = Field("models/regression", description="folder of the worst inputs of earlier runs, which every run asks again")
    benchmark: str = Field("models/benchmark", description="folder of the measurements")
    image: str = Field("image.json", description="file that names the image")
    release: str = Field("release.json", description="file that names all that the image was made of")
    reports: str = Field("reports", description="folder of the reports of the stages")
    environment: str = Field("environment.json", description="file of library versions; a change makes the proof run again")
    weights_source: str = Field("weights_source.json", description="file that names imported weights; a change makes train run again")
    host: str = Field("host.json", description="file that describes this machine; on another one the benchmark runs again")

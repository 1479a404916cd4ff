"""The section `accept`: the test of the image."""

from __future__ import annotations

from pydantic import Field

from paddleship.config.sections.section import Positive, Seconds, Section


class Accept(Section):
    memory_bytes: Positive = Field(2_000_000_000, description="memory limit of the container")
    ready_timeout_s: Seconds = Field(60, description="time that the server has to become ready")
    max_cold_start_ms: Seconds = Field(30_000, description="gate: longest time from the start of the container to the first answer")
    load_requests: Positive = Field(500, description="requests of the load test")
    load_seconds: Seconds = Field(10, description="time limit of the load test with single rows")
    concurrency: Positive = Field(8, description="concurrent callers")

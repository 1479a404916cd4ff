"""The section `promote`: comparison with the champion, approval, and where the champion runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from paddleship.config.sections.section import Positive, Seconds, Section
from paddleship.config.validation_errors import whole, written_as


class Target(Section):
    kind: Literal["docker", "kubernetes"] = Field(description="kubernetes: a manifest is written, and applied if `context` is given")
    name: Annotated[
        str,
        written_as(r"[a-z]([a-z0-9-]*[a-z0-9])?", "lower-case letters, digits and hyphens, from a letter to a letter or digit"),
        Field(description="of the service; containers are named after it"),
    ]
    port: Annotated[int, Field(ge=1, le=65535, description="where clients send their requests")] = 8080
    grpc_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        None, description="docker: where clients send requests over gRPC, if `package.transports` is `[http, grpc]`; null: nowhere"
    )
    address: str = Field("127.0.0.1", description="docker: address of the host that the ports are open on")
    proxy_image: str = Field("haproxy:2.6", description="docker: HAProxy with bash; infra/proxy_image.sh makes one without a registry")
    drain_s: Seconds = Field(30, description="time that the old server has to answer what it was asked")
    sample: Annotated[str, written_as(r"/[^:]+", "an absolute path without a colon")] | None = Field(
        None, description="docker: folder of the host, writable for user 10001, that servers write the request sample to; null: none"
    )
    namespace: Annotated[
        str,
        written_as(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", "lower-case letters, digits and hyphens, with no hyphen at either end"),
        Field(description="kubernetes"),
    ] = "default"
    replicas: Positive = Field(2, description="kubernetes")
    manifest: str = Field("kubernetes.yaml", description="kubernetes: file that the manifest is written to")
    context: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="kubernetes: context of kubectl with which the manifest is applied; null: apply it yourself"
    )

    @model_validator(mode="after")
    def _sample_on_a_host(self) -> Target:
        if self.kind == "kubernetes" and self.sample is not None:
            raise whole(f"sample is for the target docker only (got {self.sample!r}): leave it out, and give the pods a volume")
        return self

    @model_validator(mode="after")
    def _grpc_on_a_host(self) -> Target:
        if self.kind == "kubernetes" and self.grpc_port is not None:
            raise whole(
                f"grpc_port is for the target docker only (got {self.grpc_port}): leave it out, and give port 8001 of the pods a Service"
            )
        if self.grpc_port == self.port:
            raise whole(f"port and grpc_port must differ (got {self.port} twice): choose another for one of them")
        return self

    @model_validator(mode="after")
    def _context_of_a_cluster(self) -> Target:
        if self.kind == "docker" and self.context is not None:
            raise whole(f"context is for the target kubernetes only (got {self.context!r}): leave it out")
        return self


class Promote(Section):
    rows: Positive = Field(1000, description="held-out rows, at most, that champion and challenger both answer")
    max_metric_drop: Annotated[float, Field(ge=0)] | None = Field(
        0.02, description="accuracy (or R²) that may be lost, at the unfavourable end of the 95% interval; null: any"
    )
    max_flip_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="share of decisions that may differ from the champion's, at the upper end of the 95% interval; null: any"
    )
    allow_slower: bool = Field(False, description="ship a challenger that is measurably slower over HTTP")
    latency_seconds: Seconds = Field(30, description="time limit of the requests that measure latency")
    compare: bool = Field(True, description="false: no comparison, for a challenger whose inputs the champion does not take")
    approval: Literal["none", "human"] = Field("none", description="human: the flow run waits until somebody approves it in Prefect")
    approval_hours: Annotated[float, Field(gt=0)] = Field(24, description="how long it waits")
    registry: (
        Annotated[str, written_as(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*", "HOST[:PORT][/PATH] in lower case, without https://")] | None
    ) = Field(None, description="HOST[:PORT][/PATH] that images are pushed to; null: they stay in this engine")
    verify_key: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="file with the public key, in PEM, that must have signed the image (`paddleship sign`); null: it need not be signed",
    )
    target: Target | None = Field(None, description="where the champion runs; null: promotion ends with the registry and the alias")
    ledger: str = Field(".paddleship/ledger.jsonl", description="file that records what was promoted when and why, and is only appended to")

    @model_validator(mode="after")
    def _registry_for_a_cluster(self) -> Promote:
        if self.target is not None and self.target.kind == "kubernetes" and self.registry is None:
            raise whole("registry must name one for the target kubernetes (got null): nodes pull the image from it")
        return self

    @model_validator(mode="after")
    def _registry_for_signatures(self) -> Promote:
        if self.verify_key is not None and self.registry is None:
            raise whole("registry must name one for verify_key (got null): it holds the signatures")
        return self

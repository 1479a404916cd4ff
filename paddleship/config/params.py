"""params.yaml: every value that a user may set, read once and checked once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from paddleship.config import credentials, rules, strict_yaml, task_names, validation_errors
from paddleship.config.graph_modes import NETWORKS, ModeName, NetworkName
from paddleship.config.task_names import TaskName
from paddleship.config.validation_errors import no_bool, whole, written_as
from paddleship.errors import ParamsError
from paddleship.reports.finding import KINDS
from paddleship.shipped.computing import arguments
from paddleship.shipped.computing.preprocess import UnicodeForm
from paddleship.shipped.computing.spec import Dimension, TensorSpec, batch_dimension

Fraction = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
MOST_HOURS = 168  # a week, which servers keep of a request sample
Reference = Annotated[
    str, written_as(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "module:function, such as network:build"), Field(description="module:function")
]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_bool_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        return no_bool(value, cls.model_fields[str(info.field_name)].annotation)


class Code(Section):
    root: str = Field(".", description="folder added to the import path for your model and reader")
    watch: str = Field(description="file or folder of your code: when it changes, the stages run again")


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
    host: str = Field("host.json", description="file that describes this machine; on another one the benchmark runs again")


class Data(Section):
    fetch: dict[str, str] = Field({}, description="name: script that downloads the raw data; empty if the data is already there")
    raw: str = Field(description="file or folder passed to the reader")
    reader: Reference
    kwargs: dict[str, Any] = Field({}, description="further arguments of the reader, by name")
    inputs: Annotated[list[str], Field(min_length=1, description="input columns; rows with equal values in all of them are repeats")]
    label: str = Field("label", description="column of the answers")
    task: TaskName = Field(description=task_names.DESCRIPTION)
    classes: list[str] = Field([], description="names of the classes in the order of their ids")
    validation: Fraction = Field(0.1, description="share of the rows that chooses the best epoch")
    test: Fraction = Field(0.1, description="share of the rows that the score is measured on")
    unusable_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.02, description="share of raw rows that may lack a value, or contradict another row's label, before there is a warning"
    )
    near_repeat_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.02, description="share of held-out rows that may nearly repeat a training row before there is a warning"
    )

    @model_validator(mode="after")
    def _rows_to_train_on(self) -> Data:
        if self.validation + self.test >= 1:
            raise whole(
                f"validation and test must leave rows to train on (got {self.validation:g} and {self.test:g}): reduce their sum below 1"
            )
        return self

    @model_validator(mode="after")
    def _columns_once(self) -> Data:
        _once(self.inputs, "inputs")
        _once(self.classes, "classes")
        return self


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


class Input(Section):
    name: str = Field(description="name of the argument of forward, or of its element")
    dtype: Literal["float32", "float64", "int32", "int64", "bool"] = Field(description="element type of the tensor")
    shape: list[int | str] = Field(description="sizes of the dimensions; a dynamic one has a name, such as 'batch'")
    low: float | str | None = Field(None, description="smallest valid value, or the dimension whose size in the same row is the smallest")
    high: float | str | None = Field(None, description="largest valid value, or a dimension, as in 'length' or 'length - 1'")
    pad: float = Field(0, description="value that pads rows of different sizes")

    @field_validator("low", "high", mode="before")
    @classmethod
    def _numbers_first(cls, value: Any) -> Any:
        """Convert a number that YAML reads as text, such as 1e-3."""
        try:
            return float(value) if isinstance(value, str) else value
        except ValueError:
            return value

    @model_validator(mode="after")
    def _range_in_order(self) -> Input:
        if isinstance(self.low, float) and isinstance(self.high, float) and self.low > self.high:
            raise whole(f"low must be at most high (got {self.low:g} and {self.high:g}): swap or correct them")
        return self

    def spec(self) -> TensorSpec:
        return TensorSpec(self.name, self.dtype, tuple(self.shape), self.low, self.high, self.pad)


class Size(Section):
    """The sizes that one row may have in a dynamic dimension; a limit that is left out comes from the data."""

    low: Positive | None = Field(None, description="smallest size; null: from the data")
    high: Positive | None = Field(None, description="largest size; null: from the data")
    multiple_of: Positive = Field(1, description="sizes are multiples of it")

    @model_validator(mode="after")
    def _any_size(self) -> Size:
        rule = self.rule("")
        if self.high is not None and rule.smallest > self.high:
            raise whole(f"no size satisfies the rule (got {rule}): lower low or multiple_of, or raise high")
        return self

    def rule(self, name: str) -> Dimension:
        return Dimension(name, self.low or 1, self.high, self.multiple_of)


class Model(Section):
    factory: Reference
    kwargs: dict[str, Any] = Field({}, description="arguments of the factory, by name")
    inputs: Annotated[list[Input], Field(min_length=1)] = Field(description="inputs of the model, in the order of forward's arguments")
    absent: list[str] = Field([], description="arguments of forward, or elements of them, that are None")
    dimensions: dict[str, Size] = Field({}, description="sizes that a dynamic dimension may have")

    @property
    def rules(self) -> tuple[Dimension, ...]:
        return tuple(size.rule(name) for name, size in self.dimensions.items())

    @model_validator(mode="after")
    def _names_once(self) -> Model:
        names = [item.name for item in self.inputs]
        _once([*names, *self.absent], "inputs")
        arguments.declared(names, self.absent)
        return self

    @model_validator(mode="after")
    def _rules_of_dimensions(self) -> Model:
        if fault := rules.fault([item.spec() for item in self.inputs], self.rules):
            raise whole(fault)
        return self


class Train(Section):
    epochs: Positive = Field(10, description="most passes over the training rows")
    batch_size: Positive = Field(64, description="rows of a training step")
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="step size of the optimizer")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="weight decay of the optimizer; 0: none")
    patience: Positive = Field(3, description="epochs without a better validation loss before training stops")
    min_score: Annotated[float, Field(le=1)] | None = Field(None, description="gate: least validation accuracy (R² for a regression)")
    loss: Reference | None = Field(None, description="loss(outputs, labels); default by data.task")


class Export(Section):
    skip: list[str] = Field([], description="paths of sublayers whose code Paddle does not convert (`not_to_static`)")
    buckets: dict[str, Annotated[list[Positive], Field(min_length=1)]] = Field(
        {}, description="sizes to export for a dimension that cannot stay dynamic; default: from the data"
    )


class Optimize(Section):
    candidates: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="candidates by name; null: all that are installed and run on this machine"
    )
    threads: Positive = Field(1, description="most threads of a candidate; tuning may choose fewer")
    calibration_rows: Positive = Field(128, description="training rows that calibrate the int8 candidates")
    tune_seconds: Annotated[float, Field(ge=0)] = Field(
        2, description="of measuring settings, for each candidate, loading not counted; 0: keep the defaults"
    )
    timeout_s: Seconds = Field(300, description="time limit of making one candidate")


class Verify(Section):
    samples: Positive = Field(256, description="held-out rows whose answers are compared")
    max_batch: Positive = Field(32, description="largest number of rows of one request")
    noise_limit: Annotated[float, Field(gt=0)] = Field(
        8, description="largest error of a float32 candidate, in units of eager float32's own error"
    )
    typical_limit: Annotated[float, Field(gt=0)] = Field(3, description="the same for the root mean square error")
    invariance_limit: Annotated[float, Field(gt=0)] = Field(
        2, description="largest change when rows are asked again or by several callers, and of the exported program on eager's kernels"
    )
    max_flip_rate: Annotated[float, Field(ge=0, le=1)] = Field(0.02, description="share of decisions that a lower precision may change")
    max_metric_drop: Annotated[float, Field(ge=0)] = Field(0.01, description="accuracy (or R²) that a lower precision may lose")
    fail_on: list[str] = Field([], description="kinds of findings (paddleship/reports/finding.py) that fail a stage")
    require_branch_coverage: bool = Field(False, description="fail if no input takes a side of a data-dependent if or loop")
    layers: bool = Field(False, description="plot the error of every layer also for candidates that passed")
    training: bool = Field(False, description="also compare a few steps of training, eager and to_static")
    training_steps: Positive = Field(8, description="training steps that are compared, with training")
    threads: Positive = Field(4, description="concurrent callers of a candidate")
    timeout_s: Seconds = Field(300, description="time limit of loading a model, and of each call of its process")

    @field_validator("fail_on")
    @classmethod
    def _known_kinds(cls, kinds: list[str]) -> list[str]:
        if strange := next((kind for kind in kinds if kind not in KINDS), None):
            near = difflib.get_close_matches(strange, KINDS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known kinds are {', '.join(KINDS)}"
            raise ValueError(f"unknown kind of finding {strange!r} ({hint})")
        return kinds


class Benchmark(Section):
    batch_sizes: Annotated[
        list[Positive], Field(min_length=1, description="latency is judged at the first size; all sizes make the curve")
    ] = [
        1,
        2,
        4,
        8,
        16,
        32,
    ]
    concurrency: list[Positive] = Field([1, 2], description="numbers of processes that answer at the same time, as far as there are cores")
    starts: Positive = Field(3, description="starts of every participant, because processes of one program differ")
    blocks: Annotated[int, Field(ge=4, description="interleaved blocks of each participant, over all starts")] = 24
    samples_per_block: Positive = Field(96, description="most measurements of a participant in a block")
    effect: Fraction = Field(0.05, description="smallest difference that is called better or worse")
    knee_gain: Fraction = Field(0.1, description="share of throughput that the next batch size must gain to be worth its latency")
    warmup_s: Seconds = Field(1, description="time limit of the warm-up of one batch size")
    max_growth_bytes: Positive = Field(1_000_000, description="memory growth per 1,000 requests above which a participant leaks")
    scenario_seconds: Seconds = Field(5, description="time limit of each MLPerf scenario, run on eager and the winner")
    slo_p99_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="p99 objective of the Server scenario; null: no search for the highest load that meets it"
    )
    max_seconds: Seconds = Field(60, description="time limit from the second start of the participants on; the first start has no limit")
    timeout_s: Seconds = Field(300, description="time limit of loading a participant, and of each call of its process")
    max_busy_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.6, description="of the machine's processor time that others may take; beyond it the figures are reported as not valid"
    )
    host: Literal["here", "any"] = Field(
        "here", description="here: measure on this machine; any: accept a measurement of another machine, named in the result"
    )

    @model_validator(mode="after")
    def _blocks_for_all_starts(self) -> Benchmark:
        if self.blocks < self.starts:
            raise whole(f"blocks (got {self.blocks}) must be at least starts (got {self.starts}): each start measures one block or more")
        return self


class Select(Section):
    objective: Literal["p50_ms", "p99_ms", "throughput_per_s", "cost_per_million", "image_bytes"] = Field(
        "p99_ms", description="measure by which the winner is chosen"
    )
    price_per_core_hour: Annotated[float, Field(gt=0)] = Field(0.04, description="in any currency; cost_per_million is in the same one")
    slo_p99_ms: Annotated[float, Field(gt=0)] | None = Field(None, description="a candidate above it cannot be chosen")
    max_memory_bytes: Positive | None = Field(None, description="a candidate whose peak memory is above it cannot be chosen; null: any")
    max_flip_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="at the upper end of its 95% interval")
    candidate: str | None = Field(None, description="ship this one instead of the winner")


class Package(Section):
    repository: Annotated[
        str, written_as(r"[a-z0-9]+([._/-][a-z0-9]+)*", "lower-case letters and digits, with single . _ - / between them")
    ] = Field(description="name of the image, without a tag")
    base_image: str = Field("python:3.11-slim", description="image that the image is built on")
    max_image_bytes: Positive = Field(2_000_000_000, description="gate: largest size of the image")


class Accept(Section):
    memory_bytes: Positive = Field(2_000_000_000, description="memory limit of the container")
    ready_timeout_s: Seconds = Field(60, description="time that the server has to become ready")
    max_cold_start_ms: Seconds = Field(30_000, description="gate: longest time from the start of the container to the first answer")
    load_requests: Positive = Field(500, description="requests of the load test")
    load_seconds: Seconds = Field(10, description="time limit of the load test with single rows")
    concurrency: Positive = Field(8, description="concurrent callers")


class Target(Section):
    kind: Literal["docker", "kubernetes"] = Field(description="kubernetes: a manifest is written, and applied if `context` is given")
    name: Annotated[
        str,
        written_as(r"[a-z]([a-z0-9-]*[a-z0-9])?", "lower-case letters, digits and hyphens, from a letter to a letter or digit"),
        Field(description="of the service; containers are named after it"),
    ]
    port: Annotated[int, Field(ge=1, le=65535, description="where clients send their requests")] = 8080
    address: str = Field("127.0.0.1", description="docker: address of the host that the port is open on")
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
    target: Target | None = Field(None, description="where the champion runs; null: promotion ends with the registry and the alias")
    ledger: str = Field(".paddleship/ledger.jsonl", description="file that records what was promoted when and why, and is only appended to")

    @model_validator(mode="after")
    def _registry_for_a_cluster(self) -> Promote:
        if self.target is not None and self.target.kind == "kubernetes" and self.registry is None:
            raise whole("registry must name one for the target kubernetes (got null): nodes pull the image from it")
        return self


class Range(Section):
    """The numbers from `low` to `high`; whole ones if both ends are whole."""

    low: int | float = Field(description="smallest number")
    high: int | float = Field(description="largest number")
    log: bool = Field(False, description="draw evenly on a logarithmic scale")

    @model_validator(mode="after")
    def _range_in_order(self) -> Range:
        if self.low >= self.high:
            raise whole(f"low must be below high (got {self.low:g} and {self.high:g}): swap or correct them")
        if self.log and self.low <= 0:
            raise whole(f"low must be above 0 with log (got {self.low:g}): raise it, or leave log out")
        return self


_Choices = Annotated[list[Any], Field(min_length=1)]
_Values = Annotated[
    Annotated[Range, Tag("range")] | Annotated[_Choices, Tag("list")],
    Discriminator(lambda value: "range" if isinstance(value, Mapping | Range) else "list"),
]


class Sweep(Section):
    """The variants of the params that `paddleship sweep` runs, and the rule by which it chooses one."""

    space: dict[str, _Values] = Field(
        {},
        description="param by its path, such as train.learning_rate: a list of values, or {low, high, log} for the numbers between",
    )
    method: Literal["grid", "random", "optuna"] = Field(
        "grid", description="grid: all combinations of lists; random; optuna: at random first, then near the best variants (TPE)"
    )
    trials: Positive = Field(16, description="most variants")
    parallel: Positive = Field(2, description="variants that run at the same time")
    until: Literal["benchmark", "package", "accept"] = Field(
        "benchmark", description="the last stage of every variant; accept registers the best one as challenger"
    )
    choose: Literal["score", "latency", "size"] = Field(
        "score", description="the best variant has the best of this; where that cannot be told, of the others"
    )
    min_score: Annotated[float, Field(le=1)] | None = Field(
        None, description="a variant below this test accuracy (R² for a regression) cannot be chosen"
    )
    max_p50_ms: Annotated[float, Field(gt=0)] | None = Field(None, description="a variant above it cannot be chosen")
    max_size_bytes: Positive | None = Field(
        None, description="a variant above it cannot be chosen: of the winner's files, or of the image where package ran"
    )

    @model_validator(mode="after")
    def _lists_for_a_grid(self) -> Sweep:
        ranges = [path for path, values in self.space.items() if isinstance(values, Range)]
        if self.method == "grid" and ranges:
            raise whole(f"space of a grid must hold lists (got a range for {ranges[0]}): write a list of values, or take method random")
        for path, values in self.space.items():
            written = [json.dumps(value, sort_keys=True, default=str) for value in values] if isinstance(values, list) else []
            if twice := next((value for value in written if written.count(value) > 1), None):
                raise whole(f"space must list every value of {path} once (got {twice} {written.count(twice)} times): remove one")
        return self


class Drift(Section):
    """When `paddleship drift` says that a feature of the requests is distributed differently from the training rows."""

    sample: str | None = Field(None, description="folder that servers write their request samples to (--sample)")
    hours: Annotated[int, Field(ge=1, le=MOST_HOURS)] = Field(24, description="how many of the last hours count")
    min_rows: Annotated[int, Field(ge=100)] = Field(500, description="requests below which the verdict is: cannot tell")
    min_distance: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="smallest Jensen-Shannon distance (0 … 1) of a feature's distributions that is called drift"
    )
    false_alarm_rate: Annotated[float, Field(gt=0, le=0.1)] = Field(
        0.001, description="expected share of false alarms among the features that are called drifted"
    )


Channel = Literal["email", "slack", "webhook"]
Occasion = Literal["failed", "gate-missed", "drift", "promoted"]


class Notify(Section):
    """Which channels the Prefect server sends a notification to, and on what. Their addresses are in the environment."""

    channels: list[Channel] = Field([], description="email, slack, webhook; [] for none")
    occasions: Annotated[list[Occasion], Field(min_length=1)] = Field(
        ["failed", "gate-missed", "drift", "promoted"], description="failed, gate-missed, drift, promoted"
    )


class GraphModes(Section):
    networks: Annotated[list[NetworkName], Field(min_length=1)] = Field(list(NETWORKS), description="networks that are measured")
    modes: Annotated[list[ModeName], Field(min_length=1)] | None = Field(None, description="null: all of them")
    full: bool = Field(False, description="sizes for GPUs; the others are for two cores")
    rounds: Annotated[int, Field(ge=2)] = Field(10, description="interleaved blocks of each mode, over all starts")
    starts: Positive = Field(2, description="times that every mode is started anew, because processes differ")
    threads: Positive = Field(
        2, description="threads and cores of every mode; with one core, Paddle's executor is slowed down by its own threads"
    )
    torch_site: str | None = Field(None, description="site-packages folder of PyTorch where it is not installed beside Paddle")
    noise_limit: Annotated[float, Field(gt=0)] = Field(
        8, description="largest error of answers and first losses, in units of eager float32's own error"
    )
    timeout_s: Seconds = Field(600, description="time limit of one mode of one network, compilation included")


class Params(Section):
    """The whole of params.yaml: a section for each stage, for what stages share, and for each command beside them."""

    name: Annotated[
        str,
        written_as(r"[a-z][a-z0-9-]*", "lower-case letters, digits and hyphens, beginning with a letter"),
        Field(description="name of the model, the image and the MLflow experiment"),
    ]
    seed: int = Field(0, description="of the split, the weights and the order of rows")
    code: Code = Field(description="your code")
    paths: Paths = Field(Paths(), description="where the stages write, inside the checkout")
    data: Data = Field(description="the data, and how it is read and split")
    preprocess: Preprocess = Field(Preprocess(), description="how a raw row becomes the model's inputs")
    model: Model = Field(description="your model and its inputs")
    train: Train = Field(Train(), description="the stage train")
    export: Export = Field(Export(), description="the stage export")
    optimize: Optimize = Field(Optimize(), description="the stage optimize")
    verify: Verify = Field(Verify(), description="the stage verify")
    benchmark: Benchmark = Field(Benchmark(), description="the stage benchmark")
    select: Select = Field(Select(), description="how the winner of the benchmark is chosen")
    package: Package = Field(description="the stage package")
    accept: Accept = Field(Accept(), description="the stage accept")
    promote: Promote = Field(Promote(), description="paddleship promote and rollback; no stage reads it")
    sweep: Sweep = Field(Sweep(), description="paddleship sweep; no stage reads it")
    drift: Drift = Field(Drift(), description="paddleship drift; no stage reads it")
    notify: Notify = Field(Notify(), description="notifications of the Prefect server; no stage reads it")
    graph_modes: GraphModes = Field(GraphModes(), description="the flow compare-graph-modes; no stage reads it")

    def flat(self) -> dict[str, Any]:
        """Every value as `section.key`, and every one of a mapping there as `section.key.name`; the types are those of JSON."""
        return _unfolded(_unfolded(self.model_dump(mode="json")))

    @model_validator(mode="after")
    def _batch_first(self) -> Params:
        firsts = [item.shape[0] if item.shape else None for item in self.model.inputs]
        batch = batch_dimension([item.spec() for item in self.model.inputs])
        if batch is None or set(firsts) != {batch}:
            raise whole(f"the first dimension of every input must be the same dynamic dimension, such as 'batch' (got {firsts})")
        return self

    @model_validator(mode="after")
    def _buckets_of_dimensions(self) -> Params:
        known = list(dict.fromkeys(size for item in self.model.inputs for size in item.shape if isinstance(size, str)))
        if strange := [name for name in self.export.buckets if name not in known]:
            raise whole(f"export.buckets must name dynamic dimensions of model.inputs (got {strange[0]!r}): they have {', '.join(known)}")
        return self

    @model_validator(mode="after")
    def _text_sets_its_sizes(self) -> Params:
        if self.preprocess.kind == "characters" and self.model.dimensions:
            raise whole(
                f"model.dimensions must be empty for text (got {', '.join(self.model.dimensions)}): "
                "preprocess.max_length and preprocess.multiple_of are its sizes"
            )
        return self


def _unfolded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with those of each mapping under keys of their own; an empty mapping stays."""
    found: dict[str, Any] = {}
    for key, item in values.items():
        found |= {f"{key}.{name}": inner for name, inner in item.items()} if isinstance(item, dict) and item else {key: item}
    return found


def _once(names: Sequence[str], key: str) -> None:
    if twice := [name for name in names if names.count(name) > 1]:
        raise whole(f"{key} must have different names (got {twice[0]!r} {names.count(twice[0])} times): rename or remove one")


def overrides(candidates: Sequence[str]) -> type[Section]:
    """The params with every key optional, for values laid over params.yaml; Prefect's form offers these candidates."""
    kind: Any = Literal[tuple(candidates)]
    field = Optimize.model_fields["candidates"]
    chosen: Any = (Annotated[list[kind], Field(min_length=1)] | None, Field(None, description=field.description))
    optimize: Any = create_model("Optimize", __base__=Optimize, candidates=chosen)
    section: Any = (optimize, Field(optimize(), description=Params.model_fields["optimize"].description))
    return optional(create_model("Params", __base__=Params, optimize=section))


def optional(model: type[Section]) -> type[Section]:
    """The section with every key optional."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            kind = optional(kind)
        elif field.metadata:
            kind = Annotated[(kind, *field.metadata)]
        fields[name] = (kind | None, Field(None, description=field.description))
    return create_model(f"{model.__name__}Overrides", __base__=Section, **fields)


def load(path: Path) -> Params:
    """Read and check a params file. Raises ParamsError, with all faults in one message."""
    return parse(read(path), origin=str(path))


def read(path: Path) -> dict[str, Any]:
    """The values of a params file, or of a file that is laid over it, before they are checked. Raises ParamsError."""
    if not path.exists():
        raise ParamsError(f"params file {str(path)!r} does not exist: give an existing file, or run in the folder that holds params.yaml")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ParamsError(f"params file {str(path)!r} cannot be read ({error.strerror}): give a readable file") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path} is not YAML ({error}): save it as UTF-8") from None
    return read_text(text, origin=str(path))


def read_text(text: str, *, origin: str) -> dict[str, Any]:
    """The values in the text of a params file, before they are checked; error messages name `origin`. Raises ParamsError."""
    try:
        values = strict_yaml.load(text)
    except yaml.YAMLError as error:
        raise ParamsError(f"{origin} is not YAML ({_reason(error)}): fix that line") from None
    return _sections(values, origin)


def _reason(error: yaml.YAMLError) -> str:
    """The line and what is wrong there, and where the part of the file that it is in began."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    line, began = error.problem_mark.line, error.context_mark
    inside = f", {error.context} that began in line {began.line + 1}" if began and began.line != line else ""
    return f"line {line + 1}: {error.problem}{inside}"


def parse(values: Any, *, origin: str = "params.yaml") -> Params:
    """Check values that were read before; error messages name `origin`. Raises ParamsError."""
    credentials.require_none(_sections(values, origin), origin=origin)
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        faults = [validation_errors.explain(dict(fault), Params) for fault in error.errors()]
        raise ParamsError(f"{origin}: " + "; ".join(faults)) from None


def _sections(values: Any, origin: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        found = "nothing" if values is None else type(values).__name__
        raise ParamsError(f"{origin} must hold a mapping of sections (got {found}): start from params.yaml of the repository")
    return values


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any], model: type[BaseModel] = Params) -> dict[str, Any]:
    """`base` with the values of `overlay`: sections merge key by key, everything else (kwargs, lists) is replaced."""
    merged = dict(base)
    for key, value in overlay.items():
        field = model.model_fields.get(key)
        section = field.annotation if field else None
        if isinstance(section, type) and issubclass(section, Section) and isinstance(value, Mapping):
            merged[key] = merge(merged.get(key) or {}, value, section)
        else:
            merged[key] = value
    return merged

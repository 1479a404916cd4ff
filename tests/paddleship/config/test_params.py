from pathlib import Path

import pytest
import yaml

from paddleship.config import loading, params
from paddleship.config.sections.section import Section
from paddleship.errors import ParamsError

REPOSITORY = Path(__file__).parents[3]
BASE = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
X = {"name": "x", "dtype": "float32", "shape": ["batch"]}


def test_the_repository_params_are_valid():
    assert loading.load(REPOSITORY / "params.yaml").name == "reviews"


@pytest.mark.parametrize("overlay", sorted(REPOSITORY.glob("examples/*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_example_overlay_is_valid(overlay, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    read = loading.parse(loading.merge(BASE, yaml.safe_load(overlay.read_text())))
    assert read.name == overlay.parent.name or overlay.name != "params.yaml"
    assert read.data.class_names is not None


X_SEQ = {"name": "x", "dtype": "float32", "shape": ["batch", "length", 2]}
STEPS = {"name": "steps", "dtype": "int64", "shape": ["batch"], "low": 1, "high": "length"}


def rules(inputs, **dimensions):
    return {"preprocess": {"kind": "tensors"}, "model": {"inputs": inputs, "dimensions": dimensions}}


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ({"trian": {}}, "unknown key 'trian' (did you mean 'train'?)"),
        ({"train": {"epoch": 3}}, "unknown key 'train.epoch' (did you mean 'epochs'?)"),
        ({"train": {"zzz": 3}}, "known keys are"),
        ({"train": {"epochs": "three"}}, "train.epochs: must be a whole number"),
        ({"package": {"transports": ["http", "gprc"]}}, "package.transports: unknown transport 'gprc': known ones are http, grpc"),
        ({"package": {"transports": ["grpc"]}}, "package.transports: http is missing: every image serves it"),
        ({"train": {"epochs": 0}}, "train.epochs: must be greater than or equal to 1 (got 0)"),
        ({"train": {"learning_rate": -1}}, "train.learning_rate: must be greater than 0 (got -1)"),
        (
            {"data": {"reader": "nowhere"}},
            "data.reader: must be csv, jsonl, parquet, pictures or module:function, such as my_data:read (got 'nowhere')",
        ),
        (
            {"data": {"label": None}},
            "train.source needs labels, and data.label is null (got loop): take weights from a file, or name the column",
        ),
        (
            {"data": {"label": None}, "train": {"source": {"own": "m:train"}}},
            "train.source needs labels, and data.label is null (got m:train)",
        ),
        ({"data": {"label": None}, "train": {"source": {"checkpoint": "a"}, "min_score": 0.5}}, "train.min_score needs labels"),
        (
            {"data": {"label": None}, "train": {"source": {"checkpoint": "a"}, "min_score": None}, "verify": {"training": True}},
            "verify.training needs labels, and data.label is null (got True)",
        ),
        ({"data": {"label": None, "task": "tagging"}}, "data.task needs labels, and data.label is null (got tagging)"),
        ({"train": {"min_score": 75}}, "train.min_score: must be less than or equal to 1 (got 75)"),
        ({"train": {"epochs": "many"}}, "train.epochs: must be a whole number (got 'many')"),
        ({"train": {"epochs": 1.5}}, "train.epochs: must be a whole number (got 1.5)"),
        ({"train": {"learning_rate": "fast"}}, "train.learning_rate: must be a number (got 'fast')"),
        ({"train": None}, "train: must be a mapping of keys to values (got null)"),
        ({"data": {"inputs": "text"}}, "data.inputs: must be a list, such as [a, b] (got 'text')"),
        ({"verify": {"require_branch_coverage": "maybe"}}, "verify.require_branch_coverage: must be true or false (got 'maybe')"),
        ({"train": {"epochs": True}}, "train.epochs: must be a whole number (got true)"),
        ({"train": {"learning_rate": False}}, "train.learning_rate: must be a number (got false)"),
        ({"train": {"min_score": True}}, "train.min_score: must be a number (got true)"),
        ({"data": {"task": "classification", "classes": ["a", "b", "a"]}}, "classes must have different names (got 'a' 2 times)"),
        ({"code": {"root": 3}}, "code.root: must be text (got 3)"),
        ({"model": {"inputs": [{"name": "x", "dtype": "float32", "shape": [1, 2]}]}}, "(got [1])"),
        ({"model": {"inputs": [{"name": "x", "dtpe": "float32", "shape": ["batch"]}]}}, "(did you mean 'dtype'?)"),
        ({"optimize": {"timeout_s": float("inf")}}, "optimize.timeout_s: must be a finite number (got inf)"),
        ({"train": {"min_score": float("nan")}}, "train.min_score: must be a finite number (got nan)"),
        ({"verify": {"max_flip_rate": 2}}, "verify.max_flip_rate: must be less than or equal to 1 (got 2)"),
        (
            {"verify": {"fail_on": ["batch-dependant"]}},
            "'batch-dependant' (did you mean 'batch-dependent'?)",
        ),
        ({"name": "Two Words"}, "name: must be lower-case letters, digits and hyphens, beginning with a letter (got 'Two Words')"),
        ({"name": "one\n"}, "name: must be lower-case"),
        ({"package": {"repository": "a//b"}}, "package.repository: must be lower-case letters and digits, with single . _ - / between"),
        ({"promote": {"registry": "https://host"}}, "promote.registry: must be HOST[:PORT][/PATH] in lower case, without https://"),
        ({"promote": {"target": {"kind": "docker"}}}, "promote.target.name is missing: add it"),
        ({"promote": {"target": {"kind": "docker", "name": "x", "prt": 1}}}, "unknown key 'promote.target.prt' (did you mean 'port'?)"),
        (
            {"promote": {"target": {"kind": "kubernetes", "name": "x", "port": 80, "sample": "/sample"}}},
            "promote.target: sample is for the target docker only (got '/sample')",
        ),
        (
            {"promote": {"target": {"kind": "kubernetes", "name": "x", "port": 80, "grpc_port": 81}}},
            "promote.target: grpc_port is for the target docker only (got 81): leave it out",
        ),
        (
            {"promote": {"target": {"kind": "docker", "name": "x", "port": 8080, "grpc_port": 8080}}},
            "promote.target: port and grpc_port must differ (got 8080 twice)",
        ),
        (
            {"promote": {"target": {"kind": "docker", "name": "x", "grpc_port": 8081}}},
            "promote.target.grpc_port needs images that serve gRPC (package.transports is ['http']): add grpc there",
        ),
        (
            {"promote": {"target": {"kind": "kubernetes", "name": "x"}}},
            "promote: registry must name one for the target kubernetes (got null)",
        ),
        ({"promote": {"registry": "http://host"}}, "promote.registry"),
        ({"data": {"validation": 0.6, "test": 0.5}}, "data: validation and test must leave rows to train on (got 0.6 and 0.5): reduce"),
        ({"data": {"inputs": ["text", "text"]}}, "inputs must have different names (got 'text' 2 times)"),
        ({"model": {"inputs": [{**X, "low": 6, "high": 0}]}}, "model.inputs.0: low must be at most high (got 6 and 0)"),
        ({"model": {"inputs": [X, X]}}, "model: inputs must have different names (got 'x' 2 times): rename or remove one"),
        (
            {"model": {"dimensions": {"length": {"high": 4}}}},
            "model.dimensions must leave out the dimensions of 'ids' (got length): preprocess.max_length and preprocess.multiple_of",
        ),
        (rules([X_SEQ], size={}), "(got 'size'): the inputs have length"),
        (rules([X_SEQ], batch={"high": 4}), "(got 'batch'): the inputs have length"),
        (rules([X_SEQ], length={"low": 33, "high": 63, "multiple_of": 32}), "(got 33 … 63 in multiples of 32)"),
        (
            rules([X_SEQ, {**STEPS, "high": "lenght"}]),
            "high of input 'steps' must name a dynamic dimension other than the batch (got 'lenght')",
        ),
        (
            rules([X_SEQ, {**STEPS, "low": "2 * length"}]),
            "must be a number or a dimension (got '2 * length'): write 5, 'length' or 'length - 1'",
        ),
        (
            rules([X_SEQ, {**STEPS, "low": 5}], length={"low": 2, "high": 9}),
            "input 'steps' has no valid value where length is 2 (got low 5.0 and high length): change one of them",
        ),
        (
            {"export": {"buckets": {"foo": [1, 2]}}},
            "export.buckets must name dynamic dimensions of model.inputs (got 'foo')",
        ),
    ],
)
def test_a_fault_is_named_with_path_value_and_reason(overlay, words):
    with pytest.raises(ParamsError) as caught:
        loading.parse(loading.merge(BASE, overlay))
    assert words in str(caught.value)


def test_all_faults_are_named_at_once():
    with pytest.raises(ParamsError, match=r"train\.epochs.*verify\.samples"):
        loading.parse(loading.merge(BASE, {"train": {"epochs": 0}, "verify": {"samples": 0}}))


def absent(model, values, path=""):
    """Keys of a model that the values do not have."""
    for key, field in model.model_fields.items():
        if key not in values:
            yield path + key
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from absent(field.annotation, values[key], f"{path}{key}.")


def test_the_repository_params_have_every_key_so_that_dvc_can_override_it():
    """`dvc exp run -S KEY=VALUE` refuses a key that is not in the file."""
    assert list(absent(params.Params, yaml.safe_load((REPOSITORY / "params.yaml").read_text()))) == []


def test_a_missing_file_says_where_to_look(tmp_path):
    with pytest.raises(ParamsError, match="does not exist"):
        loading.load(tmp_path / "params.yaml")


def test_a_broken_file_names_the_line(tmp_path):
    (tmp_path / "params.yaml").write_text("train: [1, 2\nname: x")
    with pytest.raises(ParamsError, match=r"params\.yaml is not YAML \(line 2: [^\n]+ that began in line 1\): fix that line"):
        loading.load(tmp_path / "params.yaml")


def test_a_key_that_is_given_twice_is_refused_and_one_that_replaces_a_merged_one_is_not():
    with pytest.raises(ParamsError, match=r"mine\.yaml is not YAML \(line 3: 'epochs' is given twice\): fix that line"):
        loading.read_text("train:\n  epochs: 1\n  epochs: 2\n", origin="mine.yaml")
    text = "base: &base {epochs: 1}\nlist:\n- train: &mine {<<: *base, epochs: 2}\nother: {<<: *mine, epochs: 3}\n"
    assert loading.read_text(text, origin="mine.yaml")["other"] == {"epochs": 3}


def test_what_cannot_be_read_as_text_is_named(tmp_path):
    (tmp_path / "params.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ParamsError, match=r"params\.yaml is not YAML \('utf-8' codec can't decode .+\): save it as UTF-8"):
        loading.load(tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match="cannot be read \\(Is a directory\\)"):
        loading.load(tmp_path)


def test_a_file_that_holds_a_list_is_refused(tmp_path):
    (tmp_path / "params.yaml").write_text("- 1")
    with pytest.raises(ParamsError, match="must hold a mapping"):
        loading.load(tmp_path / "params.yaml")


def test_merge_goes_into_sections_and_replaces_kwargs_and_lists():
    merged = loading.merge(BASE, {"model": {"kwargs": {"features": 2}}, "train": {"epochs": 1}, "data": {"inputs": ["x"]}})
    assert merged["model"]["kwargs"] == {"features": 2}
    assert merged["data"]["inputs"] == ["x"]
    assert merged["train"]["epochs"] == 1
    assert merged["train"]["batch_size"] == BASE["train"]["batch_size"]
    assert BASE["train"]["epochs"] != 1


def test_a_value_may_be_bound_by_a_dimension_and_a_dimension_by_its_sizes():
    overlay = rules([X_SEQ, STEPS, {**STEPS, "name": "last", "low": 0, "high": "length - 1"}], length={"low": 32, "multiple_of": 32})
    model = loading.parse(loading.merge(BASE, overlay)).model
    steps, last = (item.spec() for item in model.inputs[1:])
    assert steps.limits({"length": 7}) == (1, 7)
    assert last.limits({"length": 7}) == (0, 6)
    assert [str(rule) for rule in model.rules] == ["32 or more in multiples of 32"]


def test_a_number_that_yaml_takes_for_text_is_a_number():
    overlay = rules([{**X_SEQ, "low": "1e-3", "high": "2"}])
    item = loading.parse(loading.merge(BASE, overlay)).model.inputs[0]
    assert (item.low, item.high) == (0.001, 2.0)


def test_the_values_of_mappings_have_keys_of_their_own():
    target = {"kind": "docker", "name": "reviews"}
    flat = loading.parse(loading.merge(BASE, {"promote": {"target": target}})).flat()
    assert (flat["promote.target.name"], flat["model.kwargs.width"], flat["data.task"]) == ("reviews", 16, "classification")
    assert flat["model.dimensions"] == {}
    assert loading.parse(BASE).flat()["promote.target"] is None

"""Control flow: what export put into the program, what it decided itself, and the outcomes with the inputs."""

import sys
import textwrap

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.controlflow import branches, regions, resolved_conditions, tracing
from paddleship.conversion import exporting
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.system import isolate

# Paddle says this of every early return
pytestmark = pytest.mark.filterwarnings("ignore:Return results from different branches in cond")

HEAD = """
import functools

import numpy as np
import paddle
from paddle import nn

def doubling(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments) * 2
    return wrapper

@paddle.jit.not_to_static
def buffer(x):
    return np.empty([max(size, 1) for size in x.shape])

@paddle.jit.not_to_static
def several(x):
    return x.shape[0] > 1

SWITCH = paddle.ones([1])

@paddle.jit.not_to_static
def switched():
    on = SWITCH.item()
    if on > 0:  # reads
        return 2
    return 1

class Base(nn.Layer):
    deep = True
    cached = None

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

class Signed(nn.Layer):
    def forward(self, x):
        if x.sum() > 0:  # sublayer
            return x * 2
        return x - 1
"""

MODELS = {
    "plain_if": """
        if x.sum() > 0:  # here
            y = x * 2
        else:
            y = x - 1
        return y""",
    "early_return": """
        if x.sum() > 0:  # here
            return x * 2
        return x - 1""",
    "nested": """
        if x.sum() > 0:
            y = x * 2
            if x.max() > 10:  # here
                y = y + 1
        else:
            y = x - 1
        return y""",
    "elif_": """
        if x.sum() > 100:
            y = x * 2
        elif x.sum() > 0:  # here
            y = x - 1
        else:
            y = x + 1
        return y""",
    "ternary": """
        return x * 2 if x.sum() > 0 else x - 1  # here""",
    "two_ternaries": """
        return (x * 2 if x.max() > -1000 else
            x - 1 if x.sum() > 0 else x)""",
    "both": """
        if x.sum() > 0 and x.max() > 0.5:  # here
            x = x * 2
        return x + 1""",
    "constant": """
        if self.deep:
            x = x * 2
        for factor in range(3):
            if factor == 1:
                continue
            x = x + factor
        return x""",
    "while_": """
        i = paddle.zeros([], "int64")
        n = x.sum().astype("int64")
        while i < n:  # here
            x = x + 1
            i = i + 1
        return x + 0""",
    "for_": """
        for i in range(x.shape[0]):  # here
            if x.sum() > 1000:
                break
            x = x + 1
        return x""",
    "read": """
        if float(x.sum()) > 0:  # here
            x = x * 2
        return x + 1""",
    "kind_of_value": """
        if isinstance(x, paddle.Tensor):  # here
            x = x * 2
        return x + 1""",
    "not_converted": """
        if several(x):  # here
            x = x * 2
        return x + 1""",
    "unrolled": """
        for _ in [0] * (3 if isinstance(x, paddle.Tensor) else 2):  # here
            x = x + 1
        return x""",
    "size_kept": """
        if buffer(x).shape[0] > 1:  # here
            x = x * 2
        return x + 1""",
    "rounds_kept": """
        for _ in range(len(buffer(x))):  # here
            x = x + 1
        return x""",
    "cache": """
        if self.cached is None:
            self.cached = 2
        return x * self.cached""",
    "reads_weight": """
        return x * switched()""",
    "reads_array": """
        most = np.ceil(np.log(x.shape[-1])).astype("int").item()
        most = most if most < 2 else 2
        return x[:, :most]""",
    "training": """
        if self.training:
            x = x * 2
        return x + 1""",
    "shape": """
        if x.shape[0] > 1:  # here
            x = x * 2
        return x + 1""",
}

REST = """
class Helper(Base):
    def forward(self, x):
        return self.help(x) + 1

    @doubling
    def help(self, x):
        if x.sum() > 0:  # helper
            x = x * 2
        return x + 1

def helper():
    return Helper()

class Sub(Base):
    def __init__(self):
        super().__init__()
        self.first = Signed()
        self.second = Signed()

    def forward(self, x):
        return self.second(paddle.abs(self.first(x)) + 1)

def sublayers():
    return Sub()

def sequence():
    return nn.Sequential(Signed(), nn.Linear(2, 2))

class Twin(Base):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1

class OtherTwin(Base):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1

def twins():
    return nn.Sequential(Twin(), OtherTwin())
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    parts = [
        f"class M_{name}(Base):\n    def forward(self, x):{body}\n\ndef {name}():\n    return M_{name}()\n" for name, body in MODELS.items()
    ]
    (folder / "their_flow.py").write_text("\n".join([HEAD, *parts, REST]))
    sys.path.insert(0, str(folder))
    yield folder / "their_flow.py"
    sys.path.remove(str(folder))
    sys.modules.pop("their_flow", None)


def settings(name):
    return Model(factory=f"their_flow:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 2]}])


def line(path, name, marker="# here"):
    lines = path.read_text().splitlines()
    begin = lines.index(f"class M_{name}(Base):") if marker == "# here" else 0
    return next(number for number, text in enumerate(lines[begin:], begin + 1) if marker in text)


def rows(*values, batch=1):
    return [np.full((batch, 2), value, np.float32) for value in values]


def judged(layers, batches, specs=None, **options):
    """Findings and metrics: eager on the batches, and a fresh instance converted."""
    eager, fresh = layers(), layers()
    taken = tracing.TakenBranches.of(eager)
    with tracing.following(taken):
        for batch in batches:
            eager(paddle.to_tensor(batch))
    with resolved_conditions.watching(fresh) as seen:
        building.to_static(fresh, specs or [TensorSpec("x", "float32", ("batch", 2))]).forward.concrete_program  # noqa: B018
    return *regions.judge(regions.decisions(seen), taken.by_branch, **options), seen


def built(name):
    def make():
        layer = building.build(settings(name))
        layer.eval()
        return layer

    return make


@pytest.mark.parametrize("name", ["plain_if", "early_return", "ternary", "both", "read", "helper", "sequence", "shape"])
def test_a_region_whose_sides_were_both_taken_gives_no_finding(theirs, name):
    found, metrics, _ = judged(built(name), [*rows(-1, 1), *rows(3, batch=3)])
    assert found == []
    assert metrics == {"regions": 1, "regions_exercised": 1.0, "sides": 2, "sides_exercised": 2, "frozen_branches": 0}


@pytest.mark.parametrize("name", ["plain_if", "early_return", "nested", "elif_", "ternary", "both", "read"])
@pytest.mark.parametrize(("value", "side"), [(1, "false"), (50, "true")])
def test_a_side_that_no_input_took_is_named_with_its_line(theirs, name, value, side):
    values = {("nested", "true"): (-1, 1), ("nested", "false"): (-1, 20), ("elif_", "false"): (60, 1), ("elif_", "true"): (60, -1)}
    taken = values.get((name, side), (1,) if side == "false" else (-1,))
    found, metrics, _ = judged(built(name), rows(*taken))
    (only,) = [finding for finding in found if finding.where.endswith(f"their_flow.py:{line(theirs, name)}")]
    assert (only.kind, only.severity) == ("uncovered-branch", "warning")
    assert f"takes the {side} side" in only.message
    assert 0 < metrics["regions_exercised"] < 1


def test_a_required_side_that_is_missing_is_an_error(theirs):
    found, _, _ = judged(built("plain_if"), rows(1), require_coverage=True)
    assert [finding.severity for finding in found] == ["error"]


def test_ternaries_of_one_statement_are_told_apart(theirs):
    found, metrics, _ = judged(built("two_ternaries"), rows(-1, -2000))
    assert metrics == {"regions": 2, "regions_exercised": 0.75, "sides": 4, "sides_exercised": 3, "frozen_branches": 0}
    (only,) = found
    assert "takes the true side: `… if x.sum() > 0 else …`" in only.message


def test_a_condition_nobody_came_to_is_named(theirs):
    found, _, _ = judged(built("nested"), rows(-1))
    assert any("either side" in finding.message and "x.max() > 10" in finding.message for finding in found)


def test_a_loop_that_was_entered_and_skipped_gives_no_finding(theirs):
    found, metrics, _ = judged(built("while_"), rows(-1, 2))
    assert found == []
    assert metrics["regions"] == 1


def test_a_loop_that_was_never_entered_is_named(theirs):
    found, _, _ = judged(built("while_"), rows(-1))
    assert [(finding.kind, finding.where.rpartition(":")[2]) for finding in found] == [("uncovered-branch", str(line(theirs, "while_")))]
    assert "enters the loop" in found[0].message


def test_a_loop_that_always_went_round_is_a_note(theirs):
    found, metrics, _ = judged(built("while_"), rows(1, 2), require_coverage=True)
    assert [(finding.severity, "at least 2 times" in finding.message) for finding in found] == [("note", True)]
    assert metrics["regions_exercised"] == 1.0


def test_a_loop_that_went_round_once_is_said_so(theirs):
    (found,), _, _ = judged(built("while_"), rows(0.5), require_coverage=True)
    assert "at least once," in found.message


def test_a_for_with_a_break_over_a_dynamic_dimension_is_a_region(theirs):
    found, metrics, seen = judged(built("for_"), [*rows(1), *rows(1000, batch=2), *rows(1, batch=3)])
    assert found == []
    assert {site.line for site, _ in seen.regions} == {line(theirs, "for_"), line(theirs, "for_") + 1}
    assert metrics["frozen_branches"] == 0


@pytest.mark.parametrize("name", ["constant", "training"])
def test_what_the_configuration_decides_gives_no_finding(theirs, name):
    found, metrics, seen = judged(built(name), rows(-1, 1))
    assert found == []
    assert metrics["regions"] == 0
    assert seen.taken.by_branch


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("kind_of_value", "frozen-branch", "always takes the false side, but in eager mode inputs take the true side"),
        ("not_converted", "frozen-branch", "always takes the false side, but in eager mode inputs take both sides"),
        ("size_kept", "dynamic-shape-branch", "always takes the false side, but in eager mode inputs take both sides"),
        ("rounds_kept", "frozen-dimension", "always runs the loop once, but in eager mode inputs run it 1 to 3 times"),
        ("unrolled", "frozen-branch", "always runs the loop 2 times, but in eager mode inputs run it 3 times"),
    ],
)
def test_a_branch_that_export_decided_otherwise_is_an_error_at_its_line(theirs, name, kind, words):
    found, metrics, _ = judged(built(name), [*rows(1), *rows(1, batch=3)])
    (first,) = [finding for finding in found if "fixed `if" in finding.message or "fixed `for" in finding.message]
    assert (first.kind, first.severity, first.where.rpartition(":")[2]) == (kind, "error", str(line(theirs, name)))
    assert words in first.message
    assert metrics["frozen_branches"] >= 1


def test_a_branch_decided_otherwise_without_effect_is_a_warning(theirs):
    found, metrics, _ = judged(built("cache"), rows(1, 2), agreed=True)
    assert [(finding.kind, finding.severity) for finding in found] == [("frozen-branch", "warning")]
    assert metrics["frozen_branches"] == 1


def test_a_value_that_was_read_where_paddle_does_not_convert_is_named(theirs):
    found, _, _ = judged(built("reads_weight"), rows(1))
    assert [(finding.kind, finding.severity, finding.where.rpartition(":")[2]) for finding in found] == [
        ("frozen-value", "warning", str(line(theirs, "", "# reads")))
    ]


def test_a_number_of_numpy_is_no_value_of_a_tensor(theirs):
    found, _, _ = judged(built("reads_array"), rows(1))
    assert found == []


def test_a_model_left_in_train_mode_while_converting_is_named(theirs):
    def mode():
        layer = built("training")()
        if not made:
            made.append(layer)  # the eager one
        else:
            layer.train()
        return layer

    made = []
    found, _, _ = judged(mode, rows(1))
    assert [(finding.kind, finding.severity) for finding in found] == [("train-mode", "error")]


def test_one_line_in_two_sublayers_is_judged_for_each(theirs):
    found, metrics, _ = judged(built("sublayers"), rows(-1, 1))
    assert metrics["regions"] == 2
    (only,) = found
    assert only.layer == "second"
    assert "1 of 2 layers: second" in only.message
    assert only.where.endswith(f":{line(theirs, '', '# sublayer')}")


def test_sublayers_that_miss_different_sides_of_one_line_are_told_apart():
    site = branches.Site("net.py", 3, 4, "if", "x.sum() > 0")
    regions_of = [regions.Decision(site, layer, True, ()) for layer in ("first", "second", "third")]
    found, _ = regions.judge(regions_of, {(site, "first"): {1}, (site, "second"): {0}, (site, "third"): {1}})
    (only,) = found
    first, second = "takes the false side (2 of 3 layers: first, third)", "takes the true side (1 of 3 layers: second)"
    assert f"no input {first}, and none {second}: `if x.sum() > 0`" in only.message


def test_the_helper_behind_a_decorator_is_found(theirs):
    found, _, _ = judged(built("helper"), rows(1))
    assert [finding.where.rpartition(":")[2] for finding in found] == [str(line(theirs, "", "# helper"))]


def test_two_classes_with_one_text_keep_their_own_lines(theirs):
    _, metrics, seen = judged(built("twins"), rows(-1, 1))
    assert metrics["regions"] == 2
    assert len({site.line for site, _ in seen.regions}) == 2


def test_functions_of_one_text_in_two_files_are_told_apart(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / f"{name}_text.py").write_text("def ask(x):\n    return 1 if x else 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import one_text
    import two_text

    assert one_text.ask.__code__ == two_text.ask.__code__
    taken = tracing.TakenBranches()
    with tracing.following(taken):
        one_text.ask(True)
        two_text.ask(False)
    assert [(site.file.rpartition("/")[2], outcomes) for (site, _), outcomes in taken.by_branch.items()] == [
        ("one_text.py", {1}),
        ("two_text.py", {0}),
    ]


def test_an_exception_in_a_condition_decides_nothing(theirs, tmp_path, monkeypatch):
    (tmp_path / "fails.py").write_text("def ask(x):\n    if x.missing:\n        return 1\n    return 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    from fails import ask

    taken = tracing.TakenBranches()
    with pytest.raises(AttributeError), tracing.following(taken):
        ask(1)
    assert taken.by_branch == {}


def image_model():
    return paddle.vision.models.resnet18(num_classes=3)


def encoder():
    return paddle.nn.TransformerEncoder(paddle.nn.TransformerEncoderLayer(8, 2, 16), 2)


@pytest.mark.parametrize(("make", "shape"), [(image_model, (3, 32, 32)), (encoder, (5, 8))])
def test_paddles_own_networks_give_no_finding(make, shape):
    def layer():
        made = make()
        made.eval()
        return made

    spec = TensorSpec("x", "float32", ("batch", *shape))
    batches = [np.ones((size, *shape), np.float32) for size in (1, 2)]
    found, metrics, _ = judged(layer, batches, [spec])
    assert found == []
    assert metrics == {"regions": 0, "regions_exercised": 1.0, "sides": 0, "sides_exercised": 0, "frozen_branches": 0}


def test_an_export_writes_what_verify_reads(theirs, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(theirs.parent))
    source_model = SourceModel(settings("sublayers"), tmp_path / "checkpoint")
    building.save(building.build(source_model.model), source_model.checkpoint, {})
    (tmp_path / "exported").mkdir()
    isolate.run(
        "the export", exporting.save_program, source_model, tmp_path / "exported", [TensorSpec("x", "float32", ("batch", 2))], timeout_s=100
    )
    with isolate.Isolated("eager", tracing.TracedEager, source_model, timeout_s=100) as eager:
        for batch in rows(-1, 1):
            assert eager.call("run", {"x": batch})["output"].shape == (1, 2)
        taken = eager.call("taken_branches")
    found, metrics = regions.judge(regions.read(tmp_path / "exported"), taken)
    assert metrics["regions"] == 2
    assert metrics["regions_exercised"] == 0.75
    assert [finding.layer for finding in found] == ["second"]


def test_a_file_that_cannot_be_read_has_no_places():
    assert branches.of_file("<string>") == ()


def test_a_value_that_is_read_after_the_condition_was_asked_is_no_part_of_it(tmp_path):
    source = """
    def pad(x, sizes, rounds):
        if len(x.shape) == len(sizes):
            sizes = x.flip([0]).tolist()
        if len(sizes) > 1:
            for _ in range(rounds):
                if rounds > 2:
                    rounds = x.max().item()
    """
    (tmp_path / "padding.py").write_text(textwrap.dedent(source))
    found = {branch.site.text: branch.site.reads for branch in branches.of_file(str(tmp_path / "padding.py"))}
    assert found == {"len(x.shape) == len(sizes)": False, "len(sizes) > 1": True, "range(rounds)": False, "rounds > 2": True}


def test_a_loop_whose_body_is_long_is_counted_as_any_other(tmp_path, monkeypatch):
    body = "\n".join(f"        x = x + {number} * (x if x > {number} else 1)" for number in range(60))  # its jumps need a prefix
    (tmp_path / "their_long.py").write_text(f"def go(x, rounds):\n    for _ in range(rounds):\n{body}\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import their_long

    taken = tracing.TakenBranches()
    with tracing.following(taken):
        their_long.go(1, 4)
    assert [outcomes for (site, _), outcomes in taken.by_branch.items() if site.loops] == [{4}]

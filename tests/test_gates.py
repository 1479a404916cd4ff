"""Every gate of every stage refuses: the function that judges is given what it must refuse, and what it must not.

`GATES` has a row for every name that a Check has anywhere in the source, and the last tests here say which names are missing, and which
places that make a Check no row has made refuse.
"""

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.graph_modes import __main__
from benchmarks.graph_modes.comparison import ModeResult
from paddleship.acceptance import judging
from paddleship.acceptance.load import LoadResult
from paddleship.acceptance.observing import Observed
from paddleship.benchmark import selection
from paddleship.benchmark.load_scenarios import ScenarioResults
from paddleship.config.sections.accept import Accept
from paddleship.config.sections.promote import Promote
from paddleship.config.sections.select import Select
from paddleship.config.sections.sweep import Sweep
from paddleship.config.sections.train import Train
from paddleship.config.sections.verify import Verify
from paddleship.containers import building, image_test
from paddleship.conversion.converting import ConversionResult
from paddleship.data.dataset import Rows
from paddleship.diagnosis import verify_report
from paddleship.lineage.release import DIGEST_LABEL
from paddleship.model import fitting
from paddleship.model.exported_file import source
from paddleship.model.training import History
from paddleship.promotion import answers, latency, score_comparison
from paddleship.promotion.ledger import Shipped
from paddleship.proof import answer_flips, evidence, id_sweep, invariance_checks, parity, proving, rescoring, training_parity
from paddleship.proof.cases.inputs import Case
from paddleship.proof.parity import Judgement
from paddleship.proof.rescoring import Answered, Rescored
from paddleship.proof.training_parity import Trace
from paddleship.proof.weights import hold_to_checkpoint
from paddleship.reports import gate
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.rollout import promotion_gate, rollout_steps, signature_registry
from paddleship.shipped.computing.answers.registration import Answering
from paddleship.shipped.computing.candidate import Candidate, Program
from paddleship.statistics import estimates
from paddleship.statistics.estimates import Interval
from paddleship.sweep import choice
from paddleship.weights.weight_comparison import WeightComparison
from tasks import benchmark, export, optimize, prepare, train
from tests.paddleship.sweep.helpers import figures

REPOSITORY = Path(__file__).parents[1]
CLASSES = ("no", "yes")
ROWS = 200
RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 2, ROWS)
SCORES = 4 * np.eye(2)[LABELS] + RANDOM.normal(size=(ROWS, 2))
TABLES = {"scores": SCORES, "place": RANDOM.normal(size=(ROWS, 3)), "kind": RANDOM.integers(0, 3, ROWS)}
CASES = (
    Case("row 0", "rows", {"x": np.zeros((1, 1), np.float32)}, (0,)),
    Case("all rows", "rows", {"x": np.zeros((ROWS, 1), np.float32)}, tuple(range(ROWS))),
)
ERROR = Finding("hidden-influence", "error", "the answers change with the clock", "take the time as an input")
PASSED = Judgement({"noise_ratio": 1.0}, [])
RIGHT = Trace([1.0, 0.5], {"weight": np.array([1.0, 2.0])})


def given(**changes):
    """What eager answers, with some outputs replaced."""
    tables = {name: np.asarray(table).astype(np.int64 if name == "kind" else np.float32) for name, table in {**TABLES, **changes}.items()}
    return [{name: table[[*case.rows]] for name, table in tables.items()} for case in CASES]


def known(**facts):
    truth = [{name: array.astype(np.float64) if name != "kind" else array for name, array in one.items()} for one in given()]
    return evidence.gather(CASES, given(), truth, **{"task": "classification", "labels": LABELS, **facts})


def judged(precision="float32", known=known, **changes):
    return parity.judge(known(), given(**changes), limits=Verify(), precision=precision).checks


def unlabelled():
    return known(task=None, labels=np.zeros(0))


SAYS = Answering(lambda outputs: [{"class": CLASSES[index]} for index in outputs["scores"].argmax(-1)])


def answered(scores):
    """The judgement on the answers of an int8 candidate with these scores."""
    judgement = parity.judge(known(), given(scores=scores), limits=Verify(), precision="int8")
    return answer_flips.hold(judgement, known(), given(scores=scores), SAYS, limits=Verify(), precision="int8").checks


def said(name):
    """What a server answers that names this class, or the right one."""
    texts = [[json.dumps({"class": name} if name else answer) for answer in SAYS.rows(one)] for one in given()]
    answers = [{**one, "answer": np.array(text, object)} for one, text in zip(given(), texts, strict=True)]
    return {"answers": answers, "concurrent_answers": {0: [answers[0]]}}


def served(classes=(), answering=None, **changes):
    """What `accept` makes of a server that differs from a right one."""
    answers = [{**one, "label": np.array([CLASSES[row.argmax()] for row in one["scores"]], object)} for one in given()]
    idle = LoadResult((1.0,), 1.0, (), ())
    right = Observed(ROWS, "digest", [0, 1], answers, [], idle, idle, {0: [answers[0]]}, [], {}, "http")
    shipped = judging.ServedCandidate("float32", classes, "classification", (), answering)
    checks, _ = judging.checks(replace(right, **changes), known(), shipped, Verify())
    return [*checks, judging.other_transports([replace(right, transport="grpc", **changes)], known(), shipped, Verify())]


def of_some_rows(**changes):
    """What `accept` makes of decisions where it left batches out."""
    judgement = parity.judge(known(), given(**changes), limits=Verify(), precision="int8")
    return [judging._at_its_value(check, judgement) for check in judgement.checks]


def seen(**changes):
    right = image_test.ContainerFacts(1000.0, None, 1, 0.3, 0)
    return image_test._checks(replace(right, **changes), Accept(max_cold_start_ms=5000))


def processes(count):
    observed = Observed(1, "digest", [], [], [], None, None, {}, [], {}, "http", count)
    return [image_test._processes_check(observed, 2)]


def digest(said):
    candidate = Candidate(
        name="a",
        model="m",
        runtime="onnxruntime",
        precision="float32",
        threads=1,
        inputs=(),
        outputs=(),
        preprocess={"kind": "tensors"},
        task="regression",
        weights_sha256="0" * 64,
    )
    observed = Observed(1, candidate.digest if said is None else said, [], [], [], None, None, {}, [], {}, "http")
    return [image_test._digest_check(observed, candidate)]


def walked(change):
    """Rows that walk through 32 ids, whose int8 answers are changed."""
    table = RANDOM.normal(size=(32, 4)).astype(np.float32)
    cases = [CASES[0], Case("ids", "ids", {"x": np.arange(32.0, dtype=np.float32)[:, None]}, ())]
    reference = [{"y": table[:1]}, {"y": table}]
    judge = evidence.gather(cases, reference, [{"y": one["y"].astype(np.float64)} for one in reference])
    return id_sweep.checks(judge, [{"y": table[:1]}, {"y": change(table)}], rounding=parity.ROUNDING)


def one_row_moved(table):
    return np.concatenate([table[:5] + 1e-3, table[6:7] + 9, table[6:] + 1e-3])


def varied(name, value):
    return invariance_checks.add(PASSED, {name: value}, invariance_checks.limits(PASSED, Verify(), precision="float32")).checks


def chosen(name, limit, value):
    row = {
        "p50_ms": 1.0,
        "p90_ms": 1.0,
        "p95_ms": 1.0,
        "p99_ms": 1.0,
        "precision": "float32",
        "peak_memory_bytes": 1,
        "flip_rate_high": 0.01,
    }
    row |= {"throughput_per_s": 1.0, "image_bytes": 1, "cost_per_million": 1.0, name: value}
    return selection.choose({"paddle": row}, Select(objective="p50_ms", **limit)).checks


def chosen_of_two(memory):
    row = {"p50_ms": 1.0, "p90_ms": 1.0, "p95_ms": 1.0, "precision": "float32", "flip_rate_high": 0.01, "throughput_per_s": 1.0}
    row |= {"image_bytes": 1, "cost_per_million": 1.0}
    rows = {"small": {**row, "p99_ms": 9.0, "peak_memory_bytes": 1}, "quick": {**row, "p99_ms": 1.0, "peak_memory_bytes": memory}}
    return selection.choose(rows, Select(objective="p50_ms", slo_p99_ms=5, max_memory_bytes=10)).checks


def trained(static=RIGHT, again=1.0, reference=RIGHT):
    return training_parity._judge(RIGHT, reference, static, again, Verify()).checks


def measured(proven="measured", eager="measured", wished=None):
    table = {"eager": {"status": eager, "reason": "it died"}, "paddle": {"status": proven, "reason": "it died"}}
    return benchmark._checks(table, ["paddle"], wished)


def found(*kinds):
    report = Report(stage="verify", headline="", verdict=Verdict(checks=building.checks(1, 2)))
    report.findings = [Finding(kind, "warning", "seen", "look") for kind in kinds]
    report.verdict = gate.verdict(report, ["batch-dependent"])
    return report.verdict.checks


def history(**changes):
    epoch = {"train_loss": 1.0, "validation_loss": 1.0, "validation_score": 0.5}
    return History([epoch], **changes)


def modes(count):
    rows = {mode: ModeResult(mode) for mode in ("paddle-eager", "paddle-sot")}
    return [__main__._enough("mlp", dict([*rows.items()][:count]), None)]


def compared(decisions, limits):
    """A challenger that decides so, against a champion that is always right."""
    rows = Rows({"x": list(range(ROWS))}, LABELS, [""] * ROWS)
    before, after = ([{"scores": np.eye(2)[[place]]} for place in chosen] for chosen in (LABELS, decisions))
    return score_comparison.checks(score_comparison.compare(rows, before, after, task="classification", classes=CLASSES), limits)


def raced(speedup):
    found = Interval(speedup, speedup * 0.99, speedup * 1.01)
    verdict = estimates.difference(found, None, effect=0.05)
    return [latency.check(latency.Latency(found, Interval(1, 1, 1), verdict, {}, ()), allow_slower=False)]


def asked(fault):
    return [promotion_gate.answers_check("champion", answers.Answered((), fault), Rows({"x": [1]}, LABELS[:1], [""]))]


def limited(**limits):
    """The choice among variants of which one is left, or none."""
    return [choice.choose({1: figures(p50=1.0)}, Sweep(**limits)).check]


class Engine:
    """An engine with one image."""

    def __init__(self, digest="d1"):
        self.images, self.id, self.labels = self, "sha256:1", {DIGEST_LABEL: digest}

    def get(self, identity):
        assert identity == self.id
        return self


SHIPPED = Shipped(model="m", version="1", image="m:1", image_id="sha256:1", candidate_digest="d1")
WEIGHT = Finding("weights-differ", "error", "fc.weight is zero", "export again")
MADE, FAILED = ConversionResult("paddle", "paddle", "float32"), ConversionResult("paddle", "paddle", "float32", reason="no kernel")
TWO_PROGRAMS = (Program("4", {"batch": 8, "length": 4}), Program("2", {"batch": 1, "length": 2}))
ABOVE = {"y": np.array([1.0, 1.001])}
WITHOUT = {"scores": np.full((ROWS, 2), np.nan)}

# name: (what the judge says of something that this gate must refuse, and of something that it must not)
GATES = {
    "leaked_rows": (lambda: prepare.checks({"train": {"a", "b"}, "test": {"b"}}), lambda: prepare.checks({"train": {"a"}, "test": {"b"}})),
    "loss": (lambda: [fitting.check_loss(history(diverged="loss is nan"))], lambda: [fitting.check_loss(history())]),
    "round_trip_max_rel_diff": (
        lambda: [train.check_round_trip({"y": np.ones(2)}, {"y": np.array([1.0, np.nan])})],
        lambda: [train.check_round_trip({"y": np.ones(2)}, {"y": np.ones(2)})],
    ),
    "exported_file_max_rel_diff": (
        lambda: [source.check_answers([source.Answers({"y": np.ones(2)}, {"y": np.ones(2)}), source.Answers({"y": np.ones(2)}, ABOVE)])],
        lambda: [source.check_answers([source.Answers({"y": np.ones(2)}, {"y": np.ones(2)})])],
    ),
    "validation_*": (
        lambda: train.check_score(0.5, "r2", Train(min_score=0.6), advice="train longer"),
        lambda: train.check_score(0.5, "r2", Train(min_score=0.4), advice="train longer"),
    ),
    "rows_without_program": (
        lambda: export.checks(TWO_PROGRAMS, [{"batch": 1, "length": 4}, {"batch": 1, "length": 5}]),
        lambda: export.checks(TWO_PROGRAMS, [{"batch": 1, "length": 4}, {"batch": 1, "length": 2}]),
    ),
    "candidates_made": (lambda: optimize.checks([FAILED, FAILED]), lambda: optimize.checks([FAILED, MADE])),
    "proven_candidates": (lambda: verify_report.checks(0, [], [], Verify()), lambda: verify_report.checks(1, [], [], Verify())),
    "eager_errors": (lambda: verify_report.checks(1, [ERROR], [], Verify()), lambda: verify_report.checks(1, [], [], Verify())),
    "rescored_*": (
        lambda: rescoring.checks([Rescored("test", 100, 0.84, 0.05), Answered("test", 2, 1)], task="classification", min_score=None),
        lambda: rescoring.checks([Rescored("test", 100, 0.84, 0.83), Answered("test", 2, 0)], task="classification", min_score=None),
    ),
    "rescored_validation": (
        lambda: rescoring.checks([Rescored("validation", 100, 0.5, 0.5)], task="regression", min_score=0.6),
        lambda: rescoring.checks([Rescored("validation", 100, 0.7, 0.7)], task="regression", min_score=0.6),
    ),
    "uncovered_branches": (
        lambda: verify_report.checks(1, [], [replace(ERROR, kind="uncovered-branch")], Verify(require_branch_coverage=True)),
        lambda: verify_report.checks(1, [], [], Verify(require_branch_coverage=True)),
    ),
    "verify.fail_on": (lambda: found("batch-dependent"), lambda: found("not-exercised")),
    "answers": (lambda: proving.unanswered("it died").checks + judged(**WITHOUT), judged),
    "noise_ratio": (lambda: judged(place=TABLES["place"] + np.eye(ROWS, 3)), judged),
    "typical_ratio": (lambda: judged(place=TABLES["place"] * (1 + 1e-6)), judged),
    "flip_rate_high": (lambda: judged("int8", scores=SCORES[:, ::-1]), lambda: judged("int8")),
    "answer_flip_rate_high": (lambda: answered(SCORES[:, ::-1]), lambda: answered(SCORES * 0.9)),
    "metric_drop_high": (lambda: judged("int8", scores=SCORES[:, ::-1]), lambda: judged("int8")),
    "decisions": (lambda: judged("int8", known=unlabelled), lambda: judged("int8")),
    "decided_slope": (lambda: judged("int8", scores=SCORES / 2), lambda: judged("int8")),
    "decided_offset": (lambda: judged("int8", scores=SCORES + 3), lambda: judged("int8")),
    "output_agreement": (lambda: judged("int8", place=-TABLES["place"]), lambda: judged("int8")),
    "output_flip_rate": (lambda: judged("int8", kind=2 - TABLES["kind"]), lambda: judged("int8")),
    "all_ids_agreement": (lambda: walked(lambda table: np.roll(table, 1, axis=0)), lambda: walked(lambda table: table * 1.001)),
    "all_ids_row_error": (lambda: walked(one_row_moved), lambda: walked(lambda table: table * 1.001)),
    "repeat_ratio": (lambda: varied("repeat_ratio", 2.1), lambda: varied("repeat_ratio", 1.9)),
    "threads_ratio": (lambda: varied("threads_ratio", float("nan")), lambda: varied("threads_ratio", 0.0)),
    "batch_ratio": (lambda: varied("batch_ratio", 4.1), lambda: varied("batch_ratio", 3.9)),
    "departure_ratio": (lambda: varied("departure_ratio", float("inf")), lambda: varied("departure_ratio", 0.0)),
    "departure_share": (
        lambda: invariance_checks.add(PASSED, {"departure_share": 0.9}, {"departure_share": 0.5}).checks,
        lambda: invariance_checks.add(PASSED, {"departure_share": 0.1}, {"departure_share": 0.5}).checks,
    ),
    "weights": (
        lambda: hold_to_checkpoint(PASSED, WeightComparison(4, 4, 3, findings=(WEIGHT,))).checks,
        lambda: hold_to_checkpoint(PASSED, WeightComparison(4, 4, 4)).checks,
    ),
    "negative_controls": (lambda: proving._unproven_rule(PASSED, [ERROR]).checks, None),
    "training": (lambda: training_parity.refused("forward does not convert").checks, None),
    "training_eager_loss": (lambda: trained(reference=Trace([1.0, float("nan")], {})), trained),
    "training_random": (lambda: trained(again=1.5), trained),
    "training_loss_ratio": (lambda: trained(static=Trace([1.0, float("nan")], RIGHT.first)), trained),
    "gradient_ratio": (lambda: trained(static=Trace([1.0, 0.5], {"weight": np.array([1.0, -2.0])})), trained),
    "measured_candidates": (lambda: measured(proven="failed"), measured),
    "measured_baseline": (lambda: measured(eager="failed"), measured),
    "select.candidate *": (lambda: measured(proven="failed", wished="paddle"), lambda: measured(wished="paddle")),
    "p99_ms": (
        lambda: chosen("p99_ms", {"slo_p99_ms": 5}, 6.0) + chosen("p99_ms", {"slo_p99_ms": 5}, None),
        lambda: chosen("p99_ms", {"slo_p99_ms": 5}, 4.0),
    ),
    "peak_memory_bytes": (
        lambda: chosen("peak_memory_bytes", {"max_memory_bytes": 5}, 6),
        lambda: chosen("peak_memory_bytes", {"max_memory_bytes": 5}, 4),
    ),
    "candidates_within_constraints": (lambda: chosen_of_two(99), lambda: chosen_of_two(9)),
    "scenarios": (lambda: ScenarioResults(reason="it died").checks(None), lambda: ScenarioResults(engine="plain").checks(None)),
    "peak_p99_ms": (
        lambda: ScenarioResults(engine="plain", reason="no load holds it").checks(5.0),
        lambda: ScenarioResults(engine="plain", peak_qps=9.0, peak_p99_ms=4.0).checks(5.0),
    ),
    "variants_within_limits": (lambda: limited(max_p50_ms=0.5), lambda: limited(max_p50_ms=2)),
    "image_bytes": (lambda: building.checks(3, 2), lambda: building.checks(2, 2)),
    "gpu": (lambda: image_test._refused("gpu", "there is no NVIDIA driver here", "").verdict.checks, None),
    "ready": (lambda: image_test._refused("ready", "the container exited with code 1", "").verdict.checks, None),
    "first_answer": (lambda: image_test._refused("first_answer", "the server answered 500", "").verdict.checks, None),
    "running": (lambda: image_test._refused("running", "the container was killed", "").verdict.checks, None),
    "unanswered_batches": (lambda: served(faults=["all rows: the server answered 500"]), served),
    "failed_requests": (lambda: served(load=LoadResult((1.0,), 1.0, ("the server answered 500",), ())), served),
    "hostile_requests": (lambda: served(hostile=["no JSON: 500"]), served),
    "other_transports": (lambda: served(hostile=["no message: 13"]), served),
    "max_batch": (lambda: served(max_batch=ROWS + 1), served),
    "concurrent_batches": (lambda: served(concurrent_answers={}), served),
    "concurrent_*": (lambda: served(concurrent_answers={0: [given(place=TABLES["place"] + 1)[0]]}), served),
    "flip_rate": (lambda: of_some_rows(scores=SCORES[:, ::-1]), of_some_rows),
    "metric_drop": (lambda: of_some_rows(scores=SCORES[:, ::-1]), of_some_rows),
    "labels": (lambda: served(classes=CLASSES[::-1]), lambda: served(classes=CLASSES)),
    "served_answers": (lambda: served(answering=SAYS, **said("no")), lambda: served(answering=SAYS, **said(None))),
    "cold_start_ms": (lambda: seen(cold_start_ms=float("inf")), seen),
    "exit_code": (lambda: seen(exit_code=137), lambda: seen(exit_code=143)),
    "candidate_digest": (lambda: digest("another"), lambda: digest(None)),
    "replaced_processes": (lambda: seen(replaced=1), lambda: seen(replaced=0)),
    "processes": (lambda: processes(1), lambda: processes(2)),
    "accepted_image": (
        lambda: [promotion_gate.image_check(Engine("d2"), SHIPPED)],
        lambda: [promotion_gate.image_check(Engine(), SHIPPED)],
    ),
    "answered_rows": (lambda: asked("row 3: the server answered 400"), lambda: asked("")),
    "champion_metric_drop_high": (lambda: compared(1 - LABELS, Promote()), lambda: compared(LABELS, Promote())),
    "champion_flip_rate_high": (
        lambda: compared(1 - LABELS, Promote(max_flip_rate=0.1)),
        lambda: compared(LABELS, Promote(max_flip_rate=0.1)),
    ),
    "latency_against_champion": (lambda: raced(0.5), lambda: raced(1.0)),
    "pulled_image": (lambda: [rollout_steps.pulled_check(SHIPPED, "sha256:2")], lambda: [rollout_steps.pulled_check(SHIPPED, "sha256:1")]),
    "image_signature": (
        lambda: [signature_registry.judge(faults) for faults in ([], ["signed by another key"])],
        lambda: [signature_registry.judge(["signed by another key", None])],
    ),
    "recorded_answers": (
        lambda: [rollout_steps.recorded_check([], []), rollout_steps.recorded_check(["another answer"], [{}])],
        lambda: [rollout_steps.recorded_check([], [{}])],
    ),
    "measured_*": (lambda: modes(1), lambda: modes(2)),
}


def is_meant(name, check):
    return check.name.startswith(name[:-1]) if name.endswith("*") else check.name == name


@pytest.mark.parametrize("name", GATES)
def test_a_gate_refuses_what_it_is_there_for(name):
    assert [check for check in GATES[name][0]() if is_meant(name, check) and not check.passed]


@pytest.mark.parametrize("name", [name for name, (_, honest) in GATES.items() if honest is not None])
def test_a_gate_lets_pass_what_is_right(name):
    assert not [str(check) for check in GATES[name][1]() if is_meant(name, check) and not check.passed]


def test_every_check_in_the_source_has_a_row_here():
    names = {name for path in sources() for name in check_names(path)}
    assert names - GATES.keys() == set(), "a gate without a test that makes it refuse: give it a row in GATES"
    assert GATES.keys() - names == set(), "no Check has this name any more: remove its row from GATES"


def test_every_place_that_makes_a_check_refuses_in_a_row_here(monkeypatch):
    made, refused = Check.__init__, set()

    def note(check, **values):
        made(check, **values)
        if not check.passed:
            refused.update(callers())

    monkeypatch.setattr(Check, "__init__", note)
    for refuse, _ in GATES.values():
        refuse()
    places = {(str(path), *position(call)) for path in sources() for call in ast.walk(ast.parse(path.read_text())) if can_refuse(call)}
    assert places
    assert places - refused == set(), "a Check that no row makes refuse: let a row of GATES go that way"


def callers():
    """Where the calls that are running now stand in the source: file, first and last line, first and last column."""
    frame = sys._getframe(2)
    while frame is not None:
        places = list(frame.f_code.co_positions())
        yield frame.f_code.co_filename, *places[frame.f_lasti // 2]
        frame = frame.f_back


def position(call):
    return call.lineno, call.end_lineno, call.col_offset, call.end_col_offset


def can_refuse(node):
    """Whether this makes a Check, and not one that only says that nothing was found."""
    return isinstance(node, ast.Call) and makes_check(node) and not any(ast.unparse(word) == "passed=True" for word in node.keywords)


def sources():
    folders = ("paddleship", "tasks", "flows", "benchmarks/graph_modes")
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


GIVEN = {  # names that are computed
    "paddleship/proof/invariance_checks.py": list(invariance_checks._KINDS),
    "paddleship/benchmark/selection.py": [key for _, key in selection._CONSTRAINTS],
    "paddleship/acceptance/judging.py": ["flip_rate", "metric_drop"],
}


def check_names(path):
    """The names of all Checks that a module makes; those of wrappers that take the name as an argument at the places that call them."""
    tree = ast.parse(path.read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)
    }
    wrappers, names = set(), set()
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for call in [node for node in ast.walk(function) if isinstance(node, ast.Call) and makes_check(node)]:
            given = next((word.value for word in call.keywords if word.arg == "name"), call.args[0] if call.args else None)
            if isinstance(given, ast.Name) and given.id in {argument.arg for argument in function.args.args}:
                wrappers.add(function.name)
            elif isinstance(given, ast.Name) and given.id not in constants and str(path.relative_to(REPOSITORY)) in GIVEN:
                names.update(GIVEN[str(path.relative_to(REPOSITORY))])
            else:
                names |= spelled(given, constants)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in wrappers]
    copies = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "model_copy"]
    renamed = [word.value.values[0] for node in copies for word in node.keywords if word.arg == "update" and "name" in ast.unparse(word)]
    return names | {name for given in [*(call.args[0] for call in calls), *renamed] for name in spelled(given, constants)}


def makes_check(call):
    return ast.unparse(call.func) in ("Check", "Check.at_most", "Check.at_least")


def spelled(given, constants):
    if isinstance(given, ast.Constant):
        return {given.value}
    if isinstance(given, ast.JoinedStr):
        return {f"{given.values[0].value}*"}
    if isinstance(given, ast.Name) and given.id in constants:
        return {constants[given.id]}
    return {f"{ast.unparse(given)} (which no test can resolve)"}

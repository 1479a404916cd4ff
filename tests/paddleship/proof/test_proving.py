"""The proof over real processes: an honest candidate passes, and each way to be wrong ends as its own check."""

import os
import re
import sys
import threading
import time

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.config.sections.verify import Verify
from paddleship.controlflow import regions
from paddleship.errors import ModelError
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof import crashes, invariance, proving, reference
from paddleship.proof.answering import ModelUnderTest
from paddleship.proof.cases import id_cases, inputs
from paddleship.proof.cases.searching import Search
from paddleship.proof.evidence import Evidence
from paddleship.proof.reference import EarlierAnswers
from paddleship.shipped.computing.preprocess import build

SOURCE = """
import os
import paddle
from paddle import nn
from paddle.nn import functional as F

class Plain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x)

class Filled(Plain):
    def __init__(self):
        super().__init__()
        self.linear.weight.set_value(paddle.arange(12, dtype="float32").reshape([4, 3]) / 7)

class Recurrent(Filled):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 4)

    def forward(self, x):
        return self.linear(self.gru(x.unsqueeze(1))[0][:, 0])

class Decorated(Plain):
    @paddle.jit.to_static(full_graph=True)
    def features(self, x):
        return self.linear(x) * (1.0 if paddle.in_dynamic_mode() else 2.0)

    def forward(self, x):
        return self.features(x)

BUILT = []

class OnceAProcess(Plain):
    def __init__(self):
        super().__init__()
        BUILT.append(None)
        if len(BUILT) > 1:
            self.linear = nn.Linear(4, 5)

class Random(Plain):
    def forward(self, x):
        return F.dropout(self.linear(x), 0.5)

class Centred(Plain):
    def forward(self, x):
        return self.linear(x - x.mean(0))

class Shares(Plain):
    def forward(self, x):
        return F.sigmoid(self.linear(x))

class Scalar(Plain):
    def forward(self, x):
        return super().forward(x).sum(axis=-1)


class Single(Plain):
    def forward(self, x):
        return self.linear(x.astype("float32"))

class Spectral(Plain):
    # Weighs a series by the strongest frequencies of its whole batch, and takes float32 only.
    def forward(self, x):
        if x.dtype != paddle.float32:
            raise TypeError("float32 only")
        strongest = paddle.fft.rfft(x, axis=1).abs().mean([0, 2]).topk(3)[1].astype("float32")
        steps = paddle.arange(x.shape[1], dtype="float32")
        waves = paddle.cos(steps.unsqueeze(-1) * strongest / 4).sum(-1)
        return self.linear(x * waves.unsqueeze(-1))

class Chaotic(Plain):
    # Answers with the digits that float32 loses.
    def forward(self, x):
        return paddle.sin(self.linear(x) * 1e7)

class OneOperatorInFloat32(Plain):
    # Has an operator without a float64 kernel, as custom ones are.
    def forward(self, x):
        return self.linear(x) + only_float32(x).sum(-1, keepdim=True)

def refuse_float64(*arguments):
    if any(argument.dtype == paddle.float64 for argument in arguments):
        raise RuntimeError("no kernel")
    return tanh(*arguments)

tanh = paddle._C_ops.tanh
paddle._C_ops.only_float32 = refuse_float64

def only_float32(x):
    return paddle._C_ops.only_float32(x)

class FindsNothing(Plain):
    # Gives the rows above a threshold that none reaches.
    def forward(self, x):
        scores = self.linear(x)
        return paddle.masked_select(scores, scores > 1e6).unsqueeze(-1), scores

class Refuses(Plain):
    def forward(self, x):
        raise ValueError("never")

class Table(Plain):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 4)

    def forward(self, x):
        return self.linear(self.embed(x).mean(1))

class Fragile(Plain):
    def forward(self, x):
        if not x.any():
            os.abort()
        return self.linear(x)

class Brittle(Plain):
    def forward(self, x):
        if not x.any() or float(x.abs().max()) == 3:
            os.abort()
        return self.linear(x)

class Dead(Plain):
    def forward(self, x):
        os.abort()
"""
SETTINGS = Verify(timeout_s=60)


class Honest:
    """The eager model itself, as a runtime."""

    def __init__(self, source_model):
        self.eager = Eager(source_model)

    def run(self, batch):
        return self.eager.run(batch)


class PreviousAnswer(Honest):
    """Answers a question with the answer to the one before, where its shape fits."""

    last = None

    def run(self, batch):
        answer, self.last = self.last, super().run(batch)
        return answer if answer and answer["output"].shape == self.last["output"].shape else self.last


class Drifts(Honest):
    """Is right until it has been asked often, as a cache or a counter would have it."""

    asked = 0

    def run(self, batch):
        self.asked += 1
        answer = super().run(batch)
        return {"output": answer["output"] * np.float32(1 + (self.asked > 15))}


class LastRowWrong(Honest):
    """Wrong in the last row of large batches only."""

    def run(self, batch):
        output = super().run(batch)["output"].copy()
        output[16:] += np.float32(1e-3)
        return {"output": output}


class WrongAt(Honest):
    """Another answer in batches of one size only, as a kernel that is chosen by size would have it."""

    def __init__(self, source_model, size):
        super().__init__(source_model)
        self.size = size

    def run(self, batch):
        answer = super().run(batch)
        return {"output": answer["output"] * np.float32(1 + 1e-3 * (len(answer["output"]) == self.size))}


class RareShifted(Honest):
    """The embedding rows of the ids 500 to 899 are shifted by one."""

    def run(self, batch):
        return super().run({"x": np.where((batch["x"] >= 500) & (batch["x"] < 900), batch["x"] - 1, batch["x"])})


class Rounded(Honest):
    """Answers with 8 bits of their largest, as int8 might give; the embedding rows of the ids in `moved` are each other's, reversed."""

    def __init__(self, source_model, *moved):
        super().__init__(source_model)
        self.moved = moved

    def run(self, batch):
        low, high = self.moved or (0, 0)
        ids = np.where((batch["x"] >= low) & (batch["x"] < high), low + high - 1 - batch["x"], batch["x"])
        output = super().run({"x": ids})["output"]
        step = np.float32(2**-7) * np.abs(output).max()
        return {"output": np.round(output / step) * step}


class WrongBeyondTheLongestRow(Honest):
    """Keeps the positions of the longest held-out row."""

    def run(self, batch):
        return super().run({"x": batch["x"][:, :12]})


class SharedByLargeBatches(Honest):
    """Keeps a large batch where another thread can overwrite it."""

    def run(self, batch):
        if len(batch["x"]) < 16:
            return super().run(batch)
        self.current = batch
        time.sleep(0.002)
        return super().run(self.current)


class SlightlyOff(Honest):
    """Off in one answer by five times eager's noise: less than another runtime may round otherwise."""

    def __init__(self, source_model):
        super().__init__(source_model)
        self.exact = Eager(source_model, dtype="float64")

    def run(self, batch):
        output, truth = self.round(batch).copy(), self.exact.run(batch)["output"]
        noise = max(np.abs(super().run(batch)["output"] - truth).max(), np.finfo(np.float32).eps * np.abs(truth).max())
        output[:1, 0] += np.float32(5 * noise * (len(output) == 32))
        return {"output": output}

    def round(self, batch):
        return super().run(batch)["output"]


class SlightlyOffAndRoundedOtherwise(SlightlyOff):
    def round(self, batch):
        return self.exact.run(batch)["output"].astype(np.float32)


class Answers(Honest):
    """Does something to every answer."""

    def __init__(self, source_model, kind):
        super().__init__(source_model)
        self.kind = kind

    def run(self, batch):
        output = super().run(batch)["output"]
        shift = np.float32(0.3 * np.abs(output).max())
        wrong = {
            "zero": output * 0,
            "halved": output / 2,
            "negated": -output,
            "shifted": output + shift,
            "reversed": output[:, ::-1].copy(),
        }
        return {"output": wrong[self.kind].astype(np.float32)}


class Silent(Honest):
    """Finds nothing, whatever it is asked."""

    def run(self, batch):
        answer = super().run(batch)
        return answer | {"output_0": answer["output_0"][:0]}


class Dies(Honest):
    def run(self, batch):
        os.kill(os.getpid(), 11)


class Hangs(Honest):
    def run(self, batch):
        threading.Event().wait()


class Shared(Honest):
    """Keeps its input where another thread can overwrite it."""

    def run(self, batch):
        self.current = batch
        time.sleep(0.002)
        return super().run(self.current)


class NoInferenceThread:
    """A server that lets every caller into the runtime at once."""

    def submit(self, function, *arguments):
        answer = function(*arguments)
        done = type("Done", (), {"result": lambda _: answer})
        return done()

    def shutdown(self):
        pass


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_proofs.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_proofs", None)


@pytest.fixture
def source_model_of(tmp_path):
    def make(name, *shape, **declared):
        item = {"name": "x", "dtype": "float32", "shape": ["batch", *(shape or [4])]}
        settings = Model(factory=f"their_proofs:{name}", inputs=[item | declared])
        paddle.seed(7)  # whether moved rows of a table show depends on its weights
        building.save(building.build(settings), tmp_path / "checkpoint", {})
        return SourceModel(settings, tmp_path / "checkpoint")

    return make


def prove(source_model, settings=SETTINGS, cases=None, search=None, **models_under_test):
    cases = cases or inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=32)
    made = {
        name: value if isinstance(value, ModelUnderTest) else ModelUnderTest(value, (source_model,))
        for name, value in models_under_test.items()
    }
    return proving.prove(source_model, cases, made, settings=settings, search=search, say=lambda _: None)


def failed(judgement):
    return {check.name for check in judgement.checks if not check.passed}


def test_a_first_output_of_one_number_for_each_row_is_compared_like_any_other(source_model_of):
    found = prove(source_model_of("Scalar"), honest=Honest, last=LastRowWrong).judgements
    assert [name for name, judgement in found.items() if judgement] == ["to_static", "honest"]
    assert failed(found["last"]) >= {"noise_ratio", "batch_ratio"}


def test_an_honest_candidate_is_proven_and_every_fault_is_its_own_row(source_model_of):
    source_model = source_model_of("Plain")
    race = ModelUnderTest(Shared, (source_model,), share=NoInferenceThread)
    found = prove(
        source_model, honest=Honest, previous=PreviousAnswer, drifts=Drifts, last=LastRowWrong, shared=Shared, race=race, dies=Dies
    ).judgements
    assert [name for name, judgement in found.items() if judgement] == ["to_static", "honest", "shared"]
    assert "noise_ratio" in failed(found["previous"])
    assert failed(found["drifts"]) & {"repeat_ratio", "threads_ratio"}
    assert failed(found["last"]) >= {"noise_ratio", "batch_ratio"}
    assert re.search(r"batch of (1[6-9]|[23]\d)", found["last"].worst_case)
    assert failed(found["race"]) == {"threads_ratio"}
    assert found["race"].findings[0].kind == "thread-specific"
    assert "SIGSEGV" in str(found["dies"].checks[0])


def test_wrong_answers_at_a_single_batch_size_are_found_whichever_it_is(source_model_of):
    source_model = source_model_of("Plain")
    wrong = {f"at_{size}": ModelUnderTest(WrongAt, (source_model, size)) for size in (3, 5, 6, 12, 20, 31)}
    found = prove(source_model, honest=Honest, **wrong).judgements
    assert [name for name, judgement in found.items() if judgement] == ["to_static", "honest"]
    assert found["at_20"].worst_case == "output, batch of 20"


def table_cases(source_model, *, longest=16):
    """Held-out rows with the ids 0 to 49 and at most 12 of them, of a table of 1,000, where a server takes rows of 16."""
    specs = [item.spec() for item in source_model.model.inputs]
    rows = [{"x": (np.arange(3 + row % 10) * 7 + row) % 50} for row in range(40)]
    limits = {"length 16": {"x": np.arange(longest) % 50}}
    real = inputs.from_rows(rows, specs, build({}, specs).collate, max_batch=8, limits=limits)
    batches = [case.inputs for case in real]
    return [*real, *inputs.edges(specs, batches), *id_cases.walk(specs, batches, max_batch=8)]


def test_shifted_embedding_rows_of_ids_that_no_held_out_row_has_are_refused(source_model_of):
    source_model = source_model_of("Table", dtype="int64", shape=["batch", "length"], low=0, high=999)
    cases = table_cases(source_model)
    found = prove(source_model, cases=cases, honest=Honest, shifted=RareShifted, short=WrongBeyondTheLongestRow).judgements
    assert found["honest"]
    assert "noise_ratio" in failed(found["shifted"])
    assert "every id of x" in found["shifted"].worst_case
    assert "noise_ratio" in failed(found["short"])
    seen = [case for case in cases if case.group != "ids"]
    assert prove(source_model, cases=seen, shifted=RareShifted).judgements["shifted"]  # what the walk is for


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_moved_embedding_rows_of_ids_that_no_held_out_row_has_are_refused_in_a_lower_precision(source_model_of, precision):
    source_model = source_model_of("Table", dtype="int64", shape=["batch", "length"], low=0, high=999)
    made = {
        name: ModelUnderTest(Rounded, (source_model, *moved), precision)
        for name, moved in (("honest", ()), ("many", (496, 896)), ("few", (896, 992)))
    }
    found = prove(source_model, cases=table_cases(source_model), **made).judgements
    walked = {name: failed(judgement) & {"all_ids_agreement", "all_ids_row_error"} for name, judgement in found.items()}
    assert not walked["honest"]
    assert found["honest"].metrics["all_ids_agreement"] > 0.99
    assert walked["many"]
    assert "all_ids_row_error" in walked["few"]


def test_callers_with_large_batches_that_overwrite_each_other_are_found(source_model_of):
    source_model = source_model_of("Plain")
    race = ModelUnderTest(SharedByLargeBatches, (source_model,), share=NoInferenceThread)
    found = prove(source_model, alone=SharedByLargeBatches, race=race).judgements
    assert found["alone"]
    assert failed(found["race"]) == {"threads_ratio"}


def test_callers_of_a_slow_candidate_that_overwrite_each_other_are_found_with_the_fewest_cases(source_model_of, monkeypatch):
    affordable = invariance.affordable
    monkeypatch.setattr(invariance, "affordable", lambda *given, times: affordable(*given, times=10**9 * times))
    source_model = source_model_of("Plain")
    race = prove(source_model, race=ModelUnderTest(Shared, (source_model,), share=NoInferenceThread)).judgements["race"]
    assert failed(race) == {"threads_ratio"}
    assert race.metrics["cases_repeated"] == 2


def asked(*shapes):
    """Evidence with one case of each shape, and no answers."""
    cases = [inputs.Case(str(shape), "rows", {"x": np.zeros(shape, np.float32)}) for shape in shapes]
    return Evidence(tuple(cases), [], [], "", {})


@pytest.mark.parametrize(
    ("took", "kept"),
    [
        ([0.1, 0.2, 0.2, 0.4], [0, 1, 2, 3]),  # less than cheap cases may take
        ([1.0, 2.0, 7.0, 8.0], [0, 1]),
        ([1.0, 2.0, 0.5, 20.0], [0, 1, 2]),
        ([9.0, 9.0, 9.0, 1.0], [0, 3]),
        ([0.1, 9.0, 9.0, 9.0], [0, 1]),
    ],
)
def test_slow_cases_are_asked_again_in_proportion_to_the_first_answers(took, kept):
    assert invariance.affordable(asked((1, 4), (2, 4), (7, 4), (8, 4)), [0, 1, 2, 3], took, times=5) == kept


def test_of_slow_cases_one_with_several_rows_is_asked_again_even_if_it_is_the_slowest():
    evidence = asked((1, 3), (1, 4), (1, 5), (2, 9))
    assert invariance.affordable(evidence, [0, 1, 2, 3], [10.0, 11.0, 12.0, 90.0], times=5) == [0, 3]
    assert invariance.affordable(asked((2, 3)), [0], [10.0], times=5) == [0]


def test_a_candidate_that_hangs_is_ended_and_the_next_is_asked(source_model_of):
    found = prove(source_model_of("Plain"), Verify(timeout_s=6), hangs=Hangs, honest=Honest).judgements
    assert "did not answer in 6 s" in str(found["hangs"].checks[0])
    assert found["honest"]


def test_a_model_that_draws_random_numbers_is_named_not_waved_through(source_model_of):
    findings = prove(source_model_of("Random")).findings
    assert [finding.kind for finding in findings if finding.severity == "error"] == ["random-forward"]
    assert "batch-dependent" not in [finding.kind for finding in findings]


def test_a_model_whose_rows_depend_on_each_other_is_warned_of_and_can_be_proven(source_model_of):
    proved = prove(source_model_of("Centred"), honest=Honest)
    assert [finding.kind for finding in proved.findings] == ["batch-dependent"]
    assert proved.judgements["honest"]


@pytest.mark.parametrize("name", ["Single", "Recurrent"])
def test_a_model_that_refuses_float64_as_a_whole_is_measured_operator_by_operator(source_model_of, name):
    proved = prove(source_model_of(name), honest=Honest)
    assert proved.evidence.rule == "eager float64, operator by operator"
    assert proved.evidence.truth[0]["output"].dtype == np.float64
    (note,) = proved.findings
    assert (note.kind, note.severity) == ("no-float64", "note")
    assert proved.evidence.why in note.message
    assert proved.judgements["honest"]


def test_an_operator_that_knows_float32_only_is_named_and_the_rest_computes_in_float64(source_model_of):
    proved = prove(source_model_of("OneOperatorInFloat32"), honest=Honest)
    assert proved.evidence.rule == "eager float64, operator by operator"
    assert "only_float32 know float32 only" in proved.evidence.why
    noise = proved.evidence.noise["rows"]["output"]
    assert noise.largest == 1e-6 * noise.scale
    assert proved.judgements["honest"]


def test_wrong_answers_of_a_model_that_depends_on_its_batch_and_takes_float32_only_are_refused(source_model_of):
    source_model = source_model_of("Spectral", 24, 4)
    kinds = ("zero", "halved", "negated", "shifted", "reversed")
    proved = prove(source_model, honest=Honest, **{kind: ModelUnderTest(Answers, (source_model, kind)) for kind in kinds})
    assert proved.evidence.rule == "eager float32 with weights and inputs nudged"
    assert [finding.kind for finding in proved.findings] == ["no-float64", "batch-dependent"]
    assert [name for name, judgement in proved.judgements.items() if judgement] == ["to_static", "honest"]
    assert "noise_ratio" in failed(proved.judgements["shifted"])
    assert proved.controls
    assert all(control.refused for control in proved.controls)
    assert proved.sound


def test_a_model_by_whose_noise_wrong_answers_pass_cannot_be_proven(source_model_of):
    proved = prove(source_model_of("Chaotic"), honest=Honest)
    assert not proved.sound
    findings = {finding.kind: finding for finding in proved.findings if finding.severity == "error"}
    assert {"failed-control"} <= set(findings) <= {"failed-control", "inaccurate-reference"}
    assert "'output'" in findings["failed-control"].message


def test_an_output_that_was_always_empty_is_not_proven_however_well_it_agrees(source_model_of):
    proved = prove(source_model_of("FindsNothing"), honest=Honest)
    assert proved.unexercised == {"output_0": proved.unexercised["output_0"]}
    assert [(finding.kind, finding.severity) for finding in proved.findings] == [("not-exercised", "error")]
    assert not proved.sound
    assert proved.judgements["honest"], "it agrees, and that proves nothing"


def test_an_output_that_other_rows_exercise_is_proven_and_a_candidate_that_finds_nothing_there_is_refused(source_model_of, tmp_path):
    source_model = source_model_of("FindsNothing")
    regions.write(tmp_path, [])
    far = {"x": np.linspace(-9e7, 9e7, 32, dtype="float32").reshape(8, 4)}
    search = Search([item.spec() for item in source_model.model.inputs], tmp_path, more=lambda: [far], real=True)
    proved = prove(source_model, search=search, honest=Honest, silent=Silent)
    assert proved.sound
    assert not proved.unexercised
    assert [name for name, judgement in proved.judgements.items() if judgement] == ["to_static", "honest"]
    assert [case.name for case in proved.evidence.cases if case.name.startswith("further")] == ["further rows, 1"]


def test_a_factory_that_fills_in_float32_values_is_measured_in_float64(source_model_of):
    evidence = prove(source_model_of("Filled"), honest=Honest).evidence
    assert (evidence.rule, evidence.why) == ("eager float64", "")


def test_a_model_that_paddle_cannot_cast_to_float64_is_an_error_that_says_so(source_model_of):
    with pytest.raises(ModelError, match="Recurrent cannot be cast to float64"):
        Eager(source_model_of("Recurrent"), dtype="float64")


def test_a_factory_that_makes_another_model_when_called_again_is_measured_in_float64_in_a_process_of_its_own(source_model_of):
    proved = prove(source_model_of("OnceAProcess"), honest=Honest)
    assert (proved.evidence.rule, proved.evidence.why) == ("eager float64", "")
    assert all(proved.judgements.values())


def test_what_the_user_decorated_with_to_static_is_eager_in_the_reference_and_as_decorated_elsewhere(source_model_of):
    eager, batch = Eager(source_model_of("Decorated")), {"x": np.ones((2, 4), np.float32)}
    answer = eager.run(batch)["output"]
    np.testing.assert_allclose(answer, batch["x"] @ eager.layer.linear.weight.numpy(), rtol=1e-5)
    with paddle.no_grad():
        np.testing.assert_allclose(eager.layer(paddle.to_tensor(batch["x"])).numpy(), 2 * answer, rtol=1e-5)


def test_a_model_that_answers_nothing_is_an_error(source_model_of):
    with pytest.raises(ModelError, match="ValueError: never"):
        prove(source_model_of("Refuses"))


def test_an_edge_that_eager_does_not_survive_is_refused_and_the_rest_is_proven(source_model_of):
    proved = prove(source_model_of("Fragile"), honest=Honest)
    assert "SIGABRT" in proved.refused["zeros"]
    assert proved.judgements["honest"]


@pytest.fixture
def asked_of_eager(monkeypatch):
    """How often each question was asked of eager's process, and how many of these processes were started."""
    counts = {"starts": 0}

    class Counting(reference.Isolated):
        def __init__(self, *arguments, **options):
            counts["starts"] += 1
            super().__init__(*arguments, **options)

        def call(self, method, *arguments):
            if method == "run":
                key = arguments[0]["x"].tobytes()
                counts[key] = counts.get(key, 0) + 1
            return super().call(method, *arguments)

    monkeypatch.setattr(reference, "Isolated", Counting)
    return counts


def test_after_a_death_only_what_was_not_answered_is_asked(source_model_of, asked_of_eager):
    source_model = source_model_of("Brittle", low=-3.0, high=3.0)
    cases = inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=8)
    proved = prove(source_model, cases=cases, honest=Honest)
    assert set(proved.refused) == {case.name for case in cases if case.group == "edge"}
    assert all("SIGABRT" in words for words in proved.refused.values())
    assert proved.judgements["honest"]
    for place, case in enumerate(cases):
        again, times = place < 2, asked_of_eager[case.inputs["x"].tobytes()]
        forms = times - again  # float32, float64, and where it converts, to_static: where it dies, in a new process too
        assert times == 1 if case.name in proved.refused else forms in (2, 3, 4), case.name
    assert asked_of_eager["starts"] - 1 - len(proved.refused) in (2, 3)  # one for float64, and for to_static one, or two if it dies


def test_after_some_deaths_no_other_edge_is_asked(source_model_of, asked_of_eager, monkeypatch):
    monkeypatch.setattr(crashes, "MAX_CRASHES", 2)
    source_model = source_model_of("Brittle", low=-3.0, high=3.0)
    cases = inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=8)
    proved = prove(source_model, cases=cases, honest=Honest)
    edges = [case.name for case in cases if case.group == "edge"]
    assert list(proved.refused) == edges
    assert all("2 cases" in proved.refused[name] for name in edges[2:])
    assert not any(case.inputs["x"].tobytes() in asked_of_eager for case in cases if case.name in edges[2:])
    assert proved.judgements["honest"]


def test_what_eager_answered_before_is_not_asked_again_but_for_two_cases(source_model_of, asked_of_eager):
    source_model = source_model_of("Plain")
    cases = inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=8)
    eager = Eager(source_model)
    earlier = EarlierAnswers({case.name: eager.run(case.inputs) for case in cases}, {})
    proved = proving.prove(source_model, cases, {}, settings=SETTINGS, say=lambda _: None, earlier=earlier)
    assert proved.judgements["to_static"]
    assert [asked_of_eager[case.inputs["x"].tobytes()] for case in cases] == [2 + (place < 2) for place in range(len(cases))]


@pytest.mark.parametrize(("task", "proven"), [("multilabel", False), ("multilabel_probabilities", True)])
def test_probabilities_are_not_proven_for_a_task_that_decides_by_logits(source_model_of, task, proven):
    source_model = source_model_of("Shares")
    cases = inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=8)
    proved = proving.prove(source_model, cases, {}, settings=SETTINGS, say=lambda _: None, task=task)
    assert [one.kind for one in proved.findings if one.severity == "error"] == ([] if proven else ["scores-form"])


def test_a_random_model_is_found_although_its_first_answers_were_known(source_model_of):
    source_model = source_model_of("Random")
    cases = inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=8)
    eager = Eager(source_model)
    earlier = EarlierAnswers({case.name: eager.run(case.inputs) for case in cases}, {})
    proved = proving.prove(source_model, cases, {}, settings=SETTINGS, say=lambda _: None, earlier=earlier)
    assert "random-forward" in [finding.kind for finding in proved.findings]


def test_rows_that_eager_does_not_survive_are_an_error_that_names_them(source_model_of):
    with pytest.raises(ModelError, match=r"\(row 0 alone\): eager died of SIGABRT"):
        prove(source_model_of("Dead"))


def test_a_small_fault_of_the_program_is_found_on_eagers_kernels_and_condemns_what_was_converted_from_it(source_model_of):
    source_model = source_model_of("Plain")
    loose = SETTINGS.model_copy(
        update={"invariance_limit": 4.0}
    )  # another batch may then change by 8: this test is about the program alone
    program = ModelUnderTest(SlightlyOff, (source_model,), exact=True)
    judged = prove(source_model, loose, converted=SlightlyOffAndRoundedOtherwise, honest=Honest, program=program).judgements
    assert failed(judged["program"]) == {"departure_ratio"}
    assert [finding.kind for finding in judged["program"].findings] == ["program-departs"]
    assert failed(judged["converted"]) == {"departure_share"}
    assert judged["honest"]
    assert prove(source_model, loose, converted=SlightlyOffAndRoundedOtherwise).judgements["converted"]


def test_an_honest_program_on_eagers_kernels_departs_by_nothing(source_model_of):
    source_model = source_model_of("Plain")
    judged = prove(source_model, program=ModelUnderTest(Honest, (source_model,), exact=True)).judgements
    assert judged["program"].metrics["departure_ratio"] == judged["to_static"].metrics["departure_ratio"] == 0

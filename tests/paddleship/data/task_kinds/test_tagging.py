"""A tagging task: a tag for each character or step in, spans in each answer; padding counts nowhere."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from paddleship.acceptance import judging
from paddleship.config.sections.data import Data
from paddleship.config.sections.verify import Verify
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.data.row_validation import RowValidator
from paddleship.data.task_kinds import positions, registry
from paddleship.data.task_kinds.positions import PADDING
from paddleship.data.task_kinds.registration import UntrainedOutput
from paddleship.errors import DataError, ModelError
from paddleship.promotion import score_comparison
from paddleship.proof import evidence, invariance, parity
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.computing.task_kinds.tagging import spans

CLASSES = ["O", "B-DATE", "I-DATE", "B-NAME"]
KIND = registry.get("tagging")
RANDOM = np.random.default_rng(0)
ROWS = 200
LENGTHS = [3 + index % 7 for index in range(ROWS)]
OWN = [RANDOM.integers(0, 4, length) for length in LENGTHS]
LABELS = positions.stack(OWN, np.int64, pad=PADDING)
SCORES = RANDOM.uniform(-1, 1, (ROWS, 12, 4)).astype(np.float32)  # rows are padded further than labels
for row, tags in enumerate(OWN):
    SCORES[row, np.arange(len(tags)), tags] += 3
PARTS = [[(index, index + 1) for index in range(length)] for length in LENGTHS]

IDS = TensorSpec("ids", "int64", ("batch", "length"))
TEXT = {"kind": "characters", "column": "text", "input": "ids", "max_length": 8, "multiple_of": 4}
STEPS = TensorSpec("x", "float32", ("batch", "length", 2))


def data(**changes):
    values = {"raw": "raw", "reader": "m:read", "inputs": ["text"], "label": "tags", "task": "tagging", "classes": CLASSES}
    return Data(**values | {"validation": 0.2, "test": 0.2} | changes)


def validator(config=TEXT, specs=(IDS,), **changes):
    return RowValidator(data(**changes), preprocess.build(config, specs))


def placed(text, tags):
    """The stored label of a text whose tags are named by their first letters."""
    names = {"O": "O", "D": "B-DATE", "I": "I-DATE", "N": "B-NAME"}
    return validator().label(3, [names[tag] for tag in tags], [text]).tolist()


@pytest.mark.parametrize("tags", [["B-NAME", "O"], ("B-NAME", "O"), np.array(["B-NAME", "O"]), [3, 0], np.array([3, 0])], ids=str)
def test_a_label_is_a_list_of_names_or_of_ids(tags):
    assert KIND.labels.reader("tags", CLASSES).read(3, tags).tolist() == [3, 0]


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("OO", "row 3 of data.reader: column 'tags' holds 'OO', and a tagging row needs a list of tags"),
        (1, "needs a list of tags"),
        (["O", "B-PLACE"], "neither a class id nor one of data.classes"),
        ([[0], "x"], "neither a class id nor one"),
        ([0, 4], "holds the class id 4, and data.classes has 4 names"),
        (["O", 1], "let data.reader return class names in all rows"),
    ],
)
def test_a_label_that_is_no_list_of_tags_is_refused_with_its_row(tags, words):
    with pytest.raises(DataError, match=words):
        KIND.labels.reader("tags", CLASSES).read(3, tags)


def test_tags_must_be_named():
    with pytest.raises(DataError, match="a tagging task needs the names of all tags"):
        KIND.labels.reader("tags", [])


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_text_needs_one_tag_for_each_of_its_characters(count):
    with pytest.raises(DataError, match=rf"row 3 of data.reader: column 'tags' has {count} entries, and 'text' 3 characters: return one"):
        validator().label(3, ["O"] * count, ["abc"])


@pytest.mark.parametrize(
    ("text", "tags", "stored"),
    [
        ("abc", "ODI", [0, 1, 2]),
        (" abc \n", "NODION", [0, 1, 2]),  # white space at the ends
        ("a \t b", "DIION", [1, 2, 3]),  # several spaces become one
        ("e\u0301a", "DIN", [1, 3]),  # two characters become one
        ("a\ufb01b", "ODN", [0, 1, 1, 3]),  # one becomes two
        ("abcdefghijk", "OOOOOOODNNN", [0] * 7 + [1]),  # max_length
        ("\ufb01" * 8, "DNDNDNDN", [1, 1, 3, 3, 1, 1, 3, 3]),  # max_length after normalisation
    ],
    ids=ascii,
)
def test_a_label_is_stored_by_the_positions_that_the_model_reads(text, tags, stored):
    assert placed(text, tags) == stored
    (example,) = preprocess.build(TEXT, [IDS]).encode({"text": [text]})
    assert len(example["ids"]) == len(stored)


def test_a_sequence_needs_one_tag_for_each_step_without_padding_at_its_end():
    steps = validator({"kind": "tensors"}, [STEPS], inputs=["x"])
    padded = np.array([[1, 2], [0, 0], [0, 3], [0, 0]], np.float32)
    assert steps.label(3, ["O", "B-NAME", "O"], [padded]).tolist() == [0, 3, 0]
    with pytest.raises(DataError, match=r"has 4 entries, and 'x' 3 steps, without padding at its end: .* or set pad in model.inputs"):
        steps.label(3, ["O"] * 4, [padded])
    with pytest.raises(DataError, match="and 'x' 0 steps"):
        steps.label(3, [], [np.zeros((2, 2), np.float32)])
    fixed = validator({"kind": "tensors"}, [TensorSpec("x", "float32", ("batch", 4, 2))], inputs=["x"])
    assert len(fixed.label(3, ["O"] * 4, [padded])) == 4, "a row of fixed size is not padded"


def test_the_positions_are_those_of_the_input_that_grows():
    specs = (TensorSpec("age", "float32", ("batch",)), TensorSpec("flags", "float32", ("batch", 3)), STEPS)
    chosen = preprocess.build({"kind": "tensors"}, specs)
    assert chosen.sequence.column == "x"
    two = np.ones((2, 2), np.float32)
    padded = np.pad(two, ((0, 3), (0, 0)))  # as a client pads the rows of a request
    assert chosen.positions({"x": [two, padded]}) == [[(0, 1), (1, 2)]] * 2
    with pytest.raises(DataError, match="no input of the model has positions"):
        validator({"kind": "tensors"}, specs[:1], inputs=["age"])


def test_rows_of_different_length_are_stored_and_read_again_and_other_tags_contradict(tmp_path):
    texts = ["".join(chr(97 + (index * step) % 26) for step in range(1, 3 + index % 5)) + str(index) for index in range(120)]
    rows = [{"text": text, "tags": [CLASSES[(ord(one) + index) % 4] for one in text]} for index, text in enumerate(texts)]
    wanted = {row["text"]: [CLASSES.index(tag) for tag in row["tags"]][:8] for row in rows}
    rows.append({"text": f" {texts[0]}", "tags": ["O"] * (1 + len(texts[0]))})
    splits, counts = dataset.clean(rows, data(), validator())
    assert counts.contradictory == 2
    dataset.write(splits, {}, tmp_path)
    for split in dataset.SPLITS:
        again = dataset.read(tmp_path, split)
        assert np.array_equal(again.labels, splits[split].labels)
        assert again.labels.dtype == np.int64
        for text, label in zip(again.columns["text"], again.labels, strict=True):
            assert label[label != PADDING].tolist() == wanted[text]


def test_a_row_that_is_shorter_than_the_others_has_no_padding_in_the_file(tmp_path):
    from pyarrow import parquet

    rows = Rows({"text": ["ab", "abc"]}, np.array([[1, 2, PADDING], [0, 0, 3]]), ["1", "2"])
    dataset.write({"train": rows}, {}, tmp_path)
    assert parquet.read_table(tmp_path / "train.parquet")["__label__"].to_pylist() == [[1, 2], [0, 0, 3]]


@pytest.mark.parametrize(
    "labels",
    [
        [[1, 2, PADDING], [0, 0, 3]],
        [[1, PADDING], [2, PADDING]],
        [[1, PADDING, 2], [0, 0, 3]],
        [[PADDING, PADDING], [0, 0]],
        [[1, 0], [0, 1]],
        [1, PADDING],
        [[0.5, PADDING], [1, 2]],
    ],
    ids=str,
)
def test_labels_that_are_written_are_read_again_whatever_they_hold(labels, tmp_path):
    rows = Rows({"text": ["ab", "abc"]}, np.array(labels), ["1", "2"])
    dataset.write({"train": rows}, {}, tmp_path)
    again = dataset.read(tmp_path, "train").labels
    assert again.tolist() == labels


def test_scores_count_positions_and_whole_spans_and_no_padding():
    labels = np.array([[1, 2, 0, 3], [0, 0, PADDING, PADDING]])
    tags = np.array([[1, 2, 3, 3, 1, 1], [0, 1, 2, 2, 2, 2]])
    outputs = np.eye(4)[tags]
    assert KIND.score.of(outputs, labels) == pytest.approx(4 / 6)
    assert KIND.score.of(outputs[:, :4], labels) == KIND.score.of(outputs, np.pad(labels, ((0, 0), (0, 9)), constant_values=PADDING))
    found = {"DATE 0-2", "NAME 2-3", "NAME 3-4"}, {"DATE 1-2"}
    assert KIND.further["span_f1"](outputs, labels, CLASSES) == pytest.approx(2 * 2 / (len(found[0]) + len(found[1]) + 2))
    assert np.isnan(KIND.further["span_f1"](outputs[1:, :1], labels[1:, :1], CLASSES))


def test_the_loss_is_that_of_the_positions_that_have_a_label():
    import paddle

    outputs = paddle.to_tensor(SCORES[:6])
    padded = KIND.batched(LABELS[:6], lambda: 12)
    mean = np.mean(
        [
            -np.log(np.exp(row[at]) / np.exp(row).sum())
            for row, at in zip(positions.at(SCORES[:6], LABELS[:6]), np.concatenate(OWN[:6]), strict=True)
        ]
    )
    assert float(KIND.loss(outputs, paddle.to_tensor(padded))) == pytest.approx(float(mean), rel=1e-5)
    assert KIND.batched(LABELS[:1], lambda: 3).shape == (1, 3)


def test_outputs_for_batches_of_different_width_are_put_together():
    joined = KIND.joined([SCORES[:2, :3], SCORES[2:5, :8]])
    assert joined.shape == (5, 8, 4)
    assert np.array_equal(joined[0, :3], SCORES[0, :3])
    assert KIND.fits(joined, LABELS[:5, :8])
    assert not KIND.fits(joined[:, :4], LABELS[:5])


def test_the_bootstrap_computes_the_same_score():
    assert KIND.score.of_rows(KIND.score.rows(SCORES, LABELS), LABELS) == KIND.score.of(SCORES, LABELS)


def test_the_constant_answer_is_the_most_frequent_tag():
    share = max(np.bincount(np.concatenate(OWN))) / sum(LENGTHS)
    assert KIND.score.of(KIND.constant(LABELS, SCORES, LABELS).outputs, LABELS) == pytest.approx(share)
    assert KIND.constant(LABELS, SCORES[:, 0], LABELS) is None


def test_a_model_that_learned_nothing_and_a_tag_that_is_never_chosen_are_findings():
    assert KIND.findings(SCORES, LABELS, CLASSES) == []
    shy = SCORES.copy()
    shy[..., 3] = -9
    found = KIND.findings(shy, LABELS, CLASSES)
    assert [(one.kind, one.severity) for one in found] == [("unchosen-class", "warning")]
    assert f"'B-NAME' ({sum(3 in tags for tags in OWN)} rows, " in found[0].message
    padding_only = SCORES.copy()
    padding_only[..., 3] = -9
    padding_only[LABELS.shape[0] - 1, 11, 3] = 9
    assert [one.kind for one in KIND.findings(padding_only, LABELS, CLASSES)] == ["unchosen-class"], "padding is no choice"
    majority = int(np.bincount(np.concatenate(OWN)).argmax())
    same = KIND.findings(np.tile(np.eye(4)[majority], (ROWS, 12, 1)), LABELS, CLASSES)
    assert [one.kind for one in same] == ["no-skill", "unchosen-class"]


def test_labels_are_described_without_padding():
    assert KIND.labels.facts(np.array([[0, 1], [0, PADDING]]), CLASSES) == {
        "class_share": {"O": 0.6667, "B-DATE": 0.3333, "I-DATE": 0.0, "B-NAME": 0.0}
    }
    assert PADDING not in KIND.labels.plotted(LABELS)
    parts = {"train": LABELS, "test": np.where(LABELS == 3, 0, LABELS)}
    (finding,) = KIND.labels.findings(parts, CLASSES)
    assert (finding.kind, "'B-NAME'" in finding.message) == ("absent-class", True)
    with pytest.raises(DataError, match="the training part has one tag only \\('O'\\)"):
        KIND.labels.require(np.array([[0, 0], [0, PADDING]]), CLASSES)


def test_the_first_output_must_have_one_logit_for_each_tag_of_each_position():
    wanted = UntrainedOutput("scores", [8, 12, 4], 8, CLASSES, [LABELS], own_loss=False, positions=12)
    assert KIND.check_output(wanted) == []
    for shape in ([8, 4], [8, 12, 3], [8, 6, 4]):
        with pytest.raises(ModelError, match=r"has the shape .* let forward return \[8, 12, 4\]"):
            KIND.check_output(replace(wanted, shape=shape))


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O", []),
        ("B-X I-X O B-X", [("X", 0, 2), ("X", 3, 4)]),
        ("B-X B-X I-X", [("X", 0, 1), ("X", 1, 3)]),
        ("I-X I-X I-Y", [("X", 0, 2), ("Y", 2, 3)]),
        ("digit digit word O word", [("digit", 0, 2), ("word", 2, 3), ("word", 4, 5)]),
        ("B- I-", [("B-", 0, 1), ("I-", 1, 2)]),
    ],
)
def test_spans_are_runs_of_a_tag_and_b_begins_one(tags, found):
    assert spans(tags.split()) == found


def served(**changes):
    specs = (TensorSpec("scores", "float32", ("batch", "length", 4)),)
    values = {"inputs": (IDS,), "outputs": specs, "preprocess": TEXT, "weights_sha256": "", "task": "tagging", "classes": tuple(CLASSES)}
    return Candidate("x", "m", "onnxruntime", "float32", 1, **{**values, **changes})


def test_an_answer_names_the_spans_of_the_text_that_was_sent():
    texts = ["  e\u0301a \t b", "\ufb01x", "ab" * 9]
    chosen = preprocess.build(TEXT, [IDS])
    tags = np.zeros((3, 8), int)
    tags[0, :4] = [1, 2, 2, 2]  # éa b, in which é, the gap and all that follows are one span
    tags[1, :3] = [1, 1, 3]  # of the two positions of one character the first decides
    tags[2, 6:] = [3, 1]
    labels = served().label_rows(np.eye(4)[tags], lambda: chosen.positions({"text": texts}))
    assert [json.loads(label) for label in labels] == [
        [{"tag": "DATE", "start": 2, "end": 9}],
        [{"tag": "DATE", "start": 0, "end": 1}, {"tag": "NAME", "start": 1, "end": 2}],
        [{"tag": "NAME", "start": 6, "end": 7}, {"tag": "DATE", "start": 7, "end": 8}],
    ]


def test_a_candidate_names_tags_if_its_first_output_has_a_score_for_each_tag_of_each_position():
    assert served().labels == tuple(CLASSES)
    for shape in (("batch", 4), ("batch", "length", 3)):
        assert served(outputs=(TensorSpec("scores", "float32", shape),)).labels == ()


def known(scores=SCORES):
    """The rows in two batches, of which the first is padded less."""
    few = [row for row in range(ROWS) if LENGTHS[row] <= 4]
    many = [row for row in range(ROWS) if LENGTHS[row] > 4]
    cases = [Case(str(len(rows)), "rows", {"ids": np.zeros((len(rows), 1))}, tuple(rows)) for rows in (few, many)]
    reference = answered(scores)
    truth = [{"scores": one["scores"].astype(np.float64)} for one in reference]
    return evidence.gather(cases, reference, truth, task="tagging", labels=LABELS)


def answered(scores):
    few = [row for row in range(ROWS) if LENGTHS[row] <= 4]
    return [{"scores": scores[few][:, :4]}, {"scores": scores[[row for row in range(ROWS) if row not in few]]}]


def test_a_lower_precision_is_judged_by_the_positions_that_change():
    flipped, padding = SCORES.copy(), SCORES.copy()
    flipped[:40, 0] *= -1
    for row, length in enumerate(LENGTHS):
        padding[row, length:] = -50 * padding[row, length:]
    judged = parity.judge(known(), answered(flipped), limits=Verify(), precision="int8")
    assert judged.metrics["flip_rate"] == pytest.approx(40 / sum(LENGTHS))
    assert judged.metrics["metric_drop"] == pytest.approx(40 / sum(LENGTHS))
    assert not judged
    same = parity.judge(known(), answered(padding), limits=Verify(), precision="int8")
    assert same, "padding counts nowhere"
    assert (same.metrics["flip_rate"], same.metrics["decided_slope"], same.metrics["decided_offset"]) == (0, 1, 0)
    assert not parity.judge(known(), answered(padding), limits=Verify()), "float32 must be eager's numbers everywhere"


def test_an_answer_that_changes_with_the_padding_of_its_batch_is_found():
    made = known()
    alone = Case("wide", "rows", {"ids": np.zeros((1, 1))}, (0,))
    made = replace(made, cases=(*made.cases, alone))
    own, padding = SCORES[:1].copy(), SCORES[:1].copy()
    own[0, 1, 2] += 1
    padding[0, LENGTHS[0] :] += 9
    found = [invariance.batch_changes(made, [*answered(SCORES), {"scores": one}])["scores"] for one in (SCORES[:1], padding, own)]
    assert found == [0, 0, pytest.approx(1 / made.noise["rows"]["scores"].largest)]


def test_flipped_decisions_are_drawn_by_position():
    before, after = parity.decisions(known(), answered(SCORES))
    assert before.tolist() == after.tolist() == np.concatenate(OWN).tolist()


def labelled(scores, parts=PARTS):
    return KIND.decision.answers(scores, CLASSES, parts)


def test_a_server_that_names_other_spans_is_refused_unless_eager_is_undecided():
    made = known()
    names = dict(enumerate(labelled(SCORES)))
    given = [
        {**answer, "label": np.array([names[row] for row in case.rows], object)}
        for case, answer in zip(made.cases, made.reference, strict=True)
    ]
    one = judging.ServedCandidate("float32", tuple(CLASSES), "tagging", PARTS)
    assert judging.label_faults(given, made, one, Verify()) == []
    wrong = [answer | {"label": np.full(len(answer["label"]), "[]", object)} for answer in given]
    assert judging.label_faults(wrong, made, one, Verify())
    undecided, other = SCORES.copy(), SCORES.copy()
    undecided[0, 0], other[0, 0] = [1e-9, 0, 0, 0], [0, 0, 0, 1e-9]
    other[0, LENGTHS[0] :] = 5 * np.eye(4)[0]  # padding is decided otherwise too
    made = known(undecided)
    reworded = [dict(answer) for answer in answered(other)]
    for case, answer in zip(made.cases, reworded, strict=True):
        answer["label"] = np.array([labelled(other)[row] for row in case.rows], object)
    assert labelled(undecided)[0] != labelled(other)[0]
    assert judging.label_faults(reworded, made, one, Verify()) == []
    eager, other = np.array([[1e-7, 0], [2, 0]]), np.array([[0, 1e-7], [3, 0]])
    assert KIND.margin(eager, other) == pytest.approx(1e-7)
    assert KIND.margin(eager, eager) == 0


def test_two_models_are_compared_by_score_and_by_rows_whose_spans_change():
    rows = Rows({"text": ["a" * length for length in LENGTHS]}, LABELS, [str(index) for index in range(ROWS)])
    worse = SCORES.copy()
    worse[:30, :2] *= -1

    def answers(scores, named):
        labels = labelled(scores)
        return [
            {"scores": scores[row : row + 1, : LENGTHS[row] + 2]} | ({"label": np.array([labels[row]], object)} if named else {})
            for row in range(ROWS)
        ]

    for named in (True, False):
        both = answers(SCORES, named), answers(worse, named)
        found = score_comparison.compare(rows, *both, task="tagging", classes=CLASSES, positions=PARTS)
        assert (found.metric, found.champion, found.challenger) == ("tag_accuracy", 1, KIND.score.of(worse, LABELS))
        assert found.drop.low > 0
    assert found.flips == 30
    assert found.examples[0]["champion"] == str(OWN[0].tolist())
    spans_changed = sum(one != two for one, two in zip(labelled(SCORES), labelled(worse), strict=True))
    found = score_comparison.compare(rows, answers(SCORES, True), answers(worse, True), task="tagging", classes=CLASSES, positions=PARTS)
    assert found.flips == spans_changed
    assert found.examples[0]["champion"] == found.examples[0]["label"] != found.examples[0]["challenger"]


def test_positions_are_only_found_for_a_task_that_decides_them():
    rows = Rows({"text": ["ab"]}, np.array([[0, 1]]), ["1"])
    chosen = preprocess.build(TEXT, [IDS])
    assert dataset.positions_of(chosen, rows, SimpleNamespace(task="tagging")) == [[(0, 1), (1, 2)]]
    assert dataset.positions_of(chosen, rows, SimpleNamespace(task="classification")) == []

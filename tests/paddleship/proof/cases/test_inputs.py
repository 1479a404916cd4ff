"""Inputs that find differences: every size that matters is there, values stay in range, and the worst come back."""

import numpy as np
import pytest

from paddleship.errors import DataError
from paddleship.proof import coverage
from paddleship.proof.cases import batches, id_cases, inputs, regression_cases
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import Dimension, TensorSpec

IDS = TensorSpec("ids", "int64", ("batch", "length"), 0, 9)
LENGTHS = [4, 1, 9, 5, 2, 7, 3, 8, 6, 10]


def examples():
    return [{"ids": np.full(length, index % 10)} for index, length in enumerate(LENGTHS)]


def cases(max_batch=4):
    return inputs.from_rows(examples(), [IDS], build({}, [IDS]).collate, max_batch=max_batch)


def many(max_batch, count=256):
    rows = [{"ids": np.full(1 + row % 10, row % 10)} for row in range(count)]
    return inputs.from_rows(rows, [IDS], build({}, [IDS]).collate, max_batch=max_batch)


def test_every_batch_size_up_to_the_largest_is_asked():
    assert {len(case.rows) for case in many(32)} >= set(range(1, 33))
    assert {len(case.rows) for case in many(1)} == {0, 1, 2}


def test_each_row_is_in_several_batches_of_different_size():
    seen = {}
    for case in many(32):
        for row in case.rows:
            seen.setdefault(row, set()).add(len(case.rows))
    assert len(seen) == 256
    assert all(len(sizes) > 1 for sizes in seen.values())


def test_each_row_is_asked_where_the_batches_are_small():
    assert {row for case in many(3) for row in case.rows} == set(range(256))


def test_of_very_large_batches_a_selection_is_asked_that_holds_the_odd_ones():
    asked = batches.sizes(1000)
    assert asked[:64] == list(range(1, 65))
    assert set(asked) >= {65, 96, 127, 128, 129, 192, 255, 256, 257, 511, 513, 999, 1000}
    assert len(asked) < 90
    assert batches.sizes(64) == list(range(1, 65))
    assert batches.sizes(65)[-1] == 65
    assert batches.describe([1, 2, 3, 5, 7, 8]) == "1 to 3, 5, 7, 8"


def test_the_shortest_and_longest_rows_and_those_of_the_limits_are_in_one_largest_batch():
    rows = [{"ids": np.full(length, 1)} for length in (3, 4)]
    limits = {"length 12": {"ids": np.full(12, 2)}}
    found = {case.name: case for case in inputs.from_rows(rows, [IDS], build({}, [IDS]).collate, max_batch=4, limits=limits)}
    assert found["length 12, alone"].inputs["ids"].shape == (1, 12)
    assert found["batch of 4 with all shortest and longest rows"].inputs["ids"].shape == (4, 12)


def test_the_shortest_middle_and_longest_rows_are_asked_alone_and_together():
    alone = {case.name: LENGTHS[case.rows[0]] for case in cases() if len(case.rows) == 1}
    assert (alone["shortest length, alone"], alone["middle length, alone"], alone["longest length, alone"]) == (1, 6, 10)
    together = next(case for case in cases() if case.name == "shortest and longest length")
    assert [LENGTHS[row] for row in together.rows] == [1, 10]


def test_few_rows_are_repeated_to_the_largest_batch():
    largest = next(case for case in cases(max_batch=32) if case.name == "batch of 32")
    assert largest.inputs["ids"].shape == (32, 10)


def test_edges_hold_zeros_extremes_padding_and_first_and_last_id():
    mask = TensorSpec("mask", "bool", ("batch", "length"))
    scale = TensorSpec("scale", "float32", ("batch",), pad=-1)
    seen = [{"ids": np.full((2, 3), 4), "mask": np.ones((2, 3), bool), "scale": np.float32([-2.5, 7])}]
    found = {case.name: case.inputs for case in inputs.edges([IDS, mask, scale], seen)}
    assert found["zeros"]["ids"].tolist() == [[0, 0, 0]] * 2
    assert found["lowest values"]["scale"].tolist() == [-2.5, -2.5]
    assert found["highest values"]["ids"].max() == 9
    assert found["lowest and highest values in turn"]["ids"].tolist() == [[0, 9, 0], [9, 0, 9]]
    assert found["padding only"]["scale"].tolist() == [-1, -1]
    assert not found["padding only"]["mask"].any()


def test_what_is_never_padded_keeps_its_range_beside_padding():
    lengths, rows = TensorSpec("lengths", "int64", ("batch",), 1, 9), TensorSpec("rows", "float32", ("batch", "time"), 1, 2)
    found = {case.name: case.inputs for case in inputs.generate([rows, lengths], seed=0, max_batch=2)}["padding only"]
    assert found["lengths"].tolist() == [1, 1]
    assert not found["rows"].any()


def test_edges_are_as_long_as_the_longest_row_so_that_a_length_fits_into_it():
    lengths, rows = TensorSpec("lengths", "int64", ("batch",)), TensorSpec("rows", "float32", ("batch", "time"))
    seen = [{"lengths": np.int64([time]), "rows": np.ones((1, time), np.float32)} for time in (2, 5, 3)]
    found = {case.name: case.inputs for case in inputs.edges([lengths, rows], seen)}["highest values"]
    assert found["lengths"].tolist() == [5, 5]
    assert found["rows"].shape == (2, 5)


def test_drawn_inputs_stay_in_their_range_and_are_the_same_for_a_seed():
    image = TensorSpec("image", "float32", ("batch", 3, "height", "width"), 0, 1)
    drawn = inputs.generate([IDS, image], seed=3, max_batch=8)
    for case in drawn:
        assert 0 <= case.inputs["ids"].min() <= case.inputs["ids"].max() <= 9
        assert 0 <= case.inputs["image"].min() <= case.inputs["image"].max() <= 1
    again = inputs.generate([IDS, image], seed=3, max_batch=8)
    assert all(np.array_equal(one.inputs["ids"], two.inputs["ids"]) for one, two in zip(drawn, again, strict=True))
    assert {case.inputs["image"].shape[2:] for case in drawn} >= {(32, 32), (16, 32), (32, 16), (16, 16)}
    assert {len(case.rows) for case in drawn} >= set(range(1, 9))


def test_known_sizes_are_kept():
    assert {case.inputs["ids"].shape[1] for case in inputs.generate([IDS], seed=0, max_batch=4, sizes={"length": 5})} == {5}


def test_the_worst_cases_come_back_once_each(tmp_path):
    folder = tmp_path / "regression"
    worst = cases()[0]
    regression_cases.write(folder, [], [worst, worst])
    known = regression_cases.read(folder, [IDS])
    assert len(known) == 1
    assert known[0].group == "past"
    assert np.array_equal(known[0].inputs["ids"], worst.inputs["ids"])
    regression_cases.write(folder, known, [worst, cases()[2]])
    assert len(regression_cases.read(folder, [IDS])) == 2


def test_a_known_case_that_is_asked_anyway_is_not_asked_twice(tmp_path):
    regression_cases.write(tmp_path / "regression", [], [cases()[0], cases()[2]])
    known = regression_cases.read(tmp_path / "regression", [IDS])
    assert regression_cases.beyond(known, cases()) == []
    (left,) = regression_cases.beyond(known, cases()[1:])
    assert np.array_equal(left.inputs["ids"], cases()[0].inputs["ids"])


def test_the_worst_cases_of_another_model_are_left_out(tmp_path):
    regression_cases.write(tmp_path / "regression", [], [cases()[0]])
    assert regression_cases.read(tmp_path / "regression", [TensorSpec("ids", "int32", ("batch", "length"))]) == []
    assert regression_cases.read(tmp_path / "regression", [TensorSpec("ids", "int64", ("batch", 64))]) == []
    assert regression_cases.read(tmp_path / "nothing", [IDS]) == []


def test_the_worst_cases_of_sizes_that_are_no_longer_taken_are_left_out(tmp_path):
    worst = cases()[0]
    count, length = worst.inputs["ids"].shape
    regression_cases.write(tmp_path / "regression", [], [worst])
    assert len(regression_cases.read(tmp_path / "regression", [IDS], dimensions=[Dimension("length", 1, length)], max_batch=count)) == 1
    assert regression_cases.read(tmp_path / "regression", [IDS], dimensions=[Dimension("length", 1, length - 1)], max_batch=count) == []
    assert regression_cases.read(tmp_path / "regression", [IDS], dimensions=[Dimension("length", 1, length)], max_batch=count - 1) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [("cases.npz", b"PK"), ("cases.npz", None), ("cases.json", b"{"), ("cases.json", b"7"), ("cases.json", b"\xff")],
)
def test_damaged_cases_of_earlier_runs_are_one_error_with_the_next_step(tmp_path, file, content):
    folder = tmp_path / "regression"
    regression_cases.write(folder, [], [cases()[0]])
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DataError, match=r"cannot be read .*: restore them with `dvc checkout .*regression`, or delete the folder"):
        regression_cases.read(folder, [IDS])


USER = TensorSpec("user", "int64", ("batch",), 1, 100)
ITEM = TensorSpec("item", "int32", ("batch",), 0, 36)
KEEP = TensorSpec("keep", "int64", ("batch", "length"), 0, 1)
STEPS = TensorSpec("steps", "int64", ("batch",), 1, "length")


def walked(specs, **settings):
    drawn = inputs.generate(specs, seed=0, max_batch=4)
    return id_cases.walk(specs, [case.inputs for case in drawn], **{"max_batch": 4, **settings})


def test_every_id_of_a_range_is_asked_in_as_few_rows_as_hold_them():
    vocabulary = TensorSpec("ids", "int64", ("batch", "length"), 0, 999)
    found = walked([vocabulary])
    assert {value for case in found for value in case.inputs["ids"].ravel()} == set(range(1000))
    assert [case.inputs["ids"].shape for case in found] == [(4, 32)] * 8
    assert {case.family for case in found} == {"every id of ids"}
    assert coverage.measure(found, [vocabulary], {}).ids == {"ids": 1.0}
    assert coverage.measure(found[:2], [vocabulary], {}).ids == {"ids": 0.256}


def test_inputs_of_one_shape_are_walked_together_and_each_takes_its_whole_range():
    found = walked([USER, ITEM])
    assert len(found) == 25
    assert coverage.measure(found, [USER, ITEM], {}).ids == {"user": 1.0, "item": 1.0}
    assert all(case.inputs["item"].dtype == "int32" and case.inputs["item"].max() <= 36 for case in found)


def test_a_mask_or_a_length_hides_no_id_that_is_walked():
    table = TensorSpec("ids", "int64", ("batch", "length"), 0, 999)
    drop = TensorSpec("drop", "bool", ("batch", "length"))
    masks = {"keep": np.int64([[1, 0] * 4]), "drop": np.array([[False] * 7 + [True]])}
    alone = {"ids": np.zeros((1, 8), np.int64), "steps": np.int64([3]), **masks}
    found = id_cases.walk([table, KEEP, STEPS, drop], [alone], max_batch=32)
    asked = [case.inputs for case in found if case.family == "every id of ids"]
    assert all((batch["steps"] == 8).all() for batch in asked)
    for mask in masks:
        for value in (0, 1):
            assert {number for batch in asked for number in batch["ids"][batch[mask] == value]} == set(range(1000))
    lengths = [case.inputs["steps"] for case in found if case.family == "every id of steps"]
    assert np.concatenate(lengths).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_range_beyond_what_can_be_asked_is_walked_in_even_steps_with_both_ends():
    hashed = TensorSpec("hashed", "int64", ("batch",), 0, 2**62)
    found = walked([hashed], max_batch=64)
    values = np.concatenate([case.inputs["hashed"] for case in found])
    assert (values[0], values[-1], len(values)) == (0, 2**62, 16_384)


def test_inputs_without_a_range_and_of_other_types_are_not_walked():
    assert walked([TensorSpec("x", "float32", ("batch", 2), 0, 9), TensorSpec("n", "int64", ("batch",))]) == []
    assert walked([TensorSpec("flag", "bool", ("batch",))]) == []


def test_a_bound_that_names_a_dimension_is_kept_in_every_drawn_and_extreme_case():
    rows = TensorSpec("rows", "float32", ("batch", "length", 2))
    last = TensorSpec("last", "int64", ("batch",), 0, "length - 1")
    for case in inputs.generate([rows, STEPS, last], seed=0, max_batch=4):
        length = case.inputs["rows"].shape[1]
        assert 1 <= case.inputs["steps"].min() <= case.inputs["steps"].max() <= length
        assert 0 <= case.inputs["last"].min() <= case.inputs["last"].max() < length


def test_sizes_are_drawn_as_the_rules_allow_and_the_largest_is_asked_alone_and_in_the_largest_batch():
    rule = Dimension("length", 32, 96, 32)
    drawn = inputs.generate([IDS], seed=0, max_batch=4, dimensions=[rule])
    assert {case.inputs["ids"].shape[1] for case in drawn} == {32, 64, 96}
    assert {len(case.inputs["ids"]) for case in drawn if case.inputs["ids"].shape[1] == 96} >= {1, 4}


def test_a_size_that_leaves_an_input_without_a_value_is_not_drawn():
    least = TensorSpec("least", "int64", ("batch",), 40, "length")
    drawn = inputs.generate([IDS, least], seed=0, max_batch=4)
    assert min(case.inputs["ids"].shape[1] for case in drawn) >= 40


def test_the_coverage_names_the_batches_the_sizes_and_the_share_of_ids_that_were_asked():
    asked = cases(max_batch=4)
    found = coverage.measure(asked, [IDS], {})
    assert (found.batches, found.sizes["length"], found.ids) == ("1 to 4", (1, 10), {"ids": 1.0})
    odd = [case for case in asked if len(case.inputs["ids"]) in (1, 4)]
    assert coverage.measure(odd, [IDS], {}).batches == "1, 4"
    steps = TensorSpec("steps", "int64", ("batch",), 1, "length")
    assert coverage.measure(
        id_cases.walk([IDS, steps], [{"ids": np.zeros((1, 3), int), "steps": np.ones(1, int)}], max_batch=4), [IDS, steps], {}
    ).ids == {"ids": 1.0}

"""Inputs that find differences: every size that matters is there, values stay in range, and the worst come back."""

import numpy as np
import pytest

from paddleship.errors import DataError
from paddleship.preprocess import Tensors
from paddleship.proof import inputs, past
from paddleship.spec import TensorSpec

IDS = TensorSpec("ids", "int64", ("batch", "length"), 0, 9)
LENGTHS = [4, 1, 9, 5, 2, 7, 3, 8, 6, 10]


def examples():
    return [{"ids": np.full(length, index % 10)} for index, length in enumerate(LENGTHS)]


def cases(max_batch=4):
    return inputs.from_rows(examples(), [IDS], Tensors([IDS]).collate, max_batch=max_batch)


def test_rows_are_asked_in_batches_of_1_2_a_prime_and_the_largest():
    sizes = {len(case.rows) for case in cases()}
    assert {1, 2, 7, 4} <= sizes
    assert {row for case in cases() for row in case.rows} == set(range(10))


def test_rows_are_asked_in_every_power_of_two_as_a_server_and_a_benchmark_join_them():
    assert {2, 4, 7, 8, 16} <= {len(case.rows) for case in inputs.from_rows(examples() * 2, [IDS], Tensors([IDS]).collate, max_batch=32)}


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
    assert {len(case.rows) for case in drawn} >= {1, 2, 7, 8}


def test_known_sizes_are_kept():
    assert {case.inputs["ids"].shape[1] for case in inputs.generate([IDS], seed=0, max_batch=4, sizes={"length": 5})} == {5}


def test_the_worst_cases_come_back_once_each(tmp_path):
    folder = tmp_path / "regression"
    worst = cases()[0]
    past.write(folder, [], [worst, worst])
    known = past.read(folder, [IDS])
    assert len(known) == 1
    assert known[0].group == "past"
    assert np.array_equal(known[0].inputs["ids"], worst.inputs["ids"])
    past.write(folder, known, [worst, cases()[2]])
    assert len(past.read(folder, [IDS])) == 2


def test_the_worst_cases_of_another_model_are_left_out(tmp_path):
    past.write(tmp_path / "regression", [], [cases()[0]])
    assert past.read(tmp_path / "regression", [TensorSpec("ids", "int32", ("batch", "length"))]) == []
    assert past.read(tmp_path / "regression", [TensorSpec("ids", "int64", ("batch", 64))]) == []
    assert past.read(tmp_path / "nothing", [IDS]) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [("cases.npz", b"PK"), ("cases.npz", None), ("cases.json", b"{"), ("cases.json", b"7"), ("cases.json", b"\xff")],
)
def test_damaged_cases_of_earlier_runs_are_one_error_with_the_next_step(tmp_path, file, content):
    folder = tmp_path / "regression"
    past.write(folder, [], [cases()[0]])
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DataError, match=r"cannot be read .*: restore them with `dvc checkout .*regression`, or delete the folder"):
        past.read(folder, [IDS])

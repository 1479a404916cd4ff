"""Requests that wait at the same time: which share a batch, and that each gets the answer that it gets alone."""

import weakref
from collections import deque
from unittest.mock import Mock

import numpy as np
import pytest
from onnx import TensorProto, helper

from paddleship.errors import RequestError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.batching import Answering, Gone, _Asked, _groups
from paddleship.shipped.serving.errors import Kind, RefusedByModel, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.settings import Settings
from tests.paddleship.shipped.serving.asked import Asked
from tests.paddleship.shipped.serving.candidates import make_candidate, make_picking, make_pictures, make_tensors, make_texts

TOGETHER = Settings(batching=True, padding=True)


@pytest.fixture
def tensors(tmp_path):
    return counted(make_tensors(tmp_path))


@pytest.fixture
def texts(tmp_path):
    return counted(make_texts(tmp_path))


@pytest.fixture
def sums(tmp_path):
    """The sum of each row of x, in whose rows padding is zero."""
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    nodes = [helper.make_node("Constant", [], ["axis"], value=axis), helper.make_node("ReduceSum", ["x", "axis"], ["sum"])]
    make_candidate(tmp_path, nodes, [TensorSpec("x", "float32", ("batch", "length"))], [TensorSpec("sum", "float32", ("batch", 1))])
    return counted(tmp_path)


def counted(folder, **options):
    """A model with `sizes`, the shape of every batch that it was asked."""
    model = ServedModel(folder, **options)
    model.warm_up()
    model.sizes, run = [], model._runtime.run

    def count(batch):
        model.sizes.append(next(iter(batch.values())).shape)
        return run(batch)

    model._runtime.run = count
    return model


def answer(model, requests, settings=TOGETHER):
    Answering(model, settings).answer(deque(requests))
    return [request.outcome() for request in requests]


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.float32) for length in lengths]


def test_requests_share_a_batch_and_each_gets_its_own_answer(tensors):
    requests = [Asked(x=np.float32([[1, 2]])), Asked(x=np.float32([[3, 4], [5, 6]])), Asked(x=np.float32([[7, 8]]))]
    answers = answer(tensors, requests)
    assert tensors.sizes == [(4, 2)]
    assert [one["scores"].tolist() for one in answers] == [[[3, -1]], [[7, -3], [11, -5]], [[15, -7]]]
    assert [one["label"] for one in answers] == [["否"], ["否", "否"], ["否"]]


def test_without_leave_each_request_is_a_batch_of_its_own(tensors):
    answer(tensors, [Asked(x=np.float32([[1, 2]])), Asked(x=np.float32([[3, 4], [5, 6]]))], Settings())
    assert tensors.sizes == [(1, 2), (2, 2)]


def test_a_batch_has_no_more_rows_than_are_proven(tmp_path):
    model = counted(make_tensors(tmp_path), max_batch=3)
    answers = answer(model, [Asked(x=np.full((count, 2), count, np.float32)) for count in (1, 2, 3, 1, 1)])
    assert model.sizes == [(3, 2), (3, 2), (2, 2)]
    assert [len(one["scores"]) for one in answers] == [1, 2, 3, 1, 1]


def test_a_request_that_the_model_refuses_fails_alone(tmp_path):
    model = counted(make_picking(tmp_path))
    fine = [Asked(x=rows(3), steps=np.array([2])), Asked(x=rows(3), steps=np.array([3]))]
    wrong = Asked(x=rows(3), steps=np.array([9]))
    Answering(model, TOGETHER).answer(deque([fine[0], wrong, fine[1]]))
    assert [one.outcome()["y"].tolist() for one in fine] == [[[2]], [[3]]]
    with pytest.raises(RefusedByModel):
        wrong.outcome()


def test_a_request_that_cannot_be_read_or_has_no_client_any_more_changes_nothing_for_others(tensors):
    unread, out_of_range, gone = Asked(x=RequestError("no JSON")), Asked(x=np.float32([[1, 900]])), Asked(x=np.float32([[1, 2]]))
    gone.gone = True
    fine = Asked(x=np.float32([[3, 4]]))
    Answering(tensors, TOGETHER).answer(deque([unread, out_of_range, gone, fine]))
    assert fine.outcome()["scores"].tolist() == [[7, -3]]
    assert tensors.sizes == [(1, 2)]
    for request, kind in ((unread, RequestError), (out_of_range, RequestError), (gone, Gone)):
        with pytest.raises(kind):
            request.outcome()


@pytest.mark.parametrize(("call_values", "sizes"), [(0, [(1, 3), (1, 4), (1, 36), (1, 40)]), (10, [(2, 4), (2, 40)]), (200, [(4, 40)])])
def test_rows_of_several_lengths_share_a_batch_if_padding_costs_less_than_a_call(sums, call_values, sizes):
    sums.call_values = call_values
    answers = answer(sums, [Asked(x=rows(length)) for length in (3, 40, 4, 36)])
    assert sums.sizes == sizes
    assert [one["sum"].tolist() for one in answers] == [[[6]], [[820]], [[10]], [[666]]]


def test_the_warm_up_learns_what_a_call_costs_beside_its_values(tmp_path, monkeypatch):
    model = ServedModel(make_tensors(tmp_path))
    monkeypatch.setattr(model, "_warm", lambda batch: 1e-4 + 1e-6 * batch["x"].size)  # 100 µs a call and 1 µs a value
    model.warm_up()
    assert round(model.call_values) == 100
    assert model.is_quick
    monkeypatch.setattr(model, "_warm", lambda _batch: 1e-3)
    model.warm_up()
    assert not model.is_quick


def test_a_model_with_pictures_or_code_of_the_user_is_never_quick(tmp_path, monkeypatch):
    pictures = ServedModel(make_pictures(tmp_path / "pictures"))
    monkeypatch.setattr(pictures, "_warm", lambda _batch: 1e-5)
    pictures.warm_up()
    assert not pictures.is_quick
    folder = make_tensors(tmp_path / "tensors")
    (folder / "code").mkdir()
    (folder / "code/theirs.py").write_text("")
    Candidate.read(folder).save(folder)
    theirs = ServedModel(folder)
    monkeypatch.setattr(theirs, "_warm", lambda _batch: 1e-5)
    theirs.warm_up()
    assert not theirs.is_quick


def test_an_output_with_the_length_of_the_rows_has_the_same_shape_as_alone(texts):
    requests = [Asked(text=["好"]), Asked(text=["好x好"]), Asked(text=["x好"])]
    answers = answer(texts, requests)
    assert texts.sizes == [(2, 2), (1, 4)]
    alone = [answer(texts, [Asked(**request.columns)])[0] for request in requests]
    assert [one["values"].tolist() for one in answers] == [one["values"].tolist() for one in alone]


def test_without_leave_to_pad_only_rows_of_equal_sizes_share_a_batch(sums):
    sums.call_values = 1000
    answers = answer(sums, [Asked(x=rows(length)) for length in (3, 40, 3)], Settings(batching=True))
    assert sorted(sums.sizes) == [(1, 40), (2, 3)]
    assert [one["sum"].tolist() for one in answers] == [[[6]], [[820]], [[6]]]


def test_padding_counts_every_size_of_a_row():
    wide, high = [(1, 400)], [(400, 1)]
    asked = [_Asked(None, {}, [{"x": np.zeros(shapes[0])}], shapes) for shapes in (wide, high, wide)]
    assert [len(group) for group in _groups(asked, 1000)] == [2, 1]


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3), KeyError("x")])
def test_a_defect_of_one_request_is_told_without_its_frames_and_leaves_others_alone(tensors, error, caplog):
    broken, fine = Asked(x=np.float32([[1, 2]])), Asked(x=np.float32([[3, 4]]))
    broken.encode = Mock(side_effect=error) if not isinstance(error, StopIteration) else lambda *_: next(iter(()))
    Answering(tensors, TOGETHER).answer(deque([broken, fine]))
    assert fine.outcome()["scores"].tolist() == [[7, -3]]
    with pytest.raises(ServingError) as caught:
        broken.outcome()
    assert caught.value.kind is Kind.DEFECT
    assert caught.value.__context__ is None
    assert "a request failed" in caplog.text


def test_a_request_that_was_answered_is_let_go_before_the_last_one_is(tensors):
    first = Asked(x=np.float32([[1, 2]]))
    gone, waiting = weakref.ref(first), deque([first, *(Asked(x=np.float32([[1, 2]])) for _ in range(3))])
    waiting[-1].decode = lambda: {"x": np.float32([[9, 9] if gone() is None else [1, 1]])}
    last = waiting[-1]
    last.columns = {"x": None}
    last.encode = lambda outputs, _cuts: outputs
    del first
    Answering(tensors, Settings()).answer(waiting)
    assert last.outcome()["scores"].tolist() == [[18, -9]]


def test_an_output_without_rows_is_answered_one_request_at_a_time(tmp_path):
    nodes = [helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0)]
    make_candidate(tmp_path, nodes, [TensorSpec("x", "float32", ("batch", 2))], [TensorSpec("total", "float32", ())])
    model = counted(tmp_path)
    answers = answer(model, [Asked(x=np.float32([[1, 2]])), Asked(x=np.float32([[3, 4]]))])
    assert [float(one["total"]) for one in answers] == [3, 7]

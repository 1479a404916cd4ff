"""Which requests are made of raw rows, and in which form."""

import json

import numpy as np

from paddleship.acceptance.questions import mixed, plain_request, questions, repeated, within
from paddleship.acceptance.transports.http.triton import request_body

TEXT = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}]}
IDS = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [-1, -1]}, {"name": "n", "datatype": "INT32", "shape": [-1]}]}


def test_text_is_sent_raw_and_tensors_are_padded_to_one_shape():
    (question,) = questions([{"text": ["  ｇood ", "é"]}], TEXT, {})
    assert json.loads(request_body(question.tensors))["inputs"] == [
        {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["  ｇood ", "é"]}
    ]
    (question,) = questions([{"ids": [[1, 2], [3]], "n": [2, np.int32(1)]}], IDS, {"ids": -1})
    assert json.loads(request_body(question.tensors))["inputs"] == [
        {"name": "ids", "shape": [2, 2], "datatype": "INT64", "data": [1, 2, 3, -1]},
        {"name": "n", "shape": [2], "datatype": "INT32", "data": [2, 1]},
    ]


def test_a_plain_request_has_no_more_digits_than_it_needs():
    request = plain_request({"x": np.array([[0.1, 2]], np.float32), "flag": np.array([True])})
    assert json.dumps(request) == (
        '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.1, 2.0]}, '
        '{"name": "flag", "datatype": "BOOL", "shape": [1], "data": [true]}]}'
    )


def test_rows_are_repeated_up_to_a_batch():
    assert repeated({"x": np.array([[1, 2], [3, 4]])}, 3)["x"].tolist() == [[1, 2], [3, 4], [1, 2]]


def test_mixed_questions_are_of_all_sizes_and_each_once():
    asked = questions([{"text": ["a"] * size} for size in (1, 2, 3, 5, 8, 13, 32, 7, 20)], TEXT, {})
    for count in (1, 2, 5, 9, 100):
        sizes = [question.rows for question in mixed(asked, count=count)]
        assert len(sizes) == len({*sizes}) == min(count, 9)
    assert {1, 32} <= {*sizes}


def test_batches_beyond_the_server_or_the_time_are_left_out_large_and_small_alike():
    asked = questions([{"text": ["a" * 100] * size} for size in range(1, 33)], TEXT, {})
    assert within(asked, body_bytes=10**6, total_bytes=10**6) == asked
    assert max(question.rows for question in within(asked, body_bytes=1500, total_bytes=10**6)) == 14
    sizes = [question.rows for question in within(asked, body_bytes=10**6, total_bytes=20_000)]
    assert sum(sizes) * 100 < 20_000
    assert {1, 32} <= {*sizes}
    assert sizes == sorted(sizes)
    assert [question.rows for question in within(asked, body_bytes=10**6, total_bytes=1)] == [1]
    assert within(asked, body_bytes=10, total_bytes=10**6) == []
    (wide,) = questions([{"ids": np.full((2, 1000), 2**62), "n": [1, 2]}], IDS, {})
    assert wide.body_bytes > len(request_body(wide.tensors)) - 200

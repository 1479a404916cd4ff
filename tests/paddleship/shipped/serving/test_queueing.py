"""The queue of requests: what it refuses at once, whose turn it is, and what it learns of the time of turns."""

import math
import time

import pytest

from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.queueing import Queue
from tests.paddleship.shipped.serving.asked import Asked

SMALL, LARGE = 100, 2**20


def queue(*, most=1000, longest_s=math.inf):
    return Queue(most=most, longest_s=longest_s)


def rows_of(request):
    return 8 if request.size == LARGE else 1


def put(queue, count, size=SMALL, **options):
    requests = [Asked(size=size, x=None, **options) for _ in range(count)]
    for request in requests:
        queue.put(request)
    return requests


def run(queue, row_s, *, call_s=0.0, rows=8, rows_of=rows_of):
    """Take one turn, whose rows take so long each, and the requests of it."""
    turn = queue.take(rows=rows)
    turn.rows, turn.computed = sum(rows_of(request) for request in turn.requests), turn.count
    queue.learn(turn, call_s + turn.rows * row_s)
    return list(turn.requests)


def refused(queue, **options):
    with pytest.raises(ServingError) as caught:
        put(queue, 1, **options)
    assert caught.value.kind is Kind.BUSY
    return caught.value


def test_a_turn_has_about_the_rows_of_a_batch_and_the_first_to_come_goes_first():
    waiting = queue()
    requests = put(waiting, 11)
    assert run(waiting, 0.01) == requests[:1]  # nothing is known of their rows yet
    assert run(waiting, 0.01) == requests[1:9]
    assert run(waiting, 0.01) == requests[9:]
    assert waiting.take(rows=8) is None


def test_more_requests_than_may_wait_are_refused_at_once():
    waiting = queue(most=3)
    put(waiting, 3)
    assert "3 requests wait" in str(refused(waiting))
    run(waiting, 0.01)
    put(waiting, 1)


def test_a_request_that_would_wait_too_long_is_refused_at_once_with_the_time_to_ask_again():
    waiting = queue(longest_s=2.55)
    put(waiting, 1)
    run(waiting, 0.1)
    put(waiting, 25)
    failure = refused(waiting)
    assert failure.retry_s == 3
    assert "would take about 2.6 s, more than the 2.55 s that requests may take): try again in 3 s" in str(failure)


def test_an_empty_queue_takes_a_request_however_slow_the_model_is():
    waiting = queue(longest_s=0.001)
    put(waiting, 1)
    run(waiting, 60)
    put(waiting, 1)
    refused(waiting)


def test_a_request_with_less_time_than_its_answer_would_take_is_refused():
    waiting = queue()
    put(waiting, 1)
    run(waiting, 0.1)
    put(waiting, 15)
    assert "more than the time limit of the request" in str(refused(waiting, deadline=time.perf_counter() + 1))
    put(waiting, 1, deadline=time.perf_counter() + 5)


@pytest.mark.parametrize(("call_s", "row_s", "most"), [(0.8, 0.0, 16), (0.0, 0.1, 20), (0.4, 0.05, 16)])
def test_what_a_batch_costs_beside_its_rows_is_learned_from_turns_of_several_sizes(call_s, row_s, most):
    waiting = queue(longest_s=2)
    put(waiting, 21)
    sizes = []
    while waiting.waiting:
        sizes.append(len(run(waiting, row_s, call_s=call_s)))
    assert sizes == [1, 8, 8, 4]
    admitted = 0
    while waiting.refusal(SMALL) is None:
        put(waiting, 1)
        admitted += 1
    assert admitted == pytest.approx(most, abs=1)


def test_one_client_with_large_batches_holds_up_a_small_request_for_one_of_them_at_most():
    waiting = queue()
    put(waiting, 1)
    run(waiting, 0.001)
    large = put(waiting, 9, LARGE)
    assert run(waiting, 1.0) == large[:1]
    for _ in range(4):
        small = put(waiting, 3)
        assert small in (run(waiting, 0.001), run(waiting, 1.0))


def test_many_small_requests_do_not_keep_a_large_one_waiting_for_ever():
    waiting = queue()
    put(waiting, 800)
    run(waiting, 0.1)
    large = put(waiting, 1, LARGE)
    turns = [run(waiting, 0.1) for _ in range(3)]
    assert large in turns
    assert waiting.waiting


def test_a_class_that_was_idle_has_no_credit_for_that_time():
    waiting = queue()
    put(waiting, 400, LARGE)
    for _ in range(50):
        run(waiting, 0.1)
    put(waiting, 400)
    sizes = [run(waiting, 0.1, rows=1)[0].size for _ in range(40)]
    assert sizes.count(LARGE) >= 3


def test_large_requests_that_wait_let_small_ones_in_that_are_answered_in_time():
    waiting = queue(longest_s=1.5)
    put(waiting, 1, LARGE)
    run(waiting, 0.05)
    put(waiting, 1)
    run(waiting, 0.001)
    put(waiting, 3, LARGE)
    refused(waiting, size=LARGE)
    put(waiting, 5)


def test_requests_of_several_rows_make_a_turn_of_fewer():
    waiting = queue()
    put(waiting, 1)
    run(waiting, 0.01, rows_of=lambda _: 4)
    put(waiting, 10)
    assert len(waiting.take(rows=8).requests) == 2


def test_requests_that_were_dropped_say_nothing_of_how_long_others_take():
    waiting = queue(longest_s=2.05)
    put(waiting, 1)
    run(waiting, 0.1)
    for computed in (0, 2, 0, 2):
        put(waiting, 8)
        turn = waiting.take(rows=8)
        turn.rows = turn.computed = computed
        waiting.learn(turn, 0.1 * computed)
    put(waiting, 20)
    refused(waiting)

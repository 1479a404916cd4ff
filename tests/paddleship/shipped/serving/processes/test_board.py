"""The memory that processes share: what one published outlives it, and tells the others whether the server is ready."""

import os
import signal
from dataclasses import replace

import pytest

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.processes.board import Board, ProcessState
from paddleship.shipped.serving.processes.peers import Peers
from paddleship.shipped.serving.service import Service, State
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.processes.clients import until


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_what_a_killed_process_published_can_still_be_read():
    board = Board(2)
    assert board.read(1) == b""
    pid = os.fork()
    if not pid:
        for count in range(1000):
            board.publish(1, b"%d" % count * 1000)
        os.kill(os.getpid(), signal.SIGKILL)
    while not os.waitpid(pid, os.WNOHANG)[0]:
        content = board.read(1)
        assert content in (b"", content[: len(content) // 1000] * 1000)
    assert board.read(1) == b"999" * 1000
    assert Peers(board, 1).before == b"999" * 1000
    assert board.read(0) == b""


def test_what_is_too_large_is_refused_and_leaves_what_was_there():
    board = Board(1)
    board.publish(0, b"x" * (2**16 - 4))
    with pytest.raises(ValueError, match="65533 bytes do not fit into a slot of 65532"):
        board.publish(0, b"y" * (2**16 - 3))
    assert board.read(0) == b"x" * (2**16 - 4)


def test_the_first_process_listens_at_once_and_others_and_replacements_with_their_model():
    board = Board(2)
    assert [Peers(board, slot).waits for slot in (0, 1)] == [False, True]
    board.set_state(0, ProcessState.REPLACING)
    assert Peers(board, 0).waits


def test_a_server_is_ready_once_all_processes_are_and_a_replacement_does_not_change_that(tmp_path):
    make_tensors(tmp_path)
    board = Board(2)
    service = Service(lambda: ServedModel(tmp_path), Budget(1000), peers=Peers(board, 0))
    service.start(pytest.fail)
    until("it does not load", lambda: service.own_state is State.READY)
    board.set_state(1, ProcessState.READY)
    assert service.state is State.LOADING, "the parent does not know yet that this process is ready"
    board.set_state(0, ProcessState.READY)
    states = []
    for state in ProcessState:
        board.set_state(1, state)
        states.append(service.state)
    service.close()
    assert dict(zip(ProcessState, states, strict=True)) == {
        ProcessState.STARTING: State.LOADING,
        ProcessState.REPLACING: State.READY,
        ProcessState.READY: State.READY,
        ProcessState.FAILING: State.FAILING,
    }


@pytest.mark.parametrize(("share", "threads"), [(1, 5), (2, 2), (8, 1)])
def test_processes_share_the_threads_of_the_candidate(tmp_path, share, threads):
    make_tensors(tmp_path)
    replace(Candidate.load(tmp_path), threads=5).save(tmp_path)
    session = ServedModel(tmp_path, share=share)._runtime._session
    assert session.get_session_options().intra_op_num_threads == threads

"""What a process tells the others, each second: that its model is ready, fails and is ready again, and what it counted."""

import asyncio

import pytest

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.processes.board import Board, ProcessState
from paddleship.shipped.serving.processes.peers import Peers
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.metrics import families
from paddleship.shipped.serving.transports.http.metrics.families import COUNTER, Family
from paddleship.shipped.serving.transports.http.metrics.of_server import ServerMetrics
from tests.paddleship.shipped.serving.candidates import make_tensors

CPU = "process_cpu_seconds_total"


async def until(condition):
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_process_publishes_its_state_and_a_failing_model_is_asked_again(tmp_path):
    make_tensors(tmp_path)
    board = Board(2)
    board.publish(0, families.packed([Family.of(CPU, COUNTER, "Before.", [("", {}, 1e6)])]))
    service = Service(lambda: ServedModel(tmp_path), Budget(1000), peers=Peers(board, 0))
    metrics = ServerMetrics(service, Guard(ConnectionLimits(), service.budget))

    async def publish():
        task = asyncio.create_task(metrics.publish(service.peers))
        await until(lambda: board.read(0).count(b"paddleship_ready"))
        assert board.state(0) is ProcessState.STARTING
        service.start(pytest.fail)
        await until(lambda: board.state(0) is ProcessState.READY)
        service.loaded().answers = False
        await until(lambda: board.state(0) is ProcessState.FAILING)
        await until(lambda: service.own_state is State.READY)
        await until(lambda: board.state(0) is ProcessState.READY)
        task.cancel()

    asyncio.run(publish())
    service.close()
    (cpu,) = (family.values[""] for family in families.unpacked(board.read(0)) if family.name == CPU)
    assert cpu > 1e6, "what the process before this one counted is lost"

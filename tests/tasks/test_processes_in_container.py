"""The container of an image with several processes: accepted, killed into, and stopped under load."""

import json
import signal

import pytest

from paddleship.containers.sandbox import in_sandbox
from tests.paddleship.shipped.serving.processes.clients import Clients, count_of, is_ready, until

CLIENTS = 16
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.5]}]})
PATH = "/v2/models/linear/infer"
MEMORY_BYTES = 256_000_000
LIST = (
    "import os; print(*(pid for pid in os.listdir('/proc') if pid.isdecimal() and b'serving' in open(f'/proc/{pid}/cmdline', 'rb').read()))"
)
KILL = "import os, sys; os.kill(int(sys.argv[1]), 9)"

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def run(box, script, *arguments):
    code, output = box.container.exec_run(["python", "-c", script, *arguments])
    assert code == 0, output
    return output.decode()


def workers(box):
    """The ids of the server's processes in the container, without their parent, which was the first, and init."""
    own = sorted(map(int, run(box, LIST).split()))
    return [pid for pid in own if parent(box, pid) in own and parent(box, pid) != 1]


def parent(box, pid):
    script = "import sys; print(open(f'/proc/{sys.argv[1]}/stat').read().rpartition(')')[2].split()[1])"
    code, output = box.container.exec_run(["python", "-c", script, str(pid)])
    return int(output) if code == 0 else 0


def test_an_image_with_several_processes_is_accepted_over_both_transports(several, stage):
    checkout, _ = several
    done = stage(checkout, "accept")
    assert done.returncode == 0, done.stderr
    report = json.loads((checkout / "reports/accept.json").read_text())
    assert {"name": "processes", "measured": 2, "limit": 2, "passed": True}.items() <= next(
        check for check in report["verdict"]["checks"] if check["name"] == "processes"
    ).items()
    assert " over HTTP and gRPC as eager" in report["headline"]


def test_a_process_of_a_container_that_is_killed_under_load_is_replaced_and_harms_no_other(several, engine):
    with in_sandbox(engine, several[1]["image_id"], memory_bytes=MEMORY_BYTES) as box:
        address = (box.host, box.port)
        until("it is not ready", lambda: is_ready(address))
        first = workers(box)
        assert len(first) == 2
        clients = Clients(address, CLIENTS, path=PATH, body=BODY)
        until("too few answers", lambda: all(clients.counts))
        run(box, KILL, str(first[0]))
        until("it is not replaced", lambda: count_of(address, "paddleship_processes_replaced_total") == 1)
        until("it is not ready", lambda: count_of(address, "paddleship_processes") == 2)
        before = list(clients.counts)
        left = CLIENTS - len(clients.lost)
        assert 0 < left < CLIENTS
        until("the others stopped", lambda: sum(now > then for now, then in zip(clients.counts, before, strict=True)) == left)
        again = Clients(address, CLIENTS, path=PATH, body=BODY)
        until("too few answers", lambda: all(again.counts))
        assert box.stop(timeout_s=20)[1] == 0
        clients.join()
        again.join()
        assert (len(clients.lost), again.lost) == (CLIENTS - left, [])
        assert {*clients.statuses, *again.statuses} == {200}
        assert len(clients.answers | again.answers) == 1


@pytest.mark.parametrize("stops", [2, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_stop_of_a_container_with_several_processes_leaves_no_request_without_an_answer(several, engine, stops):
    for _ in range(stops):
        with in_sandbox(engine, several[1]["image_id"], memory_bytes=MEMORY_BYTES) as box:
            address = (box.host, box.port)
            until("it is not ready", lambda address=address: is_ready(address))
            clients = Clients(address, 2 * CLIENTS, path=PATH, body=BODY)
            until("too few answers", lambda clients=clients: min(clients.counts) >= 5)
            seconds, code = box.stop(timeout_s=30)
            clients.join()
        assert (clients.lost, code) == ([], 0)
        assert set(clients.statuses) == {200}
        assert seconds < 10


@pytest.mark.long
def test_processes_of_a_container_that_are_killed_again_and_again_end_it_with_one_line(several, engine):
    with in_sandbox(engine, several[1]["image_id"], memory_bytes=MEMORY_BYTES) as box:
        until("it is not ready", lambda: is_ready((box.host, box.port)))
        for _ in range(7):
            until("all are replaced", lambda: len(workers(box)) == 2)
            run(box, KILL, str(workers(box)[0]))
        until("it goes on", lambda: not box.state["Running"])
        assert box.state["ExitCode"] == 1
        lines = [line for line in box.logs().splitlines() if line.startswith("error:")]
        assert lines == [
            f"error: 7 server processes ended in 60 s, the last one with {signal.SIGKILL.name}: "
            "after SIGKILL, give the container more memory; else see the log above"
        ]

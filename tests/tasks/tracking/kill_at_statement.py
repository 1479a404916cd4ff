"""`python -m tests.tasks.tracking.kill_at_statement STORE N`: connect to a store, and die by SIGKILL before the Nth table is created."""

import os
import signal
import sys

from sqlalchemy import event
from sqlalchemy.engine import Engine

from paddleship.tracking.client import connect

store, last = sys.argv[1], int(sys.argv[2])
seen = 0


@event.listens_for(Engine, "before_cursor_execute")
def _count(_connection, _cursor, statement, *_rest):
    global seen
    if statement.strip().upper().startswith("CREATE TABLE"):
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)


connect(store).search_experiments()
print(seen)

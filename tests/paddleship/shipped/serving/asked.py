"""A request without a transport, for tests of the server's core."""

import math
import threading
import time
from concurrent.futures import Future


class Asked:
    """Columns that are asked, and the outputs or the exception that came of them. `hold`: decoding waits for this event."""

    def __init__(self, *, size=100, hold=None, deadline=math.inf, **columns):
        self.arrived, self.deadline = time.perf_counter(), deadline
        self.size, self.columns, self.gone, self.thread = size, columns, False, None
        self._hold, self._answer = hold, Future()

    def is_gone(self):
        return self.gone

    def decode(self):
        self.thread = threading.get_ident()
        assert self._hold is None or self._hold.wait(300)
        if isinstance(error := next(iter(self.columns.values())), Exception):
            raise error
        return self.columns

    def encode(self, outputs, cuts):
        return outputs

    def deliver(self, outcome):
        if isinstance(outcome, BaseException):
            self._answer.set_exception(outcome)
        else:
            self._answer.set_result(outcome)

    def outcome(self, timeout_s=0):
        return self._answer.result(timeout_s)

"""What the terminal gets, and what happens where nobody reads it."""

import os
import sys

from paddleship.orchestration import terminal


def test_a_program_whose_output_nobody_reads_goes_on(monkeypatch):
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        terminal.survive_closed_output()
        print("first", flush=True)
        assert os.read(reader, 100) == b"first\n"
        os.close(reader)
        for _ in range(2):
            print("nobody reads this", flush=True)

"""`python -m benchmarks.zoo.files.making NAME FOLDER`: write the files of a specimen, in a process of its own as its owner did."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.zoo.files.catalogue import specimens

if __name__ == "__main__":
    specimens()[sys.argv[1]].write(Path(sys.argv[2]))

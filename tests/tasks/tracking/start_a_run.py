"""`python -m tests.tasks.tracking.start_a_run STORE SPOOL`: a run that begins and ends; exit code 1 if the store did not get all of it."""

import sys
from pathlib import Path

from paddleship.config import loading
from paddleship.tracking.run import Tracker

if __name__ == "__main__":
    store, spool = sys.argv[1:]
    tracker = Tracker.start(
        loading.load(Path("params.yaml")), tracking_uri=store, artifact_root=f"file://{spool}", spool=Path(spool), tags={}
    )
    tracker.finish()
    sys.exit(tracker.undelivered is not None)

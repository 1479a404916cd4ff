"""`python -m paddleship.servers.prefect_server PORT`: Prefect's server on loopback, as `prefect server start` starts it."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time

from paddleship.execution import startup

_EVERY_S = 1.0


def main() -> None:
    startup.keep_what_they_make()
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(final=True)
    collect_garbage_in_a_thread()
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")


def collect_garbage_in_a_thread() -> None:
    """Collect garbage among new objects in a separate thread only.

    Freeing a cursor of SQLite waits while its connection waits for the database, up to 60 s. If the thread of the event loop frees it,
    the task that has locked the database cannot release it, and the server answers no request until that wait ends.
    """
    gc.freeze()
    gc.disable()
    threading.Thread(target=_collect, daemon=True).start()


def _collect() -> None:
    for generation in itertools.cycle((*[1] * 59, 2)):
        time.sleep(_EVERY_S)
        gc.collect(generation)


if __name__ == "__main__":
    main()

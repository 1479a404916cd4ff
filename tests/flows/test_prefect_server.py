"""Prefect's server as `make ui` and runs start it."""

import os
import subprocess
import sys
import textwrap

import pytest

from paddleship.servers import local_state

FREED_WHILE_ITS_CONNECTION_WAITS = """
    import asyncio
    import sys
    import aiosqlite
    from paddleship.servers.prefect_server import collect_garbage_in_a_thread

    async def main(path):
        first = await aiosqlite.connect(path, isolation_level=None)
        second = await aiosqlite.connect(path, isolation_level=None, check_same_thread=False)
        await first.execute("PRAGMA journal_mode = WAL")
        await first.execute("CREATE TABLE rows (number)")
        await second.execute("PRAGMA busy_timeout = 6000")
        unread = [await second.execute("SELECT 1 UNION SELECT 2")]
        unread.append(unread)
        await second.commit()  # until then, the connection's thread holds the cursor too
        await first.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(second.execute("INSERT INTO rows VALUES (2)"))
        await asyncio.sleep(0.5)
        del unread
        for _ in range(200_000):
            garbage = []
            garbage.append(garbage)
        await asyncio.sleep(1.3)
        await first.execute("COMMIT")
        try:
            await waiting
        finally:
            await first.close()
            await second.close()

    if sys.argv[2] == "in a thread":
        collect_garbage_in_a_thread()
    asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize(("collected", "error"), [("in a thread", ""), ("anywhere", "sqlite3.OperationalError")])
def test_garbage_that_must_wait_for_the_database_does_not_stop_the_event_loop(tmp_path, collected, error):
    command = [sys.executable, "-c", textwrap.dedent(FREED_WHILE_ITS_CONNECTION_WAITS), str(tmp_path / "rows.db"), collected]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode == 0) == (not error), done.stderr
    assert error in done.stderr


WHAT_IT_IMPORTS = """
    import asyncio
    import os
    import sys
    from prefect.server.api.server import create_app

    async def main():
        app = create_app(final=True)
        async with app.router.lifespan_context(app):
            print("prefect_docker" in sys.modules, flush=True)
            os._exit(0)  # its services, which have just begun, could not be stopped yet

    asyncio.run(main())
"""


@pytest.mark.parametrize(("settings", "imported"), [(local_state._TEMPORARY, "False"), ({}, "True")], ids=["temporary", "with pages"])
def test_the_temporary_server_does_not_import_the_integrations_of_prefect(tmp_path, with_tables, settings, imported):
    environment = {**os.environ, "PREFECT_HOME": f"{with_tables(tmp_path)}/.paddleship/prefect", **settings}
    command = [sys.executable, "-c", textwrap.dedent(WHAT_IT_IMPORTS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == imported, done.stderr

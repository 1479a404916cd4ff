"""Deadlines of what clients do."""

import asyncio

import pytest

from paddleship.shipped.serving.transports.grpc.deadlines import Deadlines


def run(seconds, now, *, cancel=False):
    """What comes of a wait for a client that is looked at so many seconds after its begin."""

    async def wait(deadlines):
        with deadlines.within(seconds):
            await asyncio.sleep(0.05)
        return "in time"

    async def main():
        deadlines = Deadlines()
        task = asyncio.create_task(wait(deadlines))
        await asyncio.sleep(0)
        deadlines.look(asyncio.get_running_loop().time() + now)
        if cancel:
            task.cancel()
        try:
            return await task
        finally:
            assert not deadlines._ends
            assert not deadlines._over

    return asyncio.run(main())


def test_what_takes_too_long_is_ended_and_what_does_not_is_left_alone():
    assert run(10, 9) == "in time"
    with pytest.raises(TimeoutError):
        run(10, 11)


def test_a_client_that_cancels_is_no_client_that_takes_too_long():
    with pytest.raises(asyncio.CancelledError):
        run(10, 9, cancel=True)
    with pytest.raises(asyncio.CancelledError):
        run(10, 11, cancel=True)

"""What a process tells the others of its server: whether its model is ready, and what it has counted. They answer /metrics together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from paddleship.shipped.serving.processes.board import ProcessState
from paddleship.shipped.serving.processes.peers import Peers
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.metrics import families, of_process
from paddleship.shipped.serving.transports.http.metrics.families import Family

_LOADING_S, _EVERY_S = 0.02, 1.0  # between two looks at the state
_STATES = {State.READY: ProcessState.READY, State.FAILING: ProcessState.FAILING}


class ServerMetrics:
    """The metrics of a server: those of this process, and of the others if there are `peers`.

    What a process counts goes on where the one that it replaces stopped, so that no count of the server ever falls.
    """

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service, self._guard, self._peers = service, guard, service.peers
        self._before = families.unpacked(service.peers.before) if service.peers is not None else []

    def text(self) -> str:
        """The metrics of the whole server."""
        own = of_process.families(self._service, self._guard)
        return families.text(own if self._peers is None else self._of_all(self._published(self._peers, own), self._peers))

    async def loaded(self) -> None:
        """Wait until the model is loaded, or cannot be."""
        while self._service.own_state is State.LOADING and self._service.failure is None:
            await asyncio.sleep(_LOADING_S)

    async def publish(self, peers: Peers) -> None:
        """Publish the state and the metrics of this process each second, until cancelled; a failing model is asked again."""
        while True:
            self._published(peers, of_process.families(self._service, self._guard))
            state = self._service.own_state
            if state in _STATES:
                peers.set_state(_STATES[state])
            if state is State.FAILING:
                await asyncio.wrap_future(self._service.probe())
            await (self.loaded() if state is State.LOADING and self._service.failure is None else asyncio.sleep(_EVERY_S))

    def _published(self, peers: Peers, own: Sequence[Family]) -> list[Family]:
        """Publish the metrics of this process, with what was counted before it."""
        whole = families.total(own, ended=[self._before])
        peers.publish(families.packed(whole))
        return whole

    @staticmethod
    def _of_all(own: Sequence[Family], peers: Peers) -> list[Family]:
        others = [(listens, families.unpacked(content)) for listens, content in peers.published()]
        living, ended = ([found for listens, found in others if listens is wanted] for wanted in (True, False))
        return families.total(own, living, ended)

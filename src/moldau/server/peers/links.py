"""A silent connection to every other broker, whose end tells of a death long before a session does.

A process that dies closes its sockets. So does one that restarts, a proxy, or a network that lies; therefore the end of
a link proves nothing: it is opened again at once, and what is found there decides. Nobody listens, or another
incarnation answers: the one we knew is dead. The same one answers, or nobody says anything: nothing is known.

Whoever is told may be wrong about it (a firewall that refuses), so only what is harmless then may follow from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metrics import Metrics
from moldau.server.mishaps import Mishaps
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.network import endpoint_of
from moldau.server.peers.opening import Endpoint, Opener, RefusedError
from moldau.server.peers.peer import Lane, NotLetInError, PeerLostError

log = logging.getLogger("moldau.server.peers")

FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 1.0
SUSPICION_SECONDS: Final = 1.0
"""Longer than an election takes; where nothing has come of it by then, nobody should wait for it."""

FAILURES_IN_A_ROW: Final = 5
"""Somebody who takes connections and closes them, or says nothing, may be starting; not for so long."""

Evidence = Callable[[int, UUID], None]
"""Told the id of a broker, and which life of it has ended."""


class LinkJudge:
    """What the attempts to reach a broker say of the incarnation that was linked before. Each is judged once.

    A broker that was never linked cannot be told dead: it may not have begun to listen.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: UUID | None = None

    def answered(self, incarnation: UUID) -> UUID | None:
        """Gives the incarnation that is dead, if the other one that answers proves it."""
        before, self._known = self._known, incarnation
        return before if before is not None and before != incarnation else None

    def refused(self) -> UUID | None:
        before, self._known = self._known, None
        return before

    def silent(self) -> None:
        """No answer, or one that says nothing: what was known stays to be judged."""


class Link:
    """The link to one registration of a broker."""

    def __init__(
        self,
        endpoint: Endpoint,
        opener: Opener,
        evidence: Evidence,
        lives: Evidence,
        changed: Callable[[Link], None],
    ) -> None:
        """`lives` is told who answers, `changed` whenever the link was lost or is there again."""
        self.endpoint = endpoint
        self._opener = opener
        self._evidence, self._lives = evidence, lives
        self._changed = changed
        self._judge = LinkJudge()
        self._mishaps = Mishaps(log, f"the link to broker {endpoint.broker_id}")
        self._connection: PeerConnection | None = None
        self._told = ""
        self._failures = 0
        self.tried = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._keep())

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.lost is None

    def close(self) -> asyncio.Task[None]:
        self._task.cancel()
        if self._connection is not None:
            self._connection.end("the link is not needed any more")
        return self._task

    async def _keep(self) -> None:
        pause = 0.0
        while True:
            ended = asyncio.Event()
            dead: UUID | None = None
            try:
                self._connection, incarnation = await self._opener.open(
                    self.endpoint,
                    Lane.LINK,
                    lambda _, ended=ended: ended.set(),  # type: ignore[misc]
                )
                dead = self._judge.answered(incarnation)
                self._lives(self.endpoint.broker_id, incarnation)
            except RefusedError:
                dead = self._judge.refused()
            except PeerLostError as error:
                self._judge.silent()
                self._tell(error)
            except Exception as error:
                self._judge.silent()
                self._mishaps.happened(error)
            self.tried.set()
            if dead is not None:
                log.info("%s: its incarnation %s is dead", self.endpoint, dead)
                self._evidence(self.endpoint.broker_id, dead)
            if self.is_open:
                pause, self._told, self._failures = 0.0, "", 0
                self._mishaps.over()
                self._changed(self)
                await ended.wait()
                self._changed(self)
            else:
                pause = min(max(pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                await asyncio.sleep(pause)

    def _tell(self, error: PeerLostError) -> None:
        """Where somebody has to mend something he is told, once for each reason."""
        reason = str(error)
        self._failures += 1
        lasts = isinstance(error, NotLetInError) or self._failures >= FAILURES_IN_A_ROW
        if lasts and reason != self._told:
            self._told = reason
            log.warning("no connection to another broker of the cluster: %s", reason)
        else:
            log.debug("link: %s", reason)


class Links:
    """All links of this broker; subscribed to the image."""

    def __init__(
        self,
        broker_id: int,
        listener: str,
        opener: Opener,
        evidence: Evidence,
        metrics: Metrics,
        lives: Evidence = lambda *_: None,
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._opener = opener
        self._evidence, self._lives = evidence, lives
        self._links: dict[int, Link] = {}
        #: Brokers whose link ended a moment ago: they may be dead, which the next attempt or the next image will tell.
        self.suspects: set[int] = set()
        self._told = metrics.counter("moldau.server", "PeerLinks", "DeathsPerSec")
        metrics.gauge(lambda: sum(link.is_open for link in self._links.values()), "moldau.server", "PeerLinks", "Open")

    def load(self, image: ClusterImage) -> None:
        wanted = {
            broker_id: endpoint
            for broker_id in image.brokers
            if broker_id != self._broker_id and (endpoint := endpoint_of(image, broker_id, self._listener)) is not None
        }
        for broker_id, link in tuple(self._links.items()):
            if wanted.get(broker_id) != link.endpoint:
                link.close()
                del self._links[broker_id]
                self.suspects.discard(broker_id)
        self.suspects -= {broker_id for broker_id in self.suspects if image.brokers[broker_id].fenced}
        for broker_id, endpoint in wanted.items():
            if broker_id not in self._links:
                self._links[broker_id] = Link(endpoint, self._opener, self._dead, self._lives, self._changed)

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if old.brokers is not new.brokers:
            self.load(new)

    async def tried(self, seconds: float) -> None:
        """Until each link was tried once: the kernel closes a dead process's sockets in the order in which they were
        opened, so links are there before clients are."""
        try:
            async with asyncio.timeout(seconds):
                for link in tuple(self._links.values()):
                    await link.tried.wait()
        except TimeoutError:
            log.info("not every other broker could be reached within %g s", seconds)

    async def close(self) -> None:
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for link in links.values()), return_exceptions=True)

    def _changed(self, link: Link) -> None:
        broker_id = link.endpoint.broker_id
        if link.is_open:
            self.suspects.discard(broker_id)
        elif self._links.get(broker_id) is link:
            self.suspects.add(broker_id)
            asyncio.get_running_loop().call_later(SUSPICION_SECONDS, self.suspects.discard, broker_id)

    def _dead(self, broker_id: int, incarnation: UUID) -> None:
        self._told.value += 1
        self._evidence(broker_id, incarnation)

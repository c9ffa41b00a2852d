"""A broker that leads partitions with real logs and answers fetches by the product's own handler, and the peer through
which followers reach it: no sockets between.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from moldau.config.broker import BrokerConfig
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.leader import IsrChange
from moldau.replication.partition import Partition
from moldau.replication.throttling import ReplicationQuota
from moldau.security.authorizer import AllowAll
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.server.handlers.fetch import Fetch
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.wire.apis import ApiKey
from moldau.wire.codec import decode
from moldau.wire.messages.fetch import FetchRequest, FetchResponse
from tests.fakes.unlimited import Unlimited
from tests.support.logs import NOW

VERSION = 18
ANSWER_HEADER_BYTES = 9


class LeaderBroker:
    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.proposals: list[tuple[Partition, IsrChange]] = []
        self.rate: int | None = None
        self.introduced_as: int | None = 2
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_place = {one.topic_partition: one for one in partitions}
        ids = count(1)
        self.broker: Any = SimpleNamespace(
            config=BrokerConfig.load({"log.dirs": "/nowhere"}),
            authorizer=AllowAll(),
            quotas=Unlimited(),
            fetch_sessions=FetchSessions(10, lambda: next(ids)),
            wall_ms=lambda: NOW,
            boot_seconds=lambda: NOW / 1000,
            image=SimpleNamespace(
                topics_by_id={one.topic_id: SimpleNamespace(name=one.topic_partition.topic) for one in partitions},
                topics={},
            ),
            partitions=SimpleNamespace(get=lambda *place: self._by_place[place]),
            start=self._start,
            record_fetch=lambda *_: None,
            replica_selector=None,
            leader_quota=ReplicationQuota(lambda: self.rate, lambda: 0.0),
            propose_isr=lambda *proposal: self.proposals.append(proposal),
        )

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        slot: Any = SimpleNamespace(
            connection=SimpleNamespace(open=True, waiting=None),
            mute_ms=0,
            answer=lambda pieces: answered.set_result(b"".join(map(read_piece, pieces))),
        )
        client = ClientIdentity(ANONYMOUS, "PLAINTEXT", "127.0.0.1", broker_id=self.introduced_as)
        context = RequestContext(client, "", ApiKey.FETCH, VERSION, 0)
        fetch = Fetch(self.broker, context, request, slot)
        fetch.go_on(fetch.start())
        found, _ = decode(FetchResponse, VERSION, await answered, ANSWER_HEADER_BYTES)
        return found


def read_piece(piece: Any) -> bytes:
    if isinstance(piece, bytes):
        return piece
    try:
        return os.pread(piece.file.fileno, piece.length, piece.position)
    finally:
        piece.file.release()


class FetchPeer:
    """Implements Peers and Peer for one leader; while it is away, calls fail."""

    def __init__(self, leader: LeaderBroker) -> None:
        self._leader = leader
        self.broker_id = 0
        self.is_away = False
        self.requests: list[FetchRequest] = []
        self.lost = 0

    def get(self, broker_id: int) -> FetchPeer:
        self.broker_id = broker_id
        return self

    async def call(
        self,
        request: Any,
        answer_class: Any,
        lane: Lane = Lane.CONTROL,
        *,
        timeout_seconds: float | None = None,
        max_version: int | None = None,
    ) -> Any:
        if self.is_away:
            self.lost += 1
            raise PeerLostError("away")
        self.requests.append(cast(FetchRequest, request))
        return await self._leader.fetch(request)

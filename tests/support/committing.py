"""One broker's desk for offset commits: the dispatcher, the coordinator over one partition with a real log, and clients
that send bytes. The short way can be shut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.groups.subscriptions import FULL_SIGHT
from moldau.coordinators.machine import Timers
from moldau.metadata.image import TopicImage
from moldau.metrics import Histogram, Metrics
from moldau.replication.partition import Partition
from moldau.security.authorizer import AllowAll, Authorizer
from moldau.server.appends import AppendQueue
from moldau.server.connection import Connection, Frame
from moldau.server.coordination.service import CoordinatorService
from moldau.server.dispatch import Dispatcher
from moldau.server.handlers.offset_commit import API
from moldau.server.quick_commit import QuickCommits
from moldau.server.request_times import RequestTimes
from moldau.server.traffic import Traffic
from moldau.storage.files import Buffer, OsFiles
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import OFFSETS_TOPIC
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.fakes.timers import RecordingTimers
from tests.fakes.unlimited import Unlimited
from tests.support.consumer_groups import CLIENT, image_of, topic
from tests.support.logs import NOW, open_log, settings
from tests.support.terms import term
from tests.unit.server.test_connection import Host, Transport, framed

A, B, A_AGAIN = topic("a", 1, 3), topic("b", 2, 2), topic("a", 3, 2)
CLASSIC, CONSUMER, MEMBER = "classic", "consumer", "member"
TURNS = 40


class Disk(OsFiles):
    """Real files, until there is no more room."""

    is_full = False

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_full:
            raise OSError(ENOSPC, "no room")
        return super().pwritev(fd, buffers, position)


class CountedShortcut:
    def __init__(self, desk: CommitDesk) -> None:
        self._desk, self._inside = desk, QuickCommits(cast(Any, desk))

    def take(self, connection: Connection, frame: Frame) -> bool:
        taken = self._inside.take(connection, frame)
        self._desk.taken += taken
        return taken


class CommitDesk:
    """What commits use of a broker; made on a running loop."""

    def __init__(
        self, folder: Path, quick: bool, replicas: tuple[int, ...] = (1,), minimum: int = 1, codec: int = 0
    ) -> None:
        self.taken = 0
        self.classic_member = ""
        self.now_ms = NOW
        self.disk = Disk()
        config = settings(min_insync_replicas=minimum, max_message_bytes=600)
        self.log = open_log(str(folder), files=self.disk, config=config, now=self.wall_ms)
        self.partition = Partition(TopicPartition(OFFSETS_TOPIC, 0), UUID(int=9), 1)
        self.partition.log = self.log
        self.partition.lead(term(1, epoch=3, replicas=replicas, isr=replicas))
        self.config = BrokerConfig.load({"log.dirs": "/nowhere", "offset.metadata.max.bytes": "20"})
        self.codec = codec
        self.timers = RecordingTimers()
        self.forwarding, self.quotas, self.metrics = None, Unlimited(), Metrics()
        self.authorizer: Authorizer = AllowAll()
        self.request_times = RequestTimes(self.metrics)
        self.traffic = Traffic(self.metrics, [self.partition])
        shortcut: Any = (lambda _: CountedShortcut(self)) if quick else None
        self.appends: AppendQueue = cast(AppendQueue, None)
        self.change_topics(A, B)
        dispatcher = Dispatcher(cast(Any, self), {API.key: replace(API, shortcut=shortcut)})
        self.host = Host(dispatcher.dispatch)
        self.appends = AppendQueue(
            asyncio.get_running_loop().call_soon,
            self._blocking,
            lambda _log, _error: self.lose_folder(),
            lambda _: None,
            self.host.gate,
            self.traffic.committed,
        )
        self.groups: CoordinatorService[GroupMachine] = CoordinatorService(
            OFFSETS_TOPIC,
            self._new_machine,
            self.timers,
            cast(Any, self),
            self.appends,
            self._blocking,
            lambda: self.now_ms / 1000,
            self.wall_ms,
            codec=lambda: self.codec,
            checks_lease=True,
        )
        self.follow()
        self.clients = [self._connect() for _ in range(3)]

    # --- what others ask of the broker ---

    def wall_ms(self) -> int:
        return self.now_ms

    def find(self, _topic: str, index: int) -> Partition | None:
        return self.partition if index == 0 else None

    def get(self, _topic: str, _index: int) -> Partition:
        return self.partition

    def _new_machine(self, partition: int, timers: Timers) -> GroupMachine:
        return GroupMachine(
            partition, timers, lambda: self.config, lambda: self.image, self.wall_ms, lambda: UUID(int=77)
        )

    def _blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(work())
        return done

    # --- what happens ---

    def change_topics(self, *topics: TopicImage) -> None:
        self.image = image_of(topics)

    def follow(self) -> None:
        """The coordinator hears who leads its partition."""
        self.groups.load(cast(Any, SimpleNamespace(topics={OFFSETS_TOPIC: SimpleNamespace(partitions=(0,))})))

    def lose_folder(self) -> None:
        self.partition.lose_log()
        self.groups.logs_lost()

    def held_by_all(self) -> None:
        if self.partition.leadership is not None and len(self.partition.replicas) > 1:
            self.partition.fetched_by(2, self.log.log_end_offset, 0)

    def join(self) -> None:
        """A member of a classic group, and one of a group of the newer protocol."""
        for request in (self._join, self._sync, self._beat, self._beat):
            request()
            self.appends.flush()
            self.held_by_all()
            self.fire()
            self.appends.flush()
            self.held_by_all()

    def fire(self) -> None:
        for operation in self.timers.due(self.now_ms / 1000 + 3):
            operation(self.now_ms / 1000)

    def _join(self) -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = JoinGroupRequest(
            group_id=CLASSIC,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            group_instance_id=MEMBER,
            protocols=protocols,
        )
        self.groups.write(CLASSIC, lambda machine, now: machine.classic.join(request, CLIENT, 5, now))

    def _sync(self) -> None:
        self.classic_member = member = self._member_id()
        assignments = [SyncGroupRequestAssignment(member_id=member, assignment=b"all")]
        request = SyncGroupRequest(group_id=CLASSIC, generation_id=1, member_id=member, assignments=assignments)
        self.groups.write(CLASSIC, lambda machine, now: machine.classic.sync(request, now))

    def _beat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMER,
            member_id=MEMBER,
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["a"],
            topic_partitions=[],
        )
        self.groups.write(CONSUMER, lambda machine, now: machine.consumer.heartbeat(request, CLIENT, now, FULL_SIGHT))

    def _member_id(self) -> str:
        group: Any = self.machine.tables.groups[CLASSIC]
        return str(next(iter(group.members)))

    # --- clients ---

    def _connect(self) -> Connection:
        connection = Connection(cast(Any, self.host), "PLAINTEXT")
        connection.connection_made(cast(Any, Transport()))
        return connection

    def receive(self, client: int, frame: bytes) -> None:
        connection, data = self.clients[client], framed(frame)
        if connection.open:
            buffer = connection.get_buffer(-1)
            buffer[: len(data)] = data
            connection.buffer_updated(len(data))

    async def settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    # --- what is there in the end ---

    @property
    def machine(self) -> GroupMachine:
        shard = self.groups.runtime.shard(0)
        assert shard is not None
        return shard.machine

    def outcome(self) -> dict[str, Any]:
        shard = self.groups.runtime.shard(0)
        tables = None if shard is None else shard.machine.tables
        return {
            "answers": [cast(Any, each._transport).sent for each in self.clients],
            "open": [each.open for each in self.clients],
            "log": self.records(),
            "counted": self.counted(),
            "offsets": tables and tables.offsets.committed,
            "readers": tables and tables.offsets.readers,
            "groups": tables and {name: type(group) for name, group in tables.groups.items()},
            "timers": sorted((str(name[1]), deadline) for name, (deadline, _) in self.armed()),
            "heard of": [] if tables is None else deadlines_of(tables.groups.get(CLASSIC)),
            "waiting": 0 if shard is None else len(shard.waiting),
        }

    def records(self) -> bytes:
        return Path(self.log.segments.active.file.path).read_bytes()[: self.log.size_bytes]

    def armed(self) -> list[tuple[Any, Any]]:
        return list(self.timers.armed.items())

    def counted(self) -> dict[str, float]:
        """Times differ, their number does not."""
        return {
            str(name): value.count if isinstance(value, Histogram) else value for name, value in self.metrics.snapshot()
        }


def deadlines_of(group: Any) -> list[float]:
    return [] if group is None else [member.deadline for member in group.members.values()]

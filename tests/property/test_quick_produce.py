"""The short way of produce requests answers, writes and counts exactly what the long way does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.metrics import Histogram, Metrics
from moldau.replication.partition import Partition
from moldau.security.authorizer import AllowAll, Authorizer
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.security.standard import StandardAuthorizer
from moldau.server import quick_produce
from moldau.server.appends import AppendQueue
from moldau.server.connection import AnswerGate, Frame, Slot
from moldau.server.handlers import produce
from moldau.server.producing import Producing
from moldau.server.traffic import Traffic
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.codec import encode
from moldau.wire.framing import read_request_header, skip_header_tags
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.primitives import DecodeError, string
from moldau.wire.records import Record, build_batch
from tests.fakes.lossy_files import LossyFiles
from tests.fakes.unlimited import Unlimited
from tests.support.logs import NOW, TOPIC_PARTITION, open_log, read_bytes, settings
from tests.support.terms import term

FOLDER = "/data/events-0"
TOPIC_ID = UUID(int=7)
DAY_MS = 86_400_000
TOPICS: dict[str, dict[str, object]] = {
    "plain": {},
    "append time": {"message_timestamp_type": "LogAppendTime"},
    "compacted": {"cleanup_policy": "compact"},
    "recompressed": {"compression_type": "gzip"},
    "more replicas wanted than there are": {"min_insync_replicas": 2},
    "small": {"max_message_bytes": 90},
    "narrow": {"message_timestamp_before_max_ms": 1000},
    "small segments": {"segment_bytes": 200},
}


@dataclass(frozen=True, slots=True)
class Batch:
    producer: tuple[int, int, int] | None
    sizes: tuple[int, ...]
    keyed: bool
    age_ms: int
    codec: int
    transactional: bool
    flipped_byte: int | None

    def encode(self, now_ms: int) -> bytes:
        producer_id, epoch, sequence = self.producer or (-1, -1, -1)
        batch = bytearray(
            build_batch(
                [
                    Record(key=b"k" if self.keyed else None, value=b"v" * size, timestamp=now_ms - self.age_ms)
                    for size in self.sizes
                ],
                codec=self.codec,
                transactional=self.transactional,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )
        if self.flipped_byte is not None:
            batch[self.flipped_byte % len(batch)] ^= 1
        return bytes(batch)


@dataclass(frozen=True, slots=True)
class Step:
    batch: Batch
    acks: int
    partition: int
    waits_ms: int


BATCHES = st.builds(
    Batch,
    producer=st.none() | st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 4)),
    sizes=st.lists(st.sampled_from([0, 1, 40]), min_size=1, max_size=2).map(tuple),
    keyed=st.booleans(),
    age_ms=st.sampled_from([0, 0, 0, 5000, -2 * DAY_MS]),
    codec=st.sampled_from([0, 0, 0, 1, 4]),
    transactional=st.sampled_from([False] * 9 + [True]),
    flipped_byte=st.none() | st.none() | st.integers(0, 200),
)
STEPS = st.builds(Step, BATCHES, st.sampled_from([1, -1, -1]), st.sampled_from([0, 0, 0, 9]), st.integers(0, 3))


@dataclass(slots=True)
class Connection:
    """What produce uses of a connection: routes, and places for answers."""

    client: ClientIdentity
    shortcut: quick_produce.ProduceRoutes | None = None
    slots: list[Slot] = field(default_factory=list)

    def reserve(self) -> Slot:
        slot = Slot(cast(Any, self))
        self.slots.append(slot)
        return slot

    def slot_filled(self) -> None: ...


class Desk:
    """What produce uses of a broker, over one partition with a real log."""

    def __init__(self, config: dict[str, object], quick: bool, replicas: tuple[int, ...] = (1,)) -> None:
        self.quick = quick
        self.taken = 0
        self.now_ms = NOW
        files = LossyFiles()
        files.make_directory(FOLDER)
        self.log = open_log(FOLDER, files=files, config=settings(**config), now=self.wall_ms)
        self.partition = Partition(TOPIC_PARTITION, TOPIC_ID, 1)
        self.partition.log = self.log
        self.partition.lead(term(1, epoch=3, replicas=replicas, isr=replicas))
        self.image = SimpleNamespace(topics_by_id={TOPIC_ID: SimpleNamespace(name=TOPIC_PARTITION.topic)})
        self.partitions = self
        self.authorizer: Authorizer = AllowAll()
        self.quotas, self.metrics = Unlimited(), Metrics()
        ignore: Any = lambda *_: None  # noqa: E731
        self.traffic = Traffic(self.metrics, [self.partition])
        self.appends = AppendQueue(ignore, ignore, ignore, ignore, AnswerGate(), self.traffic.committed)
        self.producing = Producing(self.wall_ms, self.appends, self.metrics)
        self.connection = Connection(ClientIdentity(ANONYMOUS, "PLAINTEXT", "unknown"))

    def wall_ms(self) -> int:
        return self.now_ms

    def nodes(self, _listener: str) -> list[Any]:
        return []

    def find(self, topic: str, index: int) -> Partition | None:
        return self.partition if (topic, index) == TOPIC_PARTITION else None

    def get(self, topic: str, index: int) -> Partition:
        found = self.find(topic, index)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def receive(self, request: bytes) -> None:
        frame = Frame(memoryview(bytearray(request)), None, cast(Any, self.connection))
        if (
            self.quick
            and self.connection.shortcut is not None
            and self.connection.shortcut.take(cast(Any, self.connection), frame)
        ):
            self.taken += 1
            return
        header = read_request_header(frame.view)
        self.producing.count_request(header.api_version)  # as the dispatcher does
        context = RequestContext(self.connection.client, "", header.api_key, header.api_version, header.correlation_id)
        flexible = header.api_version >= ProduceRequest.FLEXIBLE_FROM
        body = skip_header_tags(frame.view, header.body) if flexible else header.body
        produce.handle(cast(Any, self), context, frame, body, self.connection.reserve())

    def counted(self) -> dict[str, float]:
        """Times differ, their number does not."""
        return {
            str(name): value.count if isinstance(value, Histogram) else value for name, value in self.metrics.snapshot()
        }

    def answers(self) -> list[bytes]:
        assert all(slot.pieces is not None for slot in self.connection.slots)
        return [b"".join(cast("tuple[bytes, ...]", slot.pieces)) for slot in self.connection.slots]


def request_of(step: Step, version: int, correlation_id: int, now_ms: int, timeout_ms: int = 1000) -> bytes:
    data = PartitionProduceData(index=step.partition, records=step.batch.encode(now_ms))
    topic = TopicProduceData(name=TOPIC_PARTITION.topic, topic_id=TOPIC_ID, partition_data=[data])
    message = ProduceRequest(acks=step.acks, timeout_ms=timeout_ms, topic_data=[topic])
    head = b"\x00\x00" + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big") + string("client")
    return head + (b"\x00" if version >= ProduceRequest.FLEXIBLE_FROM else b"") + encode(message, version)


def play(config: dict[str, object], version: int, turns: list[list[Step]], quick: bool) -> Desk:
    desk = Desk(config, quick)
    for number, turn in enumerate(turns):
        for place, step in enumerate(turn):
            desk.now_ms += step.waits_ms
            desk.receive(request_of(step, version, 100 * number + place, desk.now_ms))
        desk.appends.flush()
    return desk


@given(
    st.sampled_from(sorted(TOPICS)),
    st.integers(3, 13),
    st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=1, max_size=8),
)
def test_both_ways_answer_and_write_the_same(topic: str, version: int, turns: list[list[Step]]) -> None:
    compare(topic, version, turns)


@pytest.mark.parametrize("topic", TOPICS)
def test_both_ways_know_batches_that_come_again_or_too_early(topic: str) -> None:
    def step(epoch: int, sequence: int) -> Step:
        return Step(Batch((1, epoch, sequence), (1,), True, 0, 0, False, None), -1, 0, 1)

    order = [(0, 0), (0, 0), (0, 1), (0, 0), (0, 5), (1, 3), (1, 0), (1, 0), (0, 2), (1, 1)]
    for version in range(3, 14):
        compare(topic, version, [[step(*each)] for each in order])
        compare(topic, version, [[step(*each) for each in order]])


def compare(topic: str, version: int, turns: list[list[Step]]) -> None:
    short, long = (play(TOPICS[topic], version, turns, quick) for quick in (True, False))
    assert short.answers() == long.answers()
    assert short.counted() == long.counted()
    assert short.log.log_end_offset == long.log.log_end_offset
    assert dict(short.log.producers.items()) == dict(long.log.producers.items())
    if short.log.log_end_offset:
        assert read_bytes(short.log, 0) == read_bytes(long.log, 0)


def test_the_short_way_is_taken_for_what_comes_again_and_again() -> None:
    """Else the test above would compare the long way with itself."""
    batch = Batch((1, 0, 0), (1,), keyed=True, age_ms=0, codec=0, transactional=False, flipped_byte=None)
    steps = [Step(batch, -1, 0, 1)] * 5
    for version in range(3, 14):
        for config in TOPICS.values():
            assert play(config, version, [steps], quick=True).taken == 4


# -- several replicas: acks=all waits for them ------------------------------------------------------------------------


def held_by_all(desk: Desk) -> None:
    if desk.partition.leadership is not None:
        desk.partition.fetched_by(2, desk.log.log_end_offset, 0)


def held_but_for_the_last(desk: Desk) -> None:
    if desk.partition.leadership is not None:
        desk.partition.fetched_by(2, max(0, desk.log.log_end_offset - 1), 0)


def another_leader(desk: Desk) -> None:
    desk.partition.follow(term(2, epoch=4, replicas=(1, 2)))


def too_few(desk: Desk) -> None:
    if desk.partition.leader_epoch == 3:
        desk.partition.lead(term(1, epoch=3, replicas=(1, 2), isr=(1,), partition_epoch=9))


def folder_lost(desk: Desk) -> None:
    desk.partition.lose_log()


FATES = [held_by_all, held_but_for_the_last, another_leader, too_few, folder_lost]


@given(
    st.integers(3, 13),
    st.sampled_from([1, 2]),
    st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=3), st.sampled_from(FATES)), min_size=1, max_size=8),
)
def test_both_ways_wait_for_replicas_alike(
    version: int, minimum: int, turns: list[tuple[list[Step], Callable[[Desk], None]]]
) -> None:
    async def main() -> None:
        short, long = [await play_replicated(version, minimum, turns, quick) for quick in (True, False)]
        assert short.answers() == long.answers()
        assert short.counted() == long.counted()
        assert short.log.log_end_offset == long.log.log_end_offset
        assert dict(short.log.producers.items()) == dict(long.log.producers.items())

    asyncio.run(main())


def test_the_short_way_is_taken_with_several_replicas() -> None:
    """Else the test above would compare the long way with itself; and the answer waits for the follower."""

    async def main() -> None:
        batch = Batch(None, (1,), keyed=True, age_ms=0, codec=0, transactional=False, flipped_byte=None)
        desk = Desk({"min_insync_replicas": 2}, quick=True, replicas=(1, 2))
        for number in range(2):
            desk.receive(request_of(Step(batch, -1, 0, 1), 9, number, desk.now_ms))
            desk.appends.flush()
        assert desk.taken == 1
        assert [slot.pieces for slot in desk.connection.slots] == [None, None]
        held_by_all(desk)
        assert len(desk.answers()) == 2

    asyncio.run(main())


async def play_replicated(
    version: int, minimum: int, turns: list[tuple[list[Step], Callable[[Desk], None]]], quick: bool
) -> Desk:
    desk = Desk({"min_insync_replicas": minimum}, quick, replicas=(1, 2))
    number = 0
    for steps, fate in turns:
        for step in steps:
            number += 1
            desk.receive(request_of(step, version, number, desk.now_ms, timeout_ms=0))
        desk.appends.flush()
        fate(desk)
    # Whatever waits now has no time left.
    while any(slot.pieces is None for slot in desk.connection.slots):  # noqa: ASYNC110
        await asyncio.sleep(0)
    return desk


def test_a_write_that_is_refused_on_the_short_way_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    batch = Batch(None, (1,), keyed=True, age_ms=0, codec=0, transactional=False, flipped_byte=None)
    desk = play({}, 11, [[Step(batch, -1, 0, 1)] * 3], quick=True)
    assert desk.taken == 2
    desk.authorizer = StandardAuthorizer()
    with caplog.at_level(logging.INFO, "moldau.security.authorizer"):
        desk.receive(request_of(Step(batch, -1, 0, 1), 11, 7, desk.now_ms))
    assert desk.taken == 2
    assert [" is Denied operation = WRITE " in line for line in caplog.messages] == [True]


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\0\0\x0b"])
def test_a_frame_without_a_whole_head_is_left_to_the_long_way(frame: bytes) -> None:
    batch = Batch(None, (1,), keyed=True, age_ms=0, codec=0, transactional=False, flipped_byte=None)
    desk = play({}, 11, [[Step(batch, -1, 0, 1)] * 2], quick=True)
    with pytest.raises(DecodeError):
        desk.receive(frame)

"""The short way of produce requests answers and writes exactly what the long way does."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.metrics import Metrics
from moldau.replication.partition import Partition
from moldau.security.authorizer import AllowAll
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.security.quotas import Unlimited
from moldau.server import quick_produce
from moldau.server.appends import AppendQueue
from moldau.server.connection import AnswerGate, Frame, Slot
from moldau.server.handlers import produce
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.codec import encode
from moldau.wire.framing import read_request_header, skip_header_tags
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.primitives import string
from moldau.wire.records import Record, build_batch
from tests.fakes.lossy_files import LossyFiles
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
    produce_routes: quick_produce.ProduceRoutes | None = None
    slots: list[Slot] = field(default_factory=list)

    def reserve(self) -> Slot:
        slot = Slot(cast(Any, self))
        self.slots.append(slot)
        return slot

    def slot_filled(self) -> None: ...


class Desk:
    """What produce uses of a broker, over one partition with a real log."""

    def __init__(self, config: dict[str, object], quick: bool) -> None:
        self.quick = quick
        self.taken = 0
        self.now_ms = NOW
        files = LossyFiles()
        files.make_directory(FOLDER)
        self.log = open_log(FOLDER, files=files, config=settings(**config), now=self.wall_ms)
        self.partition = Partition(TOPIC_PARTITION, TOPIC_ID, 1)
        self.partition.log = self.log
        self.partition.lead(term(1, epoch=3))
        self.image = SimpleNamespace(topics_by_id={TOPIC_ID: SimpleNamespace(name=TOPIC_PARTITION.topic)})
        self.partitions = self
        self.authorizer, self.quotas, metrics = AllowAll(), Unlimited(), Metrics()
        self.bytes_in = metrics.counter("test", "test", "BytesIn")
        ignore: Any = lambda *_: None  # noqa: E731
        self.appends = AppendQueue(ignore, ignore, ignore, ignore, AnswerGate())
        self.connection = Connection(ClientIdentity(ANONYMOUS, "PLAINTEXT", "unknown"))

    def wall_ms(self) -> int:
        return self.now_ms

    def find(self, topic: str, index: int) -> Partition | None:
        return self.partition if (topic, index) == TOPIC_PARTITION else None

    def get(self, topic: str, index: int) -> Partition:
        found = self.find(topic, index)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def produce_requests(self, version: int) -> Any:
        return self.bytes_in

    def record_produce(self, done: object, seconds: float) -> None: ...

    def receive(self, request: bytes) -> None:
        frame = Frame(memoryview(bytearray(request)), None, cast(Any, self.connection))
        if (
            self.quick
            and self.connection.produce_routes is not None
            and quick_produce.take(cast(Any, self), cast(Any, self.connection), frame)
        ):
            self.taken += 1
            return
        header = read_request_header(frame.view)
        context = RequestContext(self.connection.client, "", header.api_key, header.api_version, header.correlation_id)
        flexible = header.api_version >= ProduceRequest.FLEXIBLE_FROM
        body = skip_header_tags(frame.view, header.body) if flexible else header.body
        produce.handle(cast(Any, self), context, frame, body, self.connection.reserve())

    def answers(self) -> list[bytes]:
        assert all(slot.pieces is not None for slot in self.connection.slots)
        return [b"".join(cast("tuple[bytes, ...]", slot.pieces)) for slot in self.connection.slots]


def request_of(step: Step, version: int, correlation_id: int, now_ms: int) -> bytes:
    data = PartitionProduceData(index=step.partition, records=step.batch.encode(now_ms))
    topic = TopicProduceData(name=TOPIC_PARTITION.topic, topic_id=TOPIC_ID, partition_data=[data])
    message = ProduceRequest(acks=step.acks, timeout_ms=1000, topic_data=[topic])
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

"""The short way of offset commits of the common form: as one batch, packed by the kernel straight from the request.

The kernel gives the batch, the answer and what is committed, or says that the request is not of the kind that it knows.
Who is asked on the long way is asked here: the authorizer, the coordinator's shard, the group. Where one of them
refuses, nothing was done, and the long way gives the answer. From the append on there is no way back: what happens to
the batch is told in the answer, as on the long way at each of its offsets.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moldau.coordinators.groups.offset_commits import PackedOffsets
from moldau.kernels import NATIVE, pack_commit
from moldau.metadata.image import ClusterImage
from moldau.metrics import Counter
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.offset_parts import METADATA_PER_BATCH, OFFSETS_AT_ONCE, OFFSETS_PER_BATCH
from moldau.types.errors import KafkaError
from moldau.types.ids import ZERO_TOPIC_ID
from moldau.wire.apis import ApiKey
from moldau.wire.codec import decode, encode
from moldau.wire.framing import FIXED_HEADER, SIZE_AND_CORRELATION, frame_response
from moldau.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from moldau.kernels.signatures import CommitTopic
    from moldau.server.broker import Broker
    from moldau.server.connection import Connection, Frame, Slot

NETWORK, METRICS, NAME = "kafka.network", "RequestMetrics", "OffsetCommit"
TOPIC_IDS_FROM = 10
#: As many as may be packed without keeping everybody else waiting.
MOST_OFFSETS = OFFSETS_PER_BATCH if NATIVE else OFFSETS_AT_ONCE
#: A thousand offsets with a note of 200 bytes at each.
LARGEST_FRAME_BYTES = 256 * 1024


class KnownTopics(dict[bytes, "CommitTopic | None"]):
    """What the kernel has to know of topics, by name or id as they stand in requests; of one image."""

    def __init__(self, image: ClusterImage, by_id: bool) -> None:
        super().__init__()
        self._image = image
        self._by_id = by_id

    def __missing__(self, key: bytes) -> CommitTopic | None:
        if self._by_id:
            topic = self._image.topics_by_id.get(UUID(bytes=key))
        else:
            topic = self._image.topics.get(key.decode(errors="replace"))
        if topic is None or topic.id == ZERO_TOPIC_ID:
            return None  # and not remembered: there is no end to names that do not exist
        found = self[key] = topic.name, topic.id.bytes, len(topic.partitions)
        return found


class QuickCommit:
    """One commit on the short way, until its batch is committed. Told by the coordinator, it answers outside of it."""

    __slots__ = ("_answer", "_commits", "_error", "_slot", "_started", "_version", "_waits_since")

    def __init__(self, commits: QuickCommits, version: int, answer: bytes, started: float) -> None:
        """`answer`: if nothing goes wrong."""
        self._commits, self._version, self._answer, self._started = commits, version, answer, started
        self._slot: Slot | None = None
        self._error: KafkaError | None = None
        self._waits_since = 0.0

    def wait(self, connection: Connection) -> None:
        """The batch is on its way, or was refused already."""
        self._slot = connection.reserve()
        if self._error is not None:
            self._refuse(self._error)
            self._commits.answered(self._started)
            self._slot.answer((self._answer,))
            return
        connection.park()
        self._waits_since = perf_counter()

    def succeed(self, _value: Any) -> None:
        self._finish()

    def fail(self, error: KafkaError) -> None:
        self._error = error
        if self._slot is not None:
            self._refuse(error)
            self._finish()

    def _refuse(self, error: KafkaError) -> None:
        """The answer with the code at each partition."""
        self._answer = refusal(self._answer, self._version, error.code)

    def _finish(self) -> None:
        slot = self._slot
        assert slot is not None
        self._commits.waited(perf_counter() - self._waits_since)
        self._commits.answered(self._started)
        if slot.connection.host.gate.closed:
            slot.answer((self._answer,))
        else:  # at once, the client's next request could come into the coordinator's hands in the middle of something
            asyncio.get_running_loop().call_soon(slot.answer, (self._answer,))


class QuickCommits:
    """The shortcut of a broker for this API."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._image: ClusterImage | None = None
        self._topics: tuple[KnownTopics, KnownTopics]
        self._requests: dict[int, Counter] = {}
        self._times = broker.metrics.histogram(NETWORK, METRICS, "TotalTimeMs", request=NAME)

    def take(self, connection: Connection, frame: Frame) -> bool:
        """Whether the request was taken; if not, nothing of it was touched."""
        broker, started = self._broker, perf_counter()
        if frame.size > LARGEST_FRAME_BYTES or frame.size < FIXED_HEADER.size or broker.quotas.active:
            return False
        key, version, correlation_id = FIXED_HEADER.unpack_from(frame.view)
        if (
            key != ApiKey.OFFSET_COMMIT
            or not OffsetCommitRequest.FIRST_VERSION <= version <= OffsetCommitRequest.LAST_VERSION
        ):
            return False
        packed = pack_commit(
            frame.view,
            version,
            self._topics_for(version),
            broker.wall_ms(),
            MOST_OFFSETS,
            broker.config.offset_metadata_max_bytes,
            METADATA_PER_BATCH,
        )
        if packed is None:
            return False
        group_id, generation, member_id, instance_id, batch, answer, offsets, count = packed
        if broker.authorizer.keeps_rules:
            context = RequestContext(connection.client, "", key, version, correlation_id)
            if not self._allows(context, group_id, offsets):
                return False  # the long way refuses it, and tells the audit log
        commit = PackedOffsets(group_id, member_id, instance_id, generation, version, offsets)
        told = QuickCommit(self, version, answer, started)
        try:
            broker.groups.write_packed(
                group_id, lambda machine, now: machine.offsets.commit_packed(commit, now), batch, count, told
            )
        except KafkaError:
            return False
        frame.release()
        self._count(version)
        told.wait(connection)
        return True

    def waited(self, seconds: float) -> None:
        self._broker.request_times.waited(NAME, seconds)

    def answered(self, started: float) -> None:
        self._times.record((perf_counter() - started) * 1000)

    def _topics_for(self, version: int) -> KnownTopics:
        image = self._broker.image
        if image is not self._image:
            self._image = image
            self._topics = KnownTopics(image, by_id=False), KnownTopics(image, by_id=True)
        return self._topics[version >= TOPIC_IDS_FROM]

    def _allows(self, context: RequestContext, group_id: str, topics: dict[str, dict[int, bytes]]) -> bool:
        allows = self._broker.authorizer.allows
        return allows(context, Operation.READ, Resource.GROUP, group_id, audited=False) and all(
            allows(context, Operation.READ, Resource.TOPIC, topic, audited=False) for topic in topics
        )

    def _count(self, version: int) -> None:
        """As the dispatcher counts the requests that it hands to handlers."""
        counter = self._requests.get(version)
        if counter is None:
            counter = self._requests[version] = self._broker.metrics.counter(
                NETWORK, METRICS, "RequestsPerSec", request=NAME, version=str(version)
            )
        counter.value += 1


def refusal(answer: bytes, version: int, code: int) -> bytes:
    """The same answer with another code at each partition."""
    has_tags = version >= OffsetCommitResponse.FLEXIBLE_FROM
    _, correlation_id = SIZE_AND_CORRELATION.unpack_from(answer)
    message, _ = decode(OffsetCommitResponse, version, answer, SIZE_AND_CORRELATION.size + has_tags)
    for topic in message.topics:
        for partition in topic.partitions:
            partition.error_code = code
    return frame_response(correlation_id, has_tags, encode(message, version))

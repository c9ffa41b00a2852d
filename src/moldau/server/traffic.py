"""Records that come in and go out, under Kafka's metric names (BrokerTopicMetrics).

Counted once for each commit and each answer, not for each batch: of the broker as a whole in counters, of topics in
their partitions, which are added up when somebody asks. Bytes are those of record batches. Whatever is committed by a
leader counts as in (a coordinator's records and markers too); copies between brokers count apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from moldau.metrics import MetricName, Metrics, Sample
from moldau.replication.partition import Partition
from moldau.storage.log import Commit
from moldau.types.errors import ErrorCode

SERVER, TOPICS = "kafka.server", "BrokerTopicMetrics"

#: Answers to which a client finds its way by itself; anything else is a fetch that failed.
PASSING = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
)


class Traffic:
    def __init__(self, metrics: Metrics, partitions: Iterable[Partition]) -> None:
        self._partitions = partitions
        self._messages_in = metrics.counter(SERVER, TOPICS, "MessagesInPerSec")
        self._bytes_in = metrics.counter(SERVER, TOPICS, "BytesInPerSec")
        self._bytes_out = metrics.counter(SERVER, TOPICS, "BytesOutPerSec")
        self._rejected = metrics.counter(SERVER, TOPICS, "BytesRejectedPerSec")
        self._appends = metrics.counter(SERVER, TOPICS, "TotalProduceRequestsPerSec")
        self._fetches = metrics.counter(SERVER, TOPICS, "TotalFetchRequestsPerSec")
        self._failed_fetches = metrics.counter(SERVER, TOPICS, "FailedFetchRequestsPerSec")
        self._copied_in = metrics.counter(SERVER, TOPICS, "ReplicationBytesInPerSec")
        self._copied_out = metrics.counter(SERVER, TOPICS, "ReplicationBytesOutPerSec")
        self._moved_in = metrics.counter(SERVER, TOPICS, "ReassignmentBytesInPerSec")
        self._moved_out = metrics.counter(SERVER, TOPICS, "ReassignmentBytesOutPerSec")
        metrics.collect(self._of_topics)

    def committed(self, partition: Partition, commit: Commit, batches: int) -> None:
        """Batches that a leader has written together."""
        messages, size = commit.end_offset - commit.first_offset, commit.size
        partition.messages_in += messages
        partition.bytes_in += size
        self._messages_in.value += messages
        self._bytes_in.value += size
        self._appends.value += batches

    def refused(self, code: int, size: int) -> None:
        """A partition's part of a produce request."""
        self._appends.value += 1
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            self._rejected.value += size

    def asked(self, partitions: int, errors: Sequence[int]) -> None:
        """A fetch is answered."""
        self._fetches.value += partitions
        self._failed_fetches.value += sum(code not in PASSING for code in errors)

    def read(self, partition: Partition | None, size: int) -> None:
        """A consumer gets records."""
        self._bytes_out.value += size
        if partition is not None:
            partition.bytes_out += size

    def copied(self, partition: Partition | None, size: int, follower: int) -> None:
        """A follower gets records."""
        self._copied_out.value += size
        if partition is not None and follower in partition.adding:
            self._moved_out.value += size

    def followed(self, partition: Partition, size: int) -> None:
        """This broker, as a follower, has got records."""
        self._copied_in.value += size
        if partition.local_id in partition.adding:
            self._moved_in.value += size

    def _of_topics(self) -> Iterator[Sample]:
        sums: dict[str, list[int]] = {}
        for partition in tuple(self._partitions):
            if partition.bytes_in or partition.bytes_out or partition.leads:
                found = sums.setdefault(partition.topic_partition.topic, [0, 0, 0])
                found[0] += partition.messages_in
                found[1] += partition.bytes_in
                found[2] += partition.bytes_out
        for topic, (messages, bytes_in, bytes_out) in sums.items():
            tags = (("topic", topic),)
            yield MetricName(SERVER, TOPICS, "MessagesInPerSec", tags), messages
            yield MetricName(SERVER, TOPICS, "BytesInPerSec", tags), bytes_in
            yield MetricName(SERVER, TOPICS, "BytesOutPerSec", tags), bytes_out

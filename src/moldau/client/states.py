"""Topics that keep a state as the last record of each key: read from the beginning, and then on, to the end.

What transactions wrote counts from their commit marker on, as for any reader of committed records; but other
transactions that are still open are not waited for. Whoever has settled his own (by opening his transactional id) finds
his own records complete, and never waits for somebody who waits for him.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from moldau.client.cluster import Cluster, check
from moldau.kernels import BatchCheck, check_batch
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.aborted import is_abort_marker
from moldau.wire.batch import HEADER_SIZE
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.messages.metadata import MetadataResponseTopic
from moldau.wire.records import Record, iter_batches, iter_records

EARLIEST: Final = -2
LATEST: Final = -1
FETCH_BYTES: Final = 1 << 20
COMMITTED: Final = 1
ANYTHING: Final = 0


class StateReader:
    """One topic; each call of `new` gives what was committed since the last one."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: Iterable[int] | None = None,
        begins: Mapping[int, int] | None = None,
    ) -> None:
        """`begins`: where not at the beginning."""
        self._cluster = cluster
        self._topic = topic
        self._only = None if partitions is None else frozenset(partitions)
        self._positions: dict[int, int] = dict(begins or {})
        self._open: dict[tuple[int, int], list[Record]] = {}
        """What transactions have written that have not ended, by partition and producer."""

    def exists(self) -> bool:
        return not self._cluster.metadata([self._topic]).topics[0].error_code

    def new(self) -> Iterator[Record]:
        return (record for _, record in self.placed())

    def placed(self) -> Iterator[tuple[int, Record]]:
        """With the partition of each."""
        topic = self._cluster.topic(self._topic)
        places = [
            TopicPartition(self._topic, part.partition_index)
            for part in topic.partitions
            if self._only is None or part.partition_index in self._only
        ]
        ends = offsets_at(self._cluster, places, LATEST)
        for place in places:
            for record in self._read(topic, place, ends[place]):
                yield place.partition, record

    def _read(self, topic: MetadataResponseTopic, place: TopicPartition, end: int) -> Iterator[Record]:
        index = place.partition
        while self._positions.get(index, 0) < end:
            position = self._positions.get(index, 0)
            try:
                found = self._cluster.retrying(partial(self._fetch, topic, place, position))
            except KafkaError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._positions[index] = offsets_at(self._cluster, [place], EARLIEST)[place]
                if self._positions[index] <= position:
                    return  # the topic is new, or was cut: its end is before what we knew
                continue
            yield from self._committed(index, found)
            if self._positions.get(index, 0) == position:
                return  # nothing is left between here and the end

    def _fetch(self, topic: MetadataResponseTopic, place: TopicPartition, position: int) -> PartitionData:
        part = FetchPartition(partition=place.partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=ANYTHING,
            topics=[FetchTopic(topic_id=topic.topic_id, topic=place.topic, partitions=[part])],
        )
        answer = self._cluster.to_broker(self._cluster.leader(place), request, FetchResponse)
        check(answer.error_code, str(place))
        (found,) = [each for named in answer.responses for each in named.partitions]
        check(found.error_code, str(place))
        return found

    def _committed(self, index: int, data: PartitionData) -> Iterator[Record]:
        for batch in iter_batches(data.records or b""):
            header = batch.header
            if header.next_offset <= self._positions.get(index, 0):
                continue
            self._positions[index] = header.next_offset
            key = (index, header.producer_id)
            if header.is_control:
                fields = BatchCheck(*check_batch(batch.data, 0, len(batch.data), False))
                written = self._open.pop(key, [])
                if not is_abort_marker(batch.data[HEADER_SIZE:], fields):
                    yield from written
            elif header.is_transactional:
                self._open.setdefault(key, []).extend(iter_records(batch))
            else:
                yield from iter_records(batch)


def offsets_at(
    cluster: Cluster, places: Iterable[TopicPartition], timestamp: int, isolation: int = ANYTHING
) -> dict[TopicPartition, int]:
    """Where the logs begin or end; raises KafkaError where a partition does not say."""
    wanted = list(places)

    def ask() -> dict[TopicPartition, int]:
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for place in wanted:
            topics = by_leader.setdefault(cluster.leader(place), {})
            asked = ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp)
            topics.setdefault(place.topic, []).append(asked)
        found = {}
        for leader, topics in by_leader.items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
            )
            for topic in cluster.to_broker(leader, request, ListOffsetsResponse).topics:
                for part in topic.partitions:
                    place = TopicPartition(topic.name, part.partition_index)
                    check(part.error_code, str(place))
                    found[place] = part.offset
        return found

    return cluster.retrying(ask)

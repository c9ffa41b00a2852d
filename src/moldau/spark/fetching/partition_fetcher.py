"""One partition's raw fetches: finds its leader, repeats what fails for a passing reason, tells loss from delay.

Answers come as they are on the wire; `moldau.spark.fetching.decoding` reads them. What ends a read before its end:

- data loss: another topic id behind the name, no such topic any more, an offset outside of the log, or a log that stays
  shorter than the plan knew it. With `failOnDataLoss` false the read goes on with what is there.
- a refusal that repeating would not cure, such as a missing permission: at once
- brokers that are away for longer than the client's patience, or that answer, but hand no records out for
  `timeout_seconds`: an error that names broker, partition, offset and the last cause

An answer without records although the log reaches beyond the end of the split means that nothing is left between (the
tail was compacted away); it is believed when it comes twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.client.cluster import Cluster, check, longer, passes
from moldau.client.connection import Connection
from moldau.client.errors import ClientError, ConnectionLost
from moldau.kernels import skim_batches
from moldau.spark.errors import SourceError, out_of_patience
from moldau.spark.fetching.loss import LossPolicy
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from typing_extensions import Buffer

FETCH_BY_ID_FROM: Final = 13
EARLIEST, LATEST = -2, -1
SMALLEST_FETCH: Final = 64 * 1024
FIRST_FETCH: Final = 1 << 20
USUAL_FETCH: Final = 4 << 20
GUESSED_RECORD_BYTES: Final = 1024
LARGEST_FETCH: Final = 2**31 - 1
UNKNOWN: Final = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID,
})  # fmt: skip


class OtherTopic(Exception):
    """The name leads to another topic than planned."""


class NotYet(Exception):
    """The broker answered, but not with records."""

    def __init__(self, problem: str, *, pause: bool = False, is_loss: bool = False) -> None:
        super().__init__(problem)
        self.pause = pause
        self.is_loss = is_loss


@dataclass(frozen=True, slots=True)
class Answer:
    """Record batches from the wanted offset on, and where the next fetch has to begin."""

    records: Buffer
    aborted: Sequence[tuple[int, int]]
    next_offset: int
    batches: int = 0

    @property
    def size(self) -> int:
        return memoryview(self.records).nbytes


@dataclass(slots=True)
class Limits:
    """How long a fetch may go on failing. While no broker answers, the wait for its records stands still."""

    away_seconds: float
    waiting_seconds: float
    now: float
    away: float = 0.0
    waited: float = 0.0

    def are_over(self, now: float, pause: float, *, is_away: bool) -> bool:
        passed, self.now = now - self.now, now
        if is_away:
            self.away += passed
            return self.away + pause > self.away_seconds
        self.away = 0.0
        self.waited += passed
        return self.waited + pause > self.waiting_seconds


class PartitionFetcher:
    def __init__(
        self,
        cluster: Cluster,
        split: Split,
        settings: ReadSettings,
        expected_bytes: int | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`expected_bytes`: what the split is known to hold; one answer shall bring it."""
        self._cluster = cluster
        self.split = split
        self._settings = settings
        self._policy = LossPolicy(split, settings)
        self._monotonic = monotonic
        self._sleep = sleep
        self._topic_id = split.topic_id or ZERO_UUID
        self._node = -1 if split.leader is None or split.topic_id is None else split.leader
        self._rack = settings.rack
        guessed = max(SMALLEST_FETCH, min(FIRST_FETCH, split.size * GUESSED_RECORD_BYTES))
        self._fetch_bytes = min(settings.fetch_bytes, expected_bytes or guessed)
        self._full_bytes = min(settings.fetch_bytes, expected_bytes or USUAL_FETCH)
        self._wait_ms = 0
        """The records are there, or so the plan knew: a wait makes sense only when they do not come."""
        self._empty_answers = 0
        self._compared = False
        self.connection: Connection | None = None

    @property
    def name(self) -> str:
        return self._policy.name

    @property
    def next_bytes(self) -> int:
        """What the next answer may bring, as far as can be known."""
        return self._fetch_bytes

    def fetch(self, offset: int) -> Answer | None:
        """The batches from `offset` on; None if there is nothing up to the end of the split."""
        limits = Limits(self._cluster.settings.total_seconds, self._settings.timeout_seconds, self._monotonic())
        known = self._monotonic()
        pause = self._cluster.settings.backoff_seconds
        while True:
            waits = True
            failure: Exception
            try:
                return self._attempt(offset)
            except NotYet as error:
                failure, waits = error, error.pause
            except KafkaError as error:
                if not passes(error):
                    raise SourceError(self._said(offset, str(error))) from error
                failure = error
                self._look_again()
            except ConnectionLost as error:
                failure = error
                self._look_again()
            except ClientError as error:
                raise SourceError(self._said(offset, str(error))) from error
            now = self._monotonic()
            if not (isinstance(failure, KafkaError) and failure.code in UNKNOWN):
                known = now
            if now - known > self._settings.missing_seconds:
                self._policy.topic_gone(offset)
                return None
            if limits.are_over(now, pause, is_away=not isinstance(failure, NotYet)):
                self._give_up(offset, failure)
                return None
            if waits:
                self._sleep(pause)
                pause = longer(pause)

    # -- one request ---------------------------------------------------------------------------------------------

    def _attempt(self, offset: int) -> Answer | None:
        try:
            data = self._once(offset)
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return self._out_of_range(offset)
        except OtherTopic as error:
            self._policy.lost(str(error))
            return None
        if data.records:
            return self._with_records(offset, data)
        if self._reach(data) < self.split.end:
            self._empty_answers = 0
            self._wait_ms = self._settings.max_wait_ms
            raise self._behind(data)
        self._empty_answers += 1
        if self._empty_answers >= 2:
            return None
        raise NotYet("no records came")

    def _once(self, offset: int) -> PartitionData:
        if self._node < 0:
            self._find_leader()
        self.connection = self._cluster.connection(self._node)
        by_id = self.connection.version_of(REQUEST_FOR_VERSION) >= FETCH_BY_ID_FROM
        if not self._compared and (not by_id or self._topic_id == ZERO_UUID):
            self._find_leader()  # to learn the topic's id, or where records cannot be asked for by it, to compare it
            self.connection = self._cluster.connection(self._node)
        answer = self.connection.call(self._request(offset), FetchResponse)
        check(answer.error_code, self.name)
        for topic in answer.responses:
            for partition in topic.partitions:
                check(partition.error_code, self.name)
                if partition.preferred_read_replica >= 0 and not partition.records:
                    self._node = partition.preferred_read_replica
                    raise NotYet(f"the leader sent us to its replica {self._node}")
                return partition
        self._sleep(answer.throttle_time_ms / 1000)
        raise NotYet("the broker throttles this client", pause=not answer.throttle_time_ms)

    def _request(self, offset: int) -> FetchRequest:
        partition = FetchPartition(
            partition=self.split.partition, fetch_offset=offset, partition_max_bytes=self._fetch_bytes
        )
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=1 if self._settings.committed else 0,
            topics=[FetchTopic(topic_id=self._topic_id, topic=self.split.topic, partitions=[partition])],
            rack_id=self._rack,
        )

    def _find_leader(self) -> None:
        (topic,) = self._cluster.metadata([self.split.topic]).topics
        check(topic.error_code, f"topic {self.split.topic}")
        wanted = self.split.topic_id
        if wanted is not None and topic.topic_id not in (wanted, ZERO_UUID):
            raise OtherTopic(self._policy.recreated)
        self._topic_id = topic.topic_id
        self._compared = True
        for partition in topic.partitions:
            if partition.partition_index == self.split.partition:
                if partition.leader_id < 0:
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.name} has no leader")
                self._node = partition.leader_id
                return
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic has no partition {self.split.partition}")

    def _look_again(self) -> None:
        """The next try asks who leads, and so whether it is still the same topic."""
        self._node = -1
        self._rack = ""

    # -- what an answer means ------------------------------------------------------------------------------------

    def _with_records(self, offset: int, data: PartitionData) -> Answer:
        records = data.records or b""
        self._empty_answers = 0
        size = memoryview(records).nbytes
        _, next_offset, count = skim_batches(records, 0, size)
        if count == 0:
            if self._fetch_bytes >= LARGEST_FETCH:
                raise SourceError(self._said(offset, "a record batch of more than 2 GiB cannot be read"))
            self._fetch_bytes = min(LARGEST_FETCH, max(2 * self._fetch_bytes, 2 * size))
            return Answer(b"", (), offset)
        next_offset = max(next_offset, offset)
        self._plan_size(size, next_offset - offset, self.split.end - next_offset)
        aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        return Answer(records, aborted, next_offset, count)

    def _plan_size(self, size: int, offsets: int, left: int) -> None:
        """As much as the rest of the split will need, if it is less than a full fetch: what lies behind is not ours."""
        needed = size * max(left, 0) // max(offsets, 1)
        self._fetch_bytes = min(self._full_bytes, needed + needed // 16 + SMALLEST_FETCH)

    def _reach(self, data: PartitionData) -> int:
        return data.last_stable_offset if self._settings.committed else data.high_watermark

    def _behind(self, data: PartitionData) -> NotYet:
        pause = self._settings.max_wait_ms < 1000 * self._cluster.settings.backoff_seconds
        held_back = self._policy.held_back(data.last_stable_offset, data.high_watermark)
        if held_back is not None:
            return NotYet(held_back, pause=pause)
        return NotYet(self._policy.short(self._reach(data)), pause=pause, is_loss=True)

    def _out_of_range(self, offset: int) -> Answer | None:
        if self._rack:
            self._look_again()  # a replica may be behind: its leader decides
            raise NotYet("the replica does not have the offset")
        first, last = self._offset_at(EARLIEST), self._offset_at(LATEST)
        if first <= offset <= last:
            raise NotYet(f"offset {offset} is between {first} and {last}, but out of range", pause=True)
        goes_on = self._policy.outside(offset, first, last)
        return None if goes_on is None else Answer(b"", (), goes_on)

    def _offset_at(self, place: int) -> int:
        partition = ListOffsetsPartition(partition_index=self.split.partition, timestamp=place)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=self.split.topic, partitions=[partition])]
        )
        answer = self._cluster.to_broker(self._node, request, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        check(found.error_code, self.name)
        return found.offset

    # -- giving up -----------------------------------------------------------------------------------------------

    @property
    def _broker(self) -> str:
        return "" if self.connection is None else f" from {self.connection.address}"

    def _said(self, offset: int, problem: str) -> str:
        return self._policy.said(offset, problem, self._broker)

    def _give_up(self, offset: int, failure: Exception) -> None:
        if isinstance(failure, NotYet) and failure.is_loss:
            self._policy.lost(str(failure))
            return
        said = self._said(offset, str(failure))
        if isinstance(failure, NotYet):
            raise self._policy.waited_in_vain(said) from failure
        raise out_of_patience(said, self._cluster.settings.total_seconds) from failure


REQUEST_FOR_VERSION: Final = FetchRequest()

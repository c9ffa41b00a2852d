"""How a task's fetches find their way: leaders that move, replicas, throttling, old brokers, sizes that adapt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.client.cluster import Cluster
from moldau.client.errors import AuthenticationFailed, ConnectionLost
from moldau.client.settings import Address, ClientSettings
from moldau.spark.errors import ClusterUnavailable, SourceError
from moldau.spark.fetching.partition_fetcher import PartitionFetcher
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split
from moldau.types.errors import ErrorCode
from moldau.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from moldau.wire.records import Record, build_batch

TOPIC_ID = UUID(int=7)
BATCH = build_batch([Record(b"a"), Record(b"b")], base_offset=10)
Script = list[tuple[int, PartitionData | FetchResponse | Exception]]


class FakeCluster:
    """Brokers that answer by a script of (broker, answer); metadata names the leader of the moment."""

    def __init__(self, script: Script, leader: int = 1, fetch_version: int = 18) -> None:
        self.settings = ClientSettings((Address("broker", 1),), backoff_seconds=0.25, total_seconds=5)
        self.script = script
        self.leader = leader
        self.fetch_version = fetch_version
        self.requests: list[FetchRequest] = []
        self.metadata_asked = 0

    def metadata(self, topics: Any) -> MetadataResponse:
        self.metadata_asked += 1
        partition = MetadataResponsePartition(partition_index=0, leader_id=self.leader)
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])])

    def connection(self, node: int) -> Any:
        return SimpleNamespace(
            address=Address(f"broker-{node}", 9092),
            version_of=lambda request: self.fetch_version,
            call=lambda request, answer_class: self.answer(node, request),
        )

    def answer(self, node: int, request: FetchRequest) -> FetchResponse:
        self.requests.append(request)
        expected, answer = self.script.pop(0)
        assert node == expected
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, FetchResponse):
            return answer
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[answer])])


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def records(data: bytes = BATCH) -> PartitionData:
    return PartitionData(high_watermark=100, last_stable_offset=100, records=data, aborted_transactions=None)


def refusal(code: ErrorCode) -> PartitionData:
    return PartitionData(error_code=code)


def fetcher(cluster: FakeCluster, time: Time | None = None, leader: int | None = 1, **changes: Any) -> PartitionFetcher:
    clock = time or Time()
    split = Split("t", TOPIC_ID, 0, 10, 100, leader)
    settings = ReadSettings(**{"timeout_seconds": 5, **changes})
    return PartitionFetcher(cast(Cluster, cluster), split, settings, monotonic=lambda: clock.now, sleep=clock.sleep)


def test_a_hint_saves_the_question_who_leads() -> None:
    cluster = FakeCluster([(1, records())])
    answer = fetcher(cluster).fetch(10)
    assert answer is not None and answer.next_offset == 12 and bytes(answer.records) == BATCH
    assert cluster.metadata_asked == 0
    assert fetcher(FakeCluster([(1, records())]), leader=None).fetch(10) == answer


@pytest.mark.parametrize(
    "failure",
    [
        refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        refusal(ErrorCode.FENCED_LEADER_EPOCH),
        refusal(ErrorCode.UNKNOWN_TOPIC_ID),
        refusal(ErrorCode.KAFKA_STORAGE_ERROR),
        ConnectionLost("broker 1 is gone"),
    ],
)
def test_a_leader_that_moved_is_looked_for(failure: PartitionData | Exception) -> None:
    cluster = FakeCluster([(1, failure), (2, records())], leader=2)
    answer = fetcher(cluster).fetch(10)
    assert answer is not None and cluster.metadata_asked == 1


def test_what_no_repeating_would_cure() -> None:
    for failure in (refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED), AuthenticationFailed("wrong password")):
        cluster = FakeCluster([(1, failure)])
        with pytest.raises(SourceError, match=r"cannot read t-0 at offset 10 from broker-1:9092"):
            fetcher(cluster).fetch(10)


def test_a_cluster_that_stays_away() -> None:
    time = Time()
    cluster = FakeCluster([(1, ConnectionLost("no answer"))] * 100)
    with pytest.raises(ClusterUnavailable, match=r"t-0 at offset 10 .*no answer; tried for 5 s \(kafka\.default"):
        fetcher(cluster, time).fetch(10)
    assert 3 < time.now <= 5


def test_the_time_in_which_no_broker_answers_is_no_wait_for_records() -> None:
    """An open transaction holds the records back; in between the broker is away, for longer than that may take."""
    time = Time()
    held_back: Script = [(1, PartitionData(high_watermark=100, last_stable_offset=10))] * 4
    away: Script = [(1, ConnectionLost("no answer"))] * 4
    cluster = FakeCluster([*held_back, *away, *held_back[:2], *away, (1, records())])
    assert fetcher(cluster, time, timeout_seconds=5, max_wait_ms=0).fetch(10) is not None
    assert time.now > 10


def test_records_that_do_not_come_from_a_broker_that_answers() -> None:
    time = Time()
    cluster = FakeCluster([(1, PartitionData(high_watermark=100, last_stable_offset=10))] * 100)
    with pytest.raises(SourceError, match=r"still open .*; tried for 3 s \(kafkaConsumer\.pollTimeoutMs\)"):
        fetcher(cluster, time, timeout_seconds=3, max_wait_ms=0).fetch(10)
    assert 1 < time.now <= 3


def test_a_broker_that_throttles() -> None:
    time = Time()
    cluster = FakeCluster([(1, FetchResponse(throttle_time_ms=1500)), (1, records())])
    assert fetcher(cluster, time).fetch(10) is not None
    assert time.now == 1.5


def test_a_replica_in_the_same_rack_and_the_way_back() -> None:
    away = PartitionData(preferred_read_replica=3)
    cluster = FakeCluster([(1, away), (3, records()), (3, refusal(ErrorCode.OFFSET_OUT_OF_RANGE)), (1, records())])
    reader = fetcher(cluster, rack="r3")
    assert reader.fetch(10) is not None
    assert reader.fetch(10) is not None, "a replica that is behind does not decide; the leader does"
    assert [request.rack_id for request in cluster.requests] == ["r3", "r3", "r3", ""]


def test_a_broker_without_topic_ids_in_fetches_is_asked_for_the_id_once() -> None:
    cluster = FakeCluster([(1, records()), (1, records())], fetch_version=12)
    reader = fetcher(cluster)
    reader.fetch(10)
    reader.fetch(10)
    assert cluster.metadata_asked == 1
    assert cluster.requests[0].topics[0].topic == "t"


def test_sizes_grow_to_a_batch_that_was_cut_and_shrink_to_what_is_left() -> None:
    cluster = FakeCluster([(1, records(BATCH[:-1])), (1, records())])
    reader = fetcher(cluster, fetch_bytes=70)
    cut = reader.fetch(10)
    assert cut is not None and cut.next_offset == 10 and not cut.records
    whole = reader.fetch(cut.next_offset)
    assert whole is not None and whole.next_offset == 12
    assert [request.topics[0].partitions[0].partition_max_bytes for request in cluster.requests] == [
        70,
        2 * len(BATCH) - 2,
    ]
    wide = fetcher(FakeCluster([(1, records())]))
    wide.fetch(10)
    assert wide.next_bytes < 100_000, "88 offsets of this kind are left, not megabytes"


def test_what_a_split_is_known_to_hold_is_asked_for_at_once() -> None:
    split = Split("t", TOPIC_ID, 0, 10, 10_000_000, 1)
    cluster = cast(Cluster, FakeCluster([]))
    assert PartitionFetcher(cluster, split, ReadSettings()).next_bytes == 1 << 20
    assert PartitionFetcher(cluster, split, ReadSettings(), 8 << 20).next_bytes == 8 << 20
    assert PartitionFetcher(cluster, split, ReadSettings(fetch_bytes=70), 8 << 20).next_bytes == 70


def test_nothing_left_is_believed_when_it_comes_twice() -> None:
    empty = PartitionData(high_watermark=100, last_stable_offset=100)
    assert fetcher(FakeCluster([(1, empty), (1, empty)])).fetch(10) is None
    assert fetcher(FakeCluster([(1, empty), (1, records())])).fetch(10) is not None


def test_isolation_decides_how_far_the_log_reaches() -> None:
    behind = PartitionData(high_watermark=100, last_stable_offset=5)
    cluster = FakeCluster([(1, behind)] * 100)
    assert fetcher(cluster, isolation="read_uncommitted").fetch(10) is None
    with pytest.raises(SourceError, match="still open holds back the offsets from 5 on"):
        fetcher(cluster, isolation="read_committed", max_wait_ms=0).fetch(10)

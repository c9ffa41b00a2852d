"""AlterPartition: what a leader may ask for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.in_sync import ANY_EPOCH, AlteredPartition, WantedIsr, alter_partitions
from moldau.metadata.controller.log_directories import directories_failed
from moldau.metadata.controller.shutdown import begin_shutdown
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.metadata import Cluster


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster({1: None, 2: None, 3: None, 4: None})
    found.create(NewTopic("t", assignments=((0, (1, 2, 3)),), configs=(("min.insync.replicas", "2"),)))
    found.put_partition("t", 0, isr=(1, 2), leader_epoch=5)
    return found


def wanted(cluster: Cluster, *isr: int) -> WantedIsr:
    topic = cluster.image.topics["t"]
    members = tuple((broker, cluster.image.brokers[broker].epoch) for broker in isr)
    return WantedIsr(topic.id, 0, topic.partitions[0].leader_epoch, topic.partitions[0].partition_epoch, members)


def alter(cluster: Cluster, request: WantedIsr, broker: int = 1) -> AlteredPartition:
    epoch = cluster.image.brokers[broker].epoch
    (answer,) = cluster.decide(lambda image: alter_partitions(image, broker, epoch, [request], cluster.config))
    return answer


def test_a_set_grows_and_shrinks_within_one_leader_epoch(cluster: Cluster) -> None:
    answer = alter(cluster, wanted(cluster, 1, 2, 3))
    found = cluster.image.topics["t"].partitions[0]
    assert (answer.code, answer.state) == (ErrorCode.NONE, found)
    assert (found.isr, found.leader_epoch, found.partition_epoch) == ((1, 2, 3), 5, 2)
    alter(cluster, wanted(cluster, 1))
    found = cluster.image.topics["t"].partitions[0]
    assert (found.isr, found.elr, found.leader_epoch, found.partition_epoch) == ((1,), (2, 3), 5, 3)
    alter(cluster, wanted(cluster, 1, 3))
    assert cluster.image.topics["t"].partitions[0].elr == ()


def test_what_is_so_already_is_not_written_again(cluster: Cluster) -> None:
    before = cluster.image
    answer = alter(cluster, wanted(cluster, 1, 2))
    assert answer.state == before.topics["t"].partitions[0]
    assert cluster.image is before


@pytest.mark.parametrize(
    ("changes", "isr", "broker", "code"),
    [
        ({"topic_id": UUID(int=5)}, (1,), 1, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 9}, (1,), 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 6}, (1,), 1, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 2}, (1,), 1, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 4}, (1,), 1, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, (1,), 1, ErrorCode.INVALID_UPDATE_VERSION),
        ({}, (2,), 2, ErrorCode.INVALID_REQUEST),
        ({}, (2,), 1, ErrorCode.INVALID_REQUEST),
        ({}, (), 1, ErrorCode.INVALID_REQUEST),
        ({}, (1, 4), 1, ErrorCode.INVALID_REQUEST),
        ({}, (1, 2, 2), 1, ErrorCode.INVALID_REQUEST),
        ({"recovering": True}, (1,), 1, ErrorCode.INVALID_REQUEST),
        ({"isr": ((1, ANY_EPOCH), (3, 1))}, (), 1, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals(
    cluster: Cluster, changes: dict[str, object], isr: tuple[int, ...], broker: int, code: ErrorCode
) -> None:
    before = cluster.image
    answer = alter(cluster, replace(wanted(cluster, *isr), **changes), broker)
    assert (answer.code, answer.state) == (code, None)
    assert cluster.image is before


def test_who_is_fenced_leaving_or_without_its_folder_does_not_join(cluster: Cluster) -> None:
    cluster.decide(lambda image: fence(image, [3], cluster.config))
    assert alter(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.INELIGIBLE_REPLICA
    cluster.unfence(3)
    assert alter(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.NONE
    alter(cluster, wanted(cluster, 1, 2))
    epoch = cluster.image.brokers[3].epoch
    cluster.put_partition("t", 0, directories=(UUID(int=1), UUID(int=2), UUID(int=3)))
    cluster.decide(lambda image: directories_failed(image, 3, epoch, [UUID(int=3)]))
    assert alter(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.INELIGIBLE_REPLICA
    cluster.put_partition("t", 0, directories=())
    cluster.decide(lambda image: begin_shutdown(image, 3, epoch, cluster.config))
    assert alter(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.INELIGIBLE_REPLICA


def test_an_earlier_registration_has_no_say(cluster: Cluster) -> None:
    stale = wanted(cluster, 1, 2, 3)
    cluster.register(3)
    assert alter(cluster, stale).code is ErrorCode.INELIGIBLE_REPLICA
    with pytest.raises(KafkaError) as refused:
        cluster.decide(lambda image: alter_partitions(image, 1, 1, [stale], cluster.config))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as refused:
        cluster.decide(lambda image: alter_partitions(image, 9, 1, [stale], cluster.config))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_that_recovers_says_when_it_has(cluster: Cluster) -> None:
    cluster.put_partition("t", 0, isr=(1,), recovering=True)
    request = replace(wanted(cluster, 1, 2), recovering=True)
    assert alter(cluster, request).code is ErrorCode.INVALID_REQUEST
    assert alter(cluster, replace(request, recovering=False)).code is ErrorCode.NONE
    assert not cluster.image.topics["t"].partitions[0].recovering


def test_a_partition_named_twice_is_changed_once(cluster: Cluster) -> None:
    requests = [wanted(cluster, 1), wanted(cluster, 1, 2, 3)]
    epoch = cluster.image.brokers[1].epoch
    answers = cluster.decide(lambda image: alter_partitions(image, 1, epoch, requests, cluster.config))
    assert [answer.code for answer in answers] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert cluster.image.topics["t"].partitions[0].isr == (1,)

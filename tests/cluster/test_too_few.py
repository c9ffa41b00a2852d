"""Fewer replicas than were asked for: what is refused, what is still read, and what an unclean election costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.looking import QUIET, admin, create, digest_of, partitions_of, read_all, wait_until_whole
from tests.cluster.test_seen_from_outside import delete, figure
from tests.support.names import own_name
from tests.support.waiting import wait_until

SECONDS = 90.0
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"


def write(cluster: LocalCluster, topic: str, *values: str, **settings: object) -> None:
    """Raises KafkaException with what became of the first that was not acknowledged."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, **QUIET, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    if failed:
        raise KafkaException(failed[0])


def values_in(cluster: LocalCluster, topic: str) -> list[str]:
    return [value for _, value in read_all(cluster, topic)[0]]


def test_with_two_of_three_gone_nothing_is_acknowledged_for_all_and_everything_is_read(cluster: LocalCluster) -> None:
    """REP-10, BR-29, PR-13."""
    topic = own_name("least")
    create(cluster, topic, partitions=1, min_insync_replicas="2")
    write(cluster, topic, "a", "b")
    leader, replicas, _ = partitions_of(cluster, topic)[0]
    first, second = (number for number in replicas if number != leader)
    cluster.kill_member(cluster.broker(first))
    write(cluster, topic, "c")
    cluster.kill_member(cluster.broker(second))
    wait_until(lambda: partitions_of(cluster, topic)[0][2] == [leader], "it is alone", SECONDS)
    with pytest.raises(KafkaException) as refused:
        write(cluster, topic, "never", retries=0, **{"enable.idempotence": False})
    assert refused.value.args[0].code() == KafkaError.NOT_ENOUGH_REPLICAS
    write(cluster, topic, "by one", acks=1, **{"enable.idempotence": False})
    assert values_in(cluster, topic) == ["a", "b", "c"], "what not enough replicas have is shown to nobody"
    cluster.start_member(cluster.broker(first))
    wait_until(lambda: len(partitions_of(cluster, topic)[0][2]) == 2, "there are two again", SECONDS)
    write(cluster, topic, "d")
    assert values_in(cluster, topic) == ["a", "b", "c", "by one", "d"]
    cluster.start()
    wait_until_whole(cluster)
    delete(cluster, topic)


@pytest.mark.parametrize("how", ["setting", "tool"])
def test_an_unclean_election_is_asked_for_costs_the_tail_and_is_counted(
    cluster: LocalCluster, tmp_path: Path, how: str
) -> None:
    """REP-09, BR-23: off, the partition waits for one that has all; on, it comes back without what only that had."""
    topic = own_name(f"unclean-{how}")
    asked = ["--create", "--topic", topic, "--replica-assignment", "1:2", "--config", "min.insync.replicas=1"]
    assert our_tool("kafka-topics", ["--bootstrap-server", cluster.bootstrap, *asked], "", tmp_path).code == 0
    write(cluster, topic, "both")
    cluster.kill_member(cluster.broker(2))
    wait_until(lambda: partitions_of(cluster, topic)[0][2] == [1], "it is alone", SECONDS)
    write(cluster, topic, "only one", "has these")
    cluster.kill_member(cluster.broker(1))
    cluster.start_member(cluster.broker(2))
    wait_until(lambda: partitions_of(cluster, topic)[0][0] == -1, "nobody leads", SECONDS)
    wait_until(lambda: figure(cluster, "kafka_controller_kafkacontroller_activecontrollercount") == 1, "controlled")
    before = figure(cluster, UNCLEAN)
    if how == "setting":
        allow_unclean(cluster, topic)
    else:
        place = ["--election-type", "unclean", "--topic", topic, "--partition", "0"]
        printed = our_tool("kafka-leader-election", ["--bootstrap-server", cluster.bootstrap, *place], "", tmp_path)
        assert printed.out.startswith("Successfully completed leader election (UNCLEAN)"), printed
    wait_until(lambda: partitions_of(cluster, topic)[0][0] == 2, "the one that is there leads", SECONDS)
    assert values_in(cluster, topic) == ["both"]
    wait_until(lambda: figure(cluster, UNCLEAN) == before + 1, "it is counted", SECONDS)
    write(cluster, topic, "later")
    cluster.start()
    wait_until_whole(cluster)
    assert values_in(cluster, topic) == ["both", "later"]
    held = [cluster.folder(cluster.broker(number)) / "data" / f"{topic}-0" for number in (1, 2)]
    wait_until(lambda: len({digest_of(each) for each in held}) == 1, "the returned one has cut what was lost", SECONDS)
    delete(cluster, topic)


def allow_unclean(cluster: LocalCluster, topic: str) -> None:
    entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = admin(cluster)
    for future in client.incremental_alter_configs([asked]).values():
        future.result(30)

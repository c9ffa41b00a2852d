"""`moldau.Producer`, `moldau.Consumer` and `moldau.Admin` before three brokers."""

from __future__ import annotations

from pathlib import Path

from moldau import Admin, Consumer, Producer
from moldau.cli.cluster.local_cluster import LocalCluster
from moldau.clients.errors import KafkaFailure
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.looking import create, create_on, partitions_of
from tests.cluster.test_seen_from_outside import figure
from tests.support.names import own_name
from tests.support.waiting import wait_until

ATTEMPTS = "kafka_server_brokertopicmetrics_totalproducerequests_total"
LEAST_BACKOFF_SHARE = 0.8
"""librdkafka takes a random fifth off, or adds it, so that not all come back at once."""


def test_one_broker_of_the_list_is_enough_to_find_all_others(cluster: LocalCluster) -> None:
    """AR-17, PCF-01, CCF-01, PRD-04: the first of two is down, and the leader is in nobody's list."""
    topic = own_name("unlisted")
    create_on(cluster, topic, [3, 2])
    down, listed, _ = cluster.brokers
    cluster.kill_member(down)
    settings = {"bootstrap.servers": f"{down.address},{listed.address}"}
    with Producer(settings) as producer:
        assert [each.leader for each in producer.partitions_for(topic)] == [3]
        assert producer.send(topic, b"v").result(60).offset == 0
    with Consumer(settings) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        assert next(consumer.records(60.0)).value == b"v"


def test_a_producer_finds_the_leader_wherever_it_moves(cluster: LocalCluster) -> None:
    """PR-15, PER-01: the same producer, before and after; and with the old leader back as a follower."""
    topic = own_name("moves")
    create_on(cluster, topic, [1, 2, 3])
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        assert producer.send(topic, b"before").result(60).offset == 0
        cluster.kill_member(cluster.broker(1))
        assert producer.send(topic, b"after").result(60).offset == 1
        wait_until(lambda: partitions_of(cluster, topic)[0][0] in (2, 3), "another leader")
        cluster.start_member(cluster.broker(1))
        wait_until(lambda: len(partitions_of(cluster, topic)[0][2]) == 3, "it follows", 90)
        assert producer.send(topic, b"again").result(60).offset == 2


def test_there_is_a_pause_between_attempts(cluster: LocalCluster) -> None:
    """PCF-12: to a topic that nobody can write to for all. There is no room for more attempts than pauses."""
    topic = own_name("paused-between")
    create(cluster, topic, partitions=1, min_insync_replicas="3")
    cluster.kill_member(cluster.broker(3))
    wait_until(lambda: len(partitions_of(cluster, topic)[0][2]) == 2, "two are in sync", 60)
    before = figure(cluster, ATTEMPTS)
    allowed_ms, backoff_ms = 3000, 100
    settings = {"delivery.timeout.ms": allowed_ms, "retry.backoff.ms": backoff_ms, "retry.backoff.max.ms": backoff_ms}
    with Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, **settings}) as producer:
        assert isinstance(producer.send(topic, b"v").exception(60), KafkaFailure)
    assert 2 <= figure(cluster, ATTEMPTS) - before <= 1 + allowed_ms / (backoff_ms * LEAST_BACKOFF_SHARE)


def test_the_topic_of_the_book_is_made_in_code_and_by_command(cluster: LocalCluster, tmp_path: Path) -> None:
    """AD-01, AD-02, AD-05: two partitions of two replicas."""
    by_code, by_command = (own_name(f"selfserviceTopic-{how}") for how in ("code", "command"))
    create = f"--create --topic {by_command} --partitions 2 --replication-factor 2"
    printed = our_tool("kafka-topics", f"--bootstrap-server {cluster.bootstrap} {create}".split(), "", tmp_path)
    assert printed.code == 0, printed
    with Admin({"bootstrap.servers": cluster.bootstrap, "client.id": "self-service"}) as admin:
        admin.create_topic(by_code, partitions=2, replication_factor=2)
        for name, described in admin.describe_topics(by_code, by_command).items():
            assert [len(each.replicas) for each in described.partitions] == [2, 2], name
        admin.delete_topics(by_code, by_command)

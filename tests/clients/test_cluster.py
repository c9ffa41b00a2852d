"""The broker about itself: cluster, folders, producers, listed settings, features."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.clients.conftest import StartBroker
from tests.support.admin import SECONDS, admin_client, broker_id, create_topic
from tests.support.clients import Confluent, Message
from tests.support.waiting import wait_until

client = Confluent()


def test_the_cluster_describes_itself(admin: AdminClient, address: str) -> None:
    """BRK-04, PCF-01: one node, its own controller, at the address the client came through; the id never changes."""
    described = admin.describe_cluster().result(SECONDS)
    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == address
    assert node.id == broker_id(admin)
    assert described.controller.id == node.id
    assert len(described.cluster_id) == 22
    assert admin.list_topics(timeout=SECONDS).cluster_id == described.cluster_id


def test_the_cluster_id_survives_a_restart(own_broker: StartBroker) -> None:
    broker = own_broker()
    ids = set()
    for _ in range(2):
        admin = admin_client(broker.address)
        ids.add(admin.describe_cluster().result(SECONDS).cluster_id)
        broker.restart()
    assert len(ids) == 1


def test_a_wrong_first_address_is_skipped(address: str, topic: str) -> None:
    """PCF-01: with two bootstrap entries and the first one dead the client still gets through."""
    assert client.produce(f"127.0.0.1:1,{address}", topic, [Message(b"x")]) == [0]


@pytest.fixture
def kafka_admin(address: str) -> Iterator[kafka.KafkaAdminClient]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    yield admin
    admin.close()


def test_log_directories_are_described(
    kafka_admin: kafka.KafkaAdminClient, admin: AdminClient, address: str, topic: str, data: Path
) -> None:
    """DescribeLogDirs: folder, sizes and lag of each replica."""
    create_topic(admin, topic, 2)
    client.produce(address, topic, [Message(b"x" * 1000)] * 10)
    (answer,) = kafka_admin.describe_log_dirs([topic])
    (folder,) = answer["log_dirs"]
    assert folder["log_dir"] == str(data)
    assert folder["error_code"] == 0
    (found,) = [each for each in folder["topics"] if each["name"] == topic]
    sizes = {each["partition_index"]: each["partition_size"] for each in found["partitions"]}
    assert sizes.keys() == {0, 1}
    assert sizes[0] > 10_000
    assert sizes[1] == 0


def test_active_producers_are_described(kafka_admin: kafka.KafkaAdminClient, address: str, topic: str) -> None:
    """DescribeProducers: id, epoch and last sequence of an idempotent producer."""
    client.produce(address, topic, [Message(b"x")] * 10, idempotent=True)
    place = kafka.TopicPartition(topic, 0)
    state = kafka_admin.describe_producers([place])[place]
    (producer,) = state.active_producers
    assert producer.producer_id >= 0
    assert producer.producer_epoch == 0
    assert producer.last_sequence == 9


def test_partitions_of_topics_are_described_in_pages(
    kafka_admin: kafka.KafkaAdminClient, admin: AdminClient, topic: str
) -> None:
    """DescribeTopicPartitions: a limit of three gives pages with a cursor."""
    create_topic(admin, topic, 8)
    seen: list[int] = []
    cursor = None
    while True:
        page = kafka_admin.describe_topic_partitions([topic], response_partition_limit=3, cursor=cursor)
        (found,) = page["topics"]
        seen += [each["partition_index"] for each in found["partitions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == list(range(8))


def test_resources_with_settings_are_listed(
    kafka_admin: kafka.KafkaAdminClient, admin: AdminClient, topic: str
) -> None:
    """ListConfigResources names topics and brokers."""
    create_topic(admin, topic)
    listed = {kind.lower(): names for kind, names in kafka_admin.list_config_resources().items()}
    assert topic in listed["topic"]
    assert str(broker_id(admin)) in listed["broker"]


def test_features_are_announced(kafka_admin: kafka.KafkaAdminClient) -> None:
    """Clients use the second version of transactions only when the cluster says that it is finalized."""
    features = kafka_admin.describe_features()
    assert "transaction.version" in str(features)
    assert "metadata.version" in str(features)


def test_this_broker_is_the_quorum(kafka_admin: kafka.KafkaAdminClient, admin: AdminClient) -> None:
    """DescribeQuorum: the metadata are kept by one voter, which leads and lags behind nobody."""
    (described,) = kafka_admin.describe_metadata_quorum()["topics"]
    (quorum,) = described["partitions"]
    (voter,) = quorum["current_voters"]
    assert quorum["leader_id"] == voter["replica_id"] == broker_id(admin)
    assert 0 < quorum["high_watermark"] <= voter["log_end_offset"]
    assert quorum["observers"] == []


def test_partitions_are_reassigned_to_where_they_are(
    kafka_admin: kafka.KafkaAdminClient, admin: AdminClient, topic: str
) -> None:
    """AlterPartitionReassignments takes the replicas that there are, and ListPartitionReassignments shows no change."""
    create_topic(admin, topic, 2)
    first, second = (kafka.TopicPartition(topic, index) for index in range(2))
    here = broker_id(admin)
    outcome = kafka_admin.alter_partition_reassignments({first: [here], second: [here + 1]})
    assert outcome == {first: None, second: kafka.errors.InvalidReplicationAssignmentError}
    assert kafka_admin.list_partition_reassignments() == {}
    assert kafka_admin.list_partition_reassignments([first, second]) == {}
    assert kafka_admin.alter_partition_reassignments({first: None}) == {
        first: kafka.errors.NoReassignmentInProgressError
    }


def test_nobody_keeps_access_rules(admin: AdminClient, topic: str) -> None:
    rule = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.READ)
    binding = AclBinding(*rule, AclPermissionType.ALLOW)
    asked = AclBindingFilter(*rule, AclPermissionType.ANY)
    for answer in (*admin.create_acls([binding]).values(), *admin.delete_acls([asked]).values()):
        with pytest.raises(KafkaException) as refused:
            answer.result(SECONDS)
        assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED


def test_replicas_move_between_folders(own_broker: StartBroker, tmp_path: Path, topic: str) -> None:
    """AlterReplicaLogDirs: a partition moves to another folder with all its records, while it is written to."""
    folders = [tmp_path / "disk-a", tmp_path / "disk-b"]
    broker = own_broker(**{"log.dirs": ",".join(map(str, folders))})
    admin = admin_client(broker.address)
    create_topic(admin, topic)
    client.produce(broker.address, topic, [Message(b"%d" % number) for number in range(500)])
    (home,) = [folder for folder in folders if (folder / f"{topic}-0").is_dir()]
    (target,) = [folder for folder in folders if folder != home]
    mover = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        replica = kafka.structs.TopicPartitionReplica(topic, 0, broker_id(admin))
        mover.alter_replica_log_dirs({replica: str(target)})
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
        for number in range(500, 1000):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(30) == 0
        wait_until(lambda: (target / f"{topic}-0").is_dir() and not (home / f"{topic}-0").is_dir(), "the move")
    finally:
        mover.close()
    received = client.consume(broker.address, topic, 1000)
    assert [each.value for each in received] == [b"%d" % number for number in range(1000)]

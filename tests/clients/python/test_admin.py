"""Administration: each task that the books name, and what is said when one is refused."""

from __future__ import annotations

import pytest

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.clients.admin_types import AclBinding, AclFilter, AdminFailed, NewTopic
from moldau.clients.errors import DeliveryFailed, KafkaFailure, UnknownTopic
from moldau.clients.records import OffsetAndMetadata, TopicPartition
from moldau.clients.wire_admin import Quota
from moldau.testing import Broker
from moldau.testing.brokers import Kafka
from moldau.types.uuid_text import encode_uuid


def test_topics_are_created_described_listed_and_deleted(kafka: Kafka, topic: str) -> None:
    """AD-03."""
    name = f"selfservice-{topic}"
    with kafka.admin() as admin:
        admin.create_topics(
            [NewTopic(name, 2, 1, {"retention.ms": 60_000}), NewTopic(f"{name}-assigned", replicas=[[1]])]
        )
        described = admin.describe_topics(name)[name]
        assert [(each.partition, each.replicas) for each in described.partitions] == [(0, (1,)), (1, (1,))]
        with Cluster(ClientSettings.from_properties({"bootstrap.servers": kafka.bootstrap})) as cluster:
            (seen,) = cluster.metadata([name]).topics
        assert described.topic_id == encode_uuid(seen.topic_id)
        assert name in admin.list_topics()
        assert admin.describe_topic_config(name)["retention.ms"].value == "60000"
        admin.create_partitions({name: 4})
        assert len(admin.describe_topics(name)[name].partitions) == 4
        admin.delete_topics(name, f"{name}-assigned")
        assert name not in admin.list_topics()
        with pytest.raises(UnknownTopic, match=name):
            admin.describe_topics(name)


def test_settings_are_changed_and_put_back(kafka: Kafka, topic: str) -> None:
    """AD-03."""
    with kafka.admin() as admin:
        admin.alter_topic_config(topic, {"max.message.bytes": 5000, "cleanup.policy": "compact"})
        changed = admin.describe_topic_config(topic)
        assert (changed["max.message.bytes"].value, changed["cleanup.policy"].value) == ("5000", "compact")
        admin.alter_topic_config(topic, {"max.message.bytes": None})
        found = admin.describe_topic_config(topic)
        assert found["max.message.bytes"].is_default
        assert found["cleanup.policy"].value == "compact"
        (broker,) = admin.describe_cluster().brokers
        assert admin.describe_broker_config(broker.broker)["log.retention.hours"].value == "168"


def test_groups_are_described_changed_and_deleted(kafka: Kafka, topic: str) -> None:
    """AD-03."""
    place = TopicPartition(topic, 0)
    with kafka.producer() as producer:
        producer.send(topic, b"v")
    with kafka.admin() as admin, kafka.consumer(group_id=topic, client_id="reader") as consumer:
        consumer.subscribe(topic)
        next(consumer.records(20.0))
        described = admin.describe_consumer_groups(topic)[topic]
        assert (described.state, described.members[0].client_id) == ("STABLE", "reader")
        assert described.members[0].partitions == (place,)
        with pytest.raises(KafkaFailure, match="stop the members"):
            admin.delete_consumer_groups(topic)
        consumer.close()
        assert admin.list_consumer_group_offsets(topic) == {place: OffsetAndMetadata(1)}
        admin.alter_consumer_group_offsets(topic, {place: 0})
        assert admin.list_consumer_group_offsets(topic) == {place: OffsetAndMetadata(0)}
        assert topic in {each.group for each in admin.list_consumer_groups()}
        admin.delete_consumer_groups(topic)
        assert topic not in {each.group for each in admin.list_consumer_groups()}


def test_records_are_deleted_up_to_an_offset(kafka: Kafka, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with kafka.producer() as producer:
        for _ in range(10):
            producer.send(topic, b"v", timestamp=1000)
    with kafka.admin() as admin:
        assert admin.delete_records({place: 4}) == {place: 4}
        assert admin.beginning_offsets([place]) == {place: 4}
        assert admin.end_offsets([place]) == {place: 10}
        admin.elect_leaders([place])


def test_what_is_refused_names_the_topic_and_what_to_do(kafka: Kafka, topic: str) -> None:
    with kafka.admin() as admin:
        with pytest.raises(KafkaFailure, match=rf"{topic}.*choose another name"):
            admin.create_topic(topic)
        with pytest.raises(KafkaFailure, match="fewer brokers than replicas"):
            admin.create_topic(f"{topic}-3", 1, 3)
        with pytest.raises(KafkaFailure, match="never taken away"):
            admin.create_partitions({topic: 1})
        with pytest.raises(AdminFailed) as told:
            admin.delete_topics("not-there", "nor-there")
        assert set(told.value.failures) == {"not-there", "nor-there"}
        with pytest.raises(KafkaFailure, match="letters, digits"):
            admin.create_topic("no spaces")


def test_access_rules_are_made_listed_and_deleted(topic: str) -> None:
    """AD-03."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    ann = AclBinding("TOPIC", topic, "User:ann", "READ")
    nobody = AclBinding("TOPIC", "private-", "User:*", "ALL", "DENY", pattern="PREFIXED")
    with Broker(settings) as guarded, guarded.admin() as admin:
        guarded.topic("private-1")
        admin.create_acls(ann, nobody)
        assert admin.describe_acls() == sorted([ann, nobody])
        assert admin.describe_acls(AclFilter(principal="User:ann")) == [ann]
        with guarded.producer() as producer, pytest.raises(DeliveryFailed, match="give this principal the right"):
            producer.send("private-1", b"v").result(30)
        assert admin.delete_acls(AclFilter(name="private-", pattern="PREFIXED")) == [nobody]
        assert admin.describe_acls() == [ann]
        with guarded.producer() as producer:
            assert producer.send("private-1", b"v").result(30).offset == 0
        assert admin.delete_acls(AclFilter()) == [ann]
        assert admin.delete_acls(AclFilter()) == []


def test_passwords_are_set_listed_and_deleted(kafka: Kafka, topic: str) -> None:
    with kafka.admin() as admin:
        admin.set_password(topic, "first")
        admin.set_password(topic, "other", "SCRAM-SHA-256", iterations=4096)
        assert sorted(admin.list_passwords(topic)[topic]) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        admin.delete_password(topic, "SCRAM-SHA-256")
        assert admin.list_passwords()[topic] == ["SCRAM-SHA-512"]
        admin.delete_password(topic)
        assert topic not in admin.list_passwords()
        with pytest.raises(KafkaFailure):
            admin.delete_password(topic)


def test_settings_of_brokers_are_changed_and_put_back(kafka: Kafka) -> None:
    with kafka.admin() as admin:
        broker = admin.describe_cluster().brokers[0].broker
        for which in (broker, None):
            admin.alter_broker_config(which, {"log.cleaner.threads": 2})
            assert admin.describe_broker_config(broker)["log.cleaner.threads"].value == "2"
            admin.alter_broker_config(which, {"log.cleaner.threads": None})
            assert admin.describe_broker_config(broker)["log.cleaner.threads"].value == "1"
        with pytest.raises(KafkaFailure):
            admin.alter_broker_config(broker, {"log.cleaner.threads": "many"})
        with pytest.raises(KafkaFailure):
            admin.alter_broker_config(None, {"log.cleaner.threads": "many"})


def test_quotas_are_changed_and_removed(kafka: Kafka, topic: str) -> None:
    entity = {"user": topic, "client-id": None}
    with kafka.admin() as admin:
        admin.alter_quotas(entity, {"producer_byte_rate": 5000.0, "consumer_byte_rate": 6000.0})
        admin.alter_quotas(entity, {"consumer_byte_rate": None})
        assert Quota(entity, {"producer_byte_rate": 5000.0}) in admin.describe_quotas("user", "client-id")
        assert entity in [each.entity for each in admin.describe_quotas()]
        assert entity not in [each.entity for each in admin.describe_quotas("ip")]
        admin.alter_quotas(entity, {"producer_byte_rate": None})
        assert entity not in [each.entity for each in admin.describe_quotas()]
        with pytest.raises(KafkaFailure, match="quotas not changed"):
            admin.alter_quotas({"planet": "mars"}, {"producer_byte_rate": 1.0})


def test_where_partitions_lie_is_told_and_changed(kafka: Kafka, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with kafka.producer() as producer:
        producer.send(topic, b"v").result(30)
    with kafka.admin() as admin:
        (broker,) = [each.broker for each in admin.describe_cluster().brokers]
        (folder,) = admin.describe_log_dirs(broker)[broker]
        assert folder.partitions[place] > 0 and folder.error is None
        assert admin.describe_log_dirs().keys() == {broker}
        admin.reassign_partitions({place: [broker]})
        assert admin.list_reassignments([place]) == {}
        assert admin.list_reassignments() == {}
        with pytest.raises(KafkaFailure, match=f"{topic}-0"):
            admin.reassign_partitions({place: [99]})
        with pytest.raises(AdminFailed):
            admin.reassign_partitions({TopicPartition("nowhere", 0): [broker], TopicPartition("nowhere", 1): [broker]})
        assert admin.describe_features()["transaction.version"] == 2

"""Administration that librdkafka has no calls for: transactions, tokens, members, the quorum."""

from __future__ import annotations

import pytest

from moldau import Admin, Consumer
from moldau.clients.admin_types import AdminFailed
from moldau.clients.errors import ClientError, KafkaFailure, ProducerFenced
from moldau.clients.records import TopicPartition
from moldau.testing import Broker
from moldau.testing.brokers import Kafka
from tests.cli.test_txn import write_what_nobody_will_end
from tests.support.process import free_port
from tests.support.waiting import wait_until


def test_transactions_are_listed_described_and_ended(kafka: Kafka, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with kafka.producer(transactional_id=topic) as producer, kafka.admin() as admin:
        producer.begin_transaction()
        producer.send(topic, b"v").result(30)
        (listed,) = [each for each in admin.list_transactions("Ongoing") if each.transactional_id == topic]
        assert admin.list_transactions(producer_ids=[listed.producer_id]) == [listed]
        assert listed not in admin.list_transactions(longer_than_ms=3_600_000)
        described = admin.describe_transactions(topic)[topic]
        assert (described.state, described.partitions) == ("Ongoing", (place,))
        (writer,) = admin.describe_producers([place])[place]
        assert (writer.producer_id, writer.transaction_begins) == (listed.producer_id, 0)
        admin.fence_producers(topic)
        assert admin.describe_producers([place])[place][0].transaction_begins is None
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()
        with pytest.raises(ClientError, match="it has none open"):
            admin.abort_transaction(place, listed.producer_id)
        with pytest.raises(KafkaFailure, match="transaction not described"):
            admin.describe_transactions(f"no-{topic}")


def test_a_transaction_that_nobody_will_end_is_ended() -> None:
    # As brokers before Kafka 3.6: they do not ask the coordinator about a transactional write.
    with Broker({"transaction.partition.verification.enable": "false"}) as broker, broker.admin() as admin:
        topic = broker.topic(retention_ms=-1)
        place = TopicPartition(topic, 0)
        write_what_nobody_will_end(broker.bootstrap, topic)
        (writer,) = admin.describe_producers([place])[place]
        assert writer.transaction_begins == 0
        admin.abort_transaction(place, writer.producer_id)
        assert admin.describe_producers([place])[place][0].transaction_begins is None


def test_what_a_group_committed_is_forgotten(kafka: Kafka, wide_topic: str) -> None:
    first, second = TopicPartition(wide_topic, 0), TopicPartition(wide_topic, 1)
    with kafka.admin() as admin:
        admin.alter_consumer_group_offsets(wide_topic, {first: 3, second: 4})
        admin.delete_consumer_group_offsets(wide_topic, [first])
        assert admin.list_consumer_group_offsets(wide_topic).keys() == {second}
        with kafka.consumer(group_id=wide_topic) as consumer:
            consumer.subscribe(wide_topic)
            consumer.poll(1.0)
            wait_until(lambda: consumer.poll(0.1) is not None and len(consumer.assignment()) == 3, "it reads")
            with pytest.raises(KafkaFailure, match="GROUP_SUBSCRIBED_TO_TOPIC"):
                admin.delete_consumer_group_offsets(wide_topic, [second])
        with pytest.raises(KafkaFailure, match="GROUP_ID_NOT_FOUND"):
            admin.delete_consumer_group_offsets(f"no-{wide_topic}", [first])


def test_members_are_sent_away(kafka: Kafka, topic: str) -> None:
    def members() -> set[str | None]:
        return {each.instance_id for each in admin.describe_consumer_groups(topic)[topic].members}

    def reader(name: str) -> Consumer:
        found = kafka.consumer(group_id=topic, group_instance_id=name, session_timeout_ms=45_000)
        found.subscribe(topic)
        return found

    with kafka.admin() as admin, reader("a") as one, reader("b") as other:

        def joined() -> bool:
            one.poll(0.1)
            other.poll(0.1)
            return members() == {"a", "b"}

        wait_until(joined, "both are members")
        admin.remove_consumer_group_members(topic, "a")
        assert members() == {"b"}
        with pytest.raises(AdminFailed, match="UNKNOWN_MEMBER_ID"):
            admin.remove_consumer_group_members(topic, "nobody")
        admin.remove_consumer_group_members(topic)
        assert members() == set()
        admin.remove_consumer_group_members(topic)
        # librdkafka may never end to close a member that was sent away and has not come back.
        wait_until(joined, "they come back")


def test_replicas_features_and_the_quorum(kafka: Kafka, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with kafka.admin() as admin:
        (broker,) = [each.broker for each in admin.describe_cluster().brokers]
        (folder,) = admin.describe_log_dirs(broker)[broker]
        admin.alter_replica_log_dirs(broker, {place: folder.path})
        with pytest.raises(KafkaFailure, match="LOG_DIR_NOT_FOUND"):
            admin.alter_replica_log_dirs(broker, {place: "/not/there"})
        admin.update_features({"transaction.version": 2}, validate_only=True)
        with pytest.raises(AdminFailed, match=r"transaction\.version"):
            admin.update_features({"transaction.version": 99})
        found = admin.describe_quorum()
        assert found.leader in found.voters and found.epoch >= 0


def test_delegation_tokens_are_made_and_ended() -> None:
    port = free_port()
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ann = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} username="ann" password="ann-secret";',
    }
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{module} user_ann="ann-secret";',
        "delegation.token.secret.key": "the key of all brokers",
    }
    with Broker(settings), Admin(ann) as admin:
        made = admin.create_delegation_token(["User:bob"], 3_600_000)
        assert (made.owner, made.renewers) == ("User:ann", ("User:bob",))
        assert admin.describe_delegation_tokens() == [made]
        assert admin.describe_delegation_tokens("User:carol") == []
        assert admin.renew_delegation_token(made.hmac) <= made.ends_ms
        admin.expire_delegation_token(made.hmac)
        assert admin.describe_delegation_tokens() == []
        with pytest.raises(KafkaFailure, match="token not renewed"):
            admin.renew_delegation_token(made.hmac)

"""Brokers that talk over TLS and SASL: the cluster works as without them, and nobody else passes for a broker."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from moldau.cli.cluster.local_cluster import LocalCluster, Process
from moldau.client.connection import Connection
from moldau.client.errors import AuthenticationFailed, ClientError
from moldau.client.settings import Address, ClientSettings, SaslSettings
from moldau.tls.authority import issue, open_authority
from moldau.types.errors import ErrorCode
from moldau.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from moldau.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from moldau.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest, IntroduceBrokerResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.cluster.looking import QUIET
from tests.cluster.secured import (
    ADMIN,
    ALICE,
    BROKER_LOGIN,
    CLUSTER_ID,
    SCRAM,
    Locked,
    in_sync,
    locked_cluster,
    make,
    now,
)
from tests.support.names import own_name
from tests.support.process import die_with_parent
from tests.support.raw import API_VERSIONS, RawConnection, request
from tests.support.token_server import TokenMaker
from tests.support.waiting import wait_until

PLAIN_USERS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="p" user_broker="p";'
)
SCRAM_LOGIN = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="{BROKER_LOGIN[0]}" password="{BROKER_LOGIN[1]}";'
)
LOCKS = {
    "scram": {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_SSL",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
        "listener.name.brokers.connections.max.reauth.ms": "2000",
    },
    "plain": {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": PLAIN_USERS,
    },
    "tokens": {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_SSL",
        "listener.name.brokers.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.brokers.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "{keys}",
        "listener.name.brokers.oauthbearer.sasl.oauthbearer.token.endpoint.url": "{token}",
    },
    "certificates": {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SSL",
        "listener.name.brokers.ssl.client.auth": "required",
        "listener.name.brokers.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
    },
}


@pytest.fixture(scope="module", params=LOCKS)
def locked(
    request: pytest.FixtureRequest, running: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Locked]:
    lock: str = request.param
    folder, maker = tmp_path_factory.mktemp(lock), TokenMaker()
    keys, token = folder / "keys.json", folder / "token"
    keys.write_bytes(maker.key_set())
    token.write_text(maker.token("broker", exp=time.time() + 3600))
    settings = {
        name: value.format(keys=keys.as_uri(), token=token.as_uri()) if name.endswith(".url") else value
        for name, value in LOCKS[lock].items()
    }
    with locked_cluster(running, folder, f"locked-{lock}", settings) as found:
        yield found
        for broker in found.cluster.brokers:
            assert "Traceback" not in found.log_of(broker), found.log_of(broker)


def test_replication_transactions_and_fail_over_work_as_without_locks(locked: Locked) -> None:
    cluster, topic = locked.cluster, own_name("locked")
    make(locked, topic)
    assert locked.admin().list_topics(timeout=20).cluster_id == CLUSTER_ID
    config = {"bootstrap.servers": cluster.bootstrap, **ADMIN, **QUIET}
    producer = Producer(config | {"transactional.id": topic})
    producer.init_transactions(60)
    killed = cluster.broker(1)
    for number in range(3):
        producer.begin_transaction()
        for partition in range(4):
            producer.produce(topic, f"{number}", partition=partition)
        if number == 1:
            producer.flush(60)
            cluster.kill_member(killed)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    cluster.start_member(killed)
    wait_until(lambda: in_sync(locked, topic) == {2}, "the broker that was killed is in sync again", 90)
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = [message.value() for message in consumer.consume(8, 60)]
    consumer.close()
    assert sorted(read) == [b"0"] * 4 + [b"2"] * 4


def test_requests_for_the_controller_are_handed_on_in_the_name_of_the_client(locked: Locked) -> None:
    for broker in locked.cluster.brokers:
        topic = own_name(f"through-{broker.number}")
        client = locked.admin(**{"bootstrap.servers": broker.address})
        client.create_topics([NewTopic(topic, 1, 2)])[topic].result(30)
        refused = locked.admin(**{"bootstrap.servers": broker.address, **ALICE})
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            refused.create_topics([NewTopic(topic + "-alice", 1, 2)])[topic + "-alice"].result(30)


def test_a_token_that_one_broker_has_made_is_known_to_all(locked: Locked) -> None:
    for made_by, used_at in (locked.cluster.brokers, reversed(locked.cluster.brokers)):
        with client_of(made_by, SaslSettings(SCRAM, "alice", "alice-secret")) as alice:
            made = alice.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), CreateDelegationTokenResponse)
            assert made.error_code == 0
        token = SaslSettings(SCRAM, made.token_id, base64.b64encode(made.hmac).decode(), by_token=True)

        def lets_in(broker: Process = used_at, token: SaslSettings = token) -> bool:
            try:
                client_of(broker, token).close()
            except AuthenticationFailed:  # its image comes a moment later
                return False
            return True

        wait_until(lets_in, "the token is known")


def client_of(broker: Process, login: SaslSettings) -> Connection:
    address = Address(broker.host, broker.port)
    return Connection(address, ClientSettings((address,), sasl=login))


def test_nothing_is_told_to_who_does_not_speak_as_the_listener_asks(locked: Locked) -> None:
    host, port = locked.inner_address(locked.cluster.broker(1))
    with RawConnection(f"{host}:{port}") as raw:
        raw.send(request(API_VERSIONS, 0, b""))
        if "SASL_PLAINTEXT" in locked.settings["listener.security.protocol.map"].split(",")[1]:
            assert raw.receive() is not None
            raw.send(request(API_VERSIONS, 0, b""))
        assert raw.receive() is None


def outsider(locked: Locked, folder: Path) -> Connection:
    """Who is let in on the listener of the brokers, and has no right to act for the cluster."""
    protocols = locked.settings["listener.security.protocol.map"]
    if protocols.endswith("BROKERS:SSL"):
        return locked.intruder(locked.cluster.broker(1), None, issue(locked.authority, "alice", now()))
    return locked.intruder(locked.cluster.broker(1), ("alice", "alice-secret"))


def test_who_may_not_act_for_the_cluster_is_no_replica(locked: Locked, tmp_path: Path) -> None:
    if locked.settings["sasl.mechanism.inter.broker.protocol"] in ("PLAIN", "OAUTHBEARER"):
        with pytest.raises(AuthenticationFailed):  # nobody but the brokers has a password there
            outsider(locked, tmp_path)
        return
    topic = own_name("outsider")
    make(locked, topic, 1)
    with outsider(locked, tmp_path) as alice:
        told = dict(alice.versions)
        for message in (IntroduceBrokerRequest, AlterPartitionRequest, BrokerHeartbeatRequest, EnvelopeRequest):
            assert message.API_KEY not in told
            alice.versions[message.API_KEY] = (message.FIRST_VERSION, message.LAST_VERSION)
        introduced = alice.call(
            IntroduceBrokerRequest(cluster_id=CLUSTER_ID, broker_id=2, incarnation=uuid4()), IntroduceBrokerResponse
        )
        assert introduced.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert introduced.cluster_id == "" and introduced.broker_id == -1
        assert alice.call(AlterPartitionRequest(broker_id=2), AlterPartitionResponse).error_code == (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        assert alice.call(BrokerHeartbeatRequest(broker_id=2), BrokerHeartbeatResponse).error_code == (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        handed = EnvelopeRequest(request_data=b"\0" * 20, request_principal=b"", client_host_address=b"\x7f\0\0\1")
        assert alice.call(handed, EnvelopeResponse).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        (marked,) = alice.call(marker_of(topic), WriteTxnMarkersResponse).markers
        assert marked.topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        fetched = alice.call(replica_fetch(topic), FetchResponse, max_version=12)
        assert [each.error_code for found in fetched.responses for each in found.partitions] == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ]
        found = alice.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse)
        assert found.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def marker_of(topic: str) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=1,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            )
        ]
    )


def replica_fetch(topic: str) -> FetchRequest:
    return FetchRequest(
        replica_id=2,
        replica_state=ReplicaState(replica_id=2),
        topics=[FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])],
    )


def test_wrong_credentials_are_no_broker(locked: Locked, tmp_path: Path) -> None:
    broker = locked.cluster.broker(2)
    with pytest.raises(ClientError):
        locked.intruder(broker, ("broker", "wrong"))
    with pytest.raises(ClientError):
        locked.intruder(broker, None).call(MetadataRequest(), MetadataResponse)


WRONG = {
    "scram": ({"listener.name.brokers.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN.replace("between", "among")},
              "refused user 'broker'"),
    "plain": ({"listener.name.brokers.plain.sasl.jaas.config": PLAIN_USERS.replace('"p"', '"q"', 1)},
              "refused user 'broker'"),
    "tokens": ({}, "refused this OAUTHBEARER login"),
    "certificates": ({"ssl.keystore.location": "stranger.pem"}, "no connection to another broker of the cluster"),
}  # fmt: skip


def test_a_broker_that_cannot_log_in_at_the_others_says_so_and_holds_nobody_up(
    locked: Locked, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    wrong, said = WRONG[request.node.callspec.params["locked"]]
    if "ssl.keystore.location" in wrong:
        keys = issue(open_authority(tmp_path, now()), "broker", now(), ("127.0.0.1",))
        wrong = {"ssl.keystore.location": str(keys)}
    if "OAUTHBEARER" in said:
        token = tmp_path / "token"
        token.write_text(TokenMaker().token("broker"))
        wrong = {"listener.name.brokers.oauthbearer.sasl.oauthbearer.token.endpoint.url": token.as_uri()}
    settings = {**locked.settings, **wrong, "node.id": "7"}
    lonely = LocalCluster.make(
        tmp_path / "lonely", brokers=1, zookeepers=0, settings=settings, before_start=die_with_parent
    )
    try:
        lonely.spawn_member(lonely.broker(1))
        wait_until(lambda: said in lonely.log_file(lonely.broker(1)).read_text(), f"its log says {said!r}", 60)
        topic = own_name("beside")
        client = locked.admin()
        client.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[[1, 2]])])[topic].result(30)
        wait_until(lambda: in_sync(locked, topic) == {2}, "the others are in sync", 60)
    finally:
        lonely.kill_all()

"""Brokers that show each other Kerberos tickets, over TLS: the cluster works, and nobody else passes for a broker."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from moldau.cli.cluster.local_cluster import LocalCluster
from moldau.client.connection import Connection
from moldau.client.settings import ClientSettings
from moldau.types.errors import ErrorCode
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest, IntroduceBrokerResponse
from tests.cluster.looking import QUIET
from tests.cluster.secured import ADMIN, CLUSTER_ID, Locked, in_sync, locked_cluster, make
from tests.support.kdc import REALM, Kdc, is_expected, running_kdc
from tests.support.names import own_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not is_expected(), reason="no Kerberos server here (Debian: krb5-kdc)")

MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", found.environment["KRB5_CONFIG"])
        yield found


@pytest.fixture(scope="module")
def locked(running: LocalCluster, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    settings = {
        "listeners": "CLIENTS://{address},BROKERS://localhost:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_SSL",
        "listener.name.brokers.sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.brokers.gssapi.sasl.jaas.config": (
            f'{MODULE} keyTab="{kdc.keytab("kafka/localhost")}" principal="kafka/localhost@{REALM}";'
        ),
        "listener.name.brokers.connections.max.reauth.ms": "2000",
        "super.users": "User:admin;User:kafka",
    }
    with locked_cluster(running, tmp_path_factory.mktemp("kerberos"), "locked-kerberos", settings) as found:
        yield found
        for broker in found.cluster.brokers:
            assert "Traceback" not in found.log_of(broker), found.log_of(broker)


def test_replication_and_the_way_back_after_a_kill(locked: Locked) -> None:
    cluster, topic = locked.cluster, own_name("kerberized")
    make(locked, topic)
    killed = cluster.broker(1)
    cluster.kill_member(killed)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **ADMIN, **QUIET, "acks": "all"})
    for partition in range(4):
        producer.produce(topic, b"told", partition=partition)
    assert producer.flush(60) == 0
    cluster.start_member(killed)
    wait_until(lambda: in_sync(locked, topic) == {2}, "the broker that was killed is in sync again", 90)


def test_a_ticket_of_somebody_else_makes_no_broker(locked: Locked, kdc: Kdc) -> None:
    address = locked.inner_address(locked.cluster.brokers[0])
    login = f'{MODULE} keyTab="{kdc.keytab("mallory")}" principal="mallory@{REALM}";'
    settings = ClientSettings.from_properties(
        {
            "bootstrap.servers": str(address),
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(locked.authority.certificate_file),
        }
    )
    with Connection(address, settings) as mallory:
        request = IntroduceBrokerRequest(cluster_id=CLUSTER_ID, broker_id=2, incarnation=uuid4())
        mallory.versions[request.API_KEY] = (request.FIRST_VERSION, request.LAST_VERSION)
        answer = mallory.call(request, IntroduceBrokerResponse)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

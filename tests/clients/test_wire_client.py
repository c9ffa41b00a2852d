"""Our own small client against a real broker: versions, leaders, coordinators, pipelining, lost brokers, TLS."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from moldau.client.cluster import Cluster, CoordinatorKind
from moldau.client.connection import Connection
from moldau.client.errors import AuthenticationFailed, ClientError, ConnectionLost, VersionUnsupported
from moldau.client.settings import ClientSettings, parse_address
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tests.clients.conftest import Addressed, StartBroker
from tests.support.process import free_port
from tests.support.raw import RawConnection
from tests.support.tls import Certificates, make_certificates, tls_proxy


def settings(address: str, **more: str) -> ClientSettings:
    properties = {"bootstrap.servers": address} | {key.replace("_", "."): value for key, value in more.items()}
    return ClientSettings.from_properties(properties)


def test_a_cluster_finds_leaders_and_coordinators(broker: Addressed) -> None:
    name = f"wire-{uuid.uuid4()}"
    with Cluster(settings(broker.address)) as cluster:
        cluster.metadata([name], create=True)
        topic = cluster.topic(name)
        assert topic.topic_id
        assert cluster.leader(TopicPartition(name, 0)) in cluster.broker_ids()
        for kind in CoordinatorKind:
            assert cluster.retrying(lambda kind=kind: cluster.coordinator(kind, name)) in cluster.broker_ids()


def test_what_is_not_there_is_said(broker: Addressed) -> None:
    with Cluster(settings(broker.address, default_api_timeout_ms="300")) as cluster:
        with pytest.raises(KafkaError, match="nowhere") as caught:
            cluster.topic("nowhere")
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError, match="nowhere-3"):
            cluster.leader(TopicPartition("nowhere", 3))


def test_answers_come_in_the_order_of_requests(broker: Addressed) -> None:
    with Connection(parse_address(broker.address), settings(broker.address)) as connection:
        pending = [connection.send(MetadataRequest(topics=[]), MetadataResponse) for _ in range(5)]
        with pytest.raises(ClientError, match="order"):
            connection.receive(pending[1])
        assert connection.in_flight == 5
        assert [len(connection.receive(item).brokers) for item in pending] == [1] * 5


def test_a_connection_knows_how_far_away_its_broker_is(broker: Addressed) -> None:
    clock = iter([0.0, 0.0, 5.0, 10.0, 11.0, 20.0, 23.0])
    with Connection(parse_address(broker.address), settings(broker.address), lambda: next(clock)) as connection:
        seen = [connection.round_trip_seconds]
        for _ in range(2):
            connection.call(MetadataRequest(topics=[]), MetadataResponse)
            seen.append(connection.round_trip_seconds)
    assert seen == [5.0, 1.0, 1.0], "the broker, or this side, may have been slow at first"


def test_an_api_that_the_broker_lacks_is_named(broker: Addressed) -> None:
    with Connection(parse_address(broker.address), settings(broker.address)) as connection:
        assert not connection.supports(ShareFetchRequest.API_KEY)
        with pytest.raises(VersionUnsupported, match="ShareFetch"):
            connection.call(ShareFetchRequest(), ShareFetchResponse)


def test_a_broker_that_is_away_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    with Cluster(settings(address)) as cluster, pytest.raises(ConnectionLost, match=address):
        cluster.metadata([])


def test_something_that_is_no_broker_is_not_believed(tmp_path: Path) -> None:
    with tls_proxy("127.0.0.1:1", make_certificates(tmp_path)) as address:
        quick = settings(address, request_timeout_ms="2000")
        with pytest.raises(ConnectionLost, match=address):
            Connection(parse_address(address), quick)


def test_a_restarted_broker_is_found_again(own_broker: StartBroker) -> None:
    process = own_broker()
    with Cluster(settings(process.address)) as cluster:
        before = cluster.metadata([]).cluster_id
        process.kill()
        with pytest.raises(ConnectionLost):
            cluster.metadata([])
        process.start()
        assert cluster.retrying(lambda: cluster.metadata([])).cluster_id == before


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def test_tls_with_both_sides_known(broker: Addressed, certificates: Certificates) -> None:
    with tls_proxy(broker.address, certificates, ask_client=True) as address:
        secured = ClientSettings.from_properties(
            {
                "bootstrap.servers": address,
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(certificates.certificate),
                "ssl.keystore.certificate.chain": certificates.certificate.read_text(),
                "ssl.keystore.key": certificates.key.read_text(),
            }
        )
        with Connection(parse_address(address), secured) as connection:
            assert connection.call(MetadataRequest(topics=[]), MetadataResponse).brokers


def test_a_certificate_that_nobody_vouches_for_is_refused(broker: Addressed, certificates: Certificates) -> None:
    untrusted = pytest.raises(AuthenticationFailed, match="not trusted")
    with tls_proxy(broker.address, certificates) as address, untrusted:
        Connection(parse_address(address), settings(address, security_protocol="SSL"))


def test_the_broker_lives_on_after_a_client_that_spoke_tls_to_its_plain_port(broker: Addressed) -> None:
    with pytest.raises(ConnectionLost):
        Connection(parse_address(broker.address), settings(broker.address, security_protocol="SSL"))
    with RawConnection(broker.address):
        pass

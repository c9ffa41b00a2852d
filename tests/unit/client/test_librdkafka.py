"""Java's client properties in librdkafka's names; librdkafka itself says whether it takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from moldau.client.errors import SettingError
from moldau.client.librdkafka import CLASSES, JAVA_ONLY, make_client, translate

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
STORES = Path(__file__).parents[1] / "tls" / "data"
"""The JKS key has a password of its own."""
PLAIN_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="it\\"s; 1";'


def translated(**properties: str) -> dict[str, Any]:
    """Keys are written with underscores for dots."""
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return {key: value for key, value in translate(given).items() if key != "log_level"}


def accept(properties: Mapping[str, str]) -> None:
    """librdkafka checks names and values when it makes a client; nothing is sent."""
    Producer(translate({**SERVERS, **properties}))


def test_names_that_differ() -> None:
    assert translated(request_timeout_ms="7", fetch_max_wait_ms="8", max_request_size="9", send_buffer_bytes="1") == {
        "socket.timeout.ms": "7",
        "fetch.wait.max.ms": "8",
        "message.max.bytes": "9",
        "socket.send.buffer.bytes": "1",
    }
    assert translated(buffer_memory="33554432") == {"queue.buffering.max.kbytes": 32768}


@pytest.mark.parametrize(("age_ms", "refresh_ms"), [("1000", 1000), ("0", 10), ("86400000", 3_600_000)])
def test_topics_are_looked_for_as_often_as_java_does(age_ms: str, refresh_ms: int) -> None:
    assert translated(metadata_max_age_ms=age_ms)["topic.metadata.refresh.interval.ms"] == refresh_ms
    own = translated(metadata_max_age_ms=age_ms, topic_metadata_refresh_interval_ms="77")
    assert own["topic.metadata.refresh.interval.ms"] == "77"


def test_what_only_java_has_is_left_out() -> None:
    assert translated(**dict.fromkeys((key.replace(".", "_") for key in JAVA_ONLY), "x")) == {}


def test_a_delegation_token_is_refused_rather_than_taken_for_a_users_password() -> None:
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="id" password="hmac" tokenauth='
    given = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    with pytest.raises(SettingError, match=r"^sasl\.jaas\.config: librdkafka cannot log in with a delegation token"):
        translate({**given, "sasl.jaas.config": f'{login}"TRUE";'})
    accept({**given, "sasl.jaas.config": f"{login}false;"})


@pytest.mark.parametrize("key", sorted(CLASSES))
def test_classes_of_java_that_decide_whom_to_trust_are_refused(key: str) -> None:
    with pytest.raises(SettingError, match=rf"^{re.escape(key)}: com\.example\.Own is Java's"):
        translate({key: "com.example.Own"})
    assert key not in translate({key: "org.apache.kafka.common.security.Theirs"})
    assert key not in translate({key: ""})


def test_keys_may_be_ignored() -> None:
    assert translated(partitioner_ignore_keys="true") == {"partitioner": "random"}
    assert translated(partitioner_ignore_keys="false") == {}
    accept({"partitioner.ignore.keys": "true"})


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("org.apache.kafka.clients.consumer.RangeAssignor", "range"),
        ("org.apache.kafka.clients.consumer.RoundRobinAssignor, range", "roundrobin,range"),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
    ],
)
def test_assignors_of_java(name: str, taken: str, caplog: pytest.LogCaptureFixture) -> None:
    assert translated(partition_assignment_strategy=name) == {"partition.assignment.strategy": taken}
    assert caplog.messages == []


def test_an_assignor_that_librdkafka_lacks_is_replaced_and_told(caplog: pytest.LogCaptureFixture) -> None:
    found = translated(partition_assignment_strategy="org.apache.kafka.clients.consumer.StickyAssignor")
    assert found == {"partition.assignment.strategy": "cooperative-sticky"}
    (told,) = caplog.messages
    assert told.startswith("partition.assignment.strategy: librdkafka has no org.apache.kafka")
    assert "cooperative-sticky" in told and "none of Java's with StickyAssignor" in told


def test_an_assignor_of_one_s_own_is_refused_with_what_to_do() -> None:
    """GRP-18, as far as librdkafka goes."""
    with pytest.raises(SettingError, match=r"^partition\.assignment\.strategy: com\.example\.Greedy .*`assign`"):
        translated(partition_assignment_strategy="range,com.example.Greedy")


def test_librdkafkas_own_names_are_taken_as_they_are() -> None:
    assert translated(linger_ms="5", debug="broker") == {"linger.ms": "5", "debug": "broker"}
    assert "log_level" not in translate({"debug": "broker"})


def test_a_login() -> None:
    found = translated(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=PLAIN_LOGIN)
    assert found == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": 'it"s; 1',
    }
    accept({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_LOGIN})


def test_kerberos_and_tokens() -> None:
    kerberos = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="p@R";'
    assert translated(sasl_jaas_config=kerberos) == {"sasl.kerberos.principal": "p@R", "sasl.kerberos.keytab": "/k"}
    token = 'org.apache.kafka…OAuthBearerLoginModule required clientId="c" clientSecret="s" scope="all";'
    assert translated(sasl_jaas_config=token) == {
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "all",
    }


def test_a_token_is_fetched_where_an_address_for_it_is_given() -> None:
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "oauthbearer",
        "sasl.oauthbearer.token.endpoint.url": "https://localhost/token",
        "sasl.oauthbearer.client.credentials.client.id": "c",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
    }
    found = translate(login)
    assert (found["sasl.mechanisms"], found["sasl.oauthbearer.method"]) == ("OAUTHBEARER", "oidc")
    assert (found["sasl.oauthbearer.client.id"], found["sasl.oauthbearer.client.secret"]) == ("c", "s")
    accept(login)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI is not in this build of confluent-kafka"),
        ({}, "sasl.mechanism: GSSAPI, Kafka's default where no mechanism is given, is not in this build"),
    ],
)
def test_a_mechanism_that_this_build_lacks(given: dict[str, str], said: str) -> None:
    properties = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", **given}
    with pytest.raises(SettingError, match=f"{said}.*libsasl2.*--no-binary confluent-kafka.*SCRAM-SHA-512"):
        make_client(Producer, translate(properties), properties)


def test_what_librdkafka_refuses_bears_the_name_that_was_given() -> None:
    properties = {**SERVERS, "request.timeout.ms": "1"}
    with pytest.raises(SettingError, match=r"^request\.timeout\.ms: refused by librdkafka: .*socket\.timeout\.ms"):
        make_client(Producer, translate(properties), properties)


def test_stores_in_pem() -> None:
    assert translated(ssl_truststore_type="PEM", ssl_truststore_location="/ca", ssl_truststore_password="ignored") == {
        "ssl.ca.location": "/ca"
    }
    assert translated(ssl_truststore_location="/ca.pem") == {"ssl.ca.location": "/ca.pem"}
    assert translated(ssl_keystore_location="/me.pem", ssl_key_password="p") == {
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "p",
    }
    assert translated(ssl_truststore_certificates="CA", ssl_keystore_key="K", ssl_keystore_certificate_chain="C") == {
        "ssl.ca.pem": "CA",
        "ssl.key.pem": "K",
        "ssl.certificate.pem": "C",
    }


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_java_stores_are_handed_over_as_text(kind: str) -> None:
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(STORES / f"trust.{kind}"),
        "ssl.truststore.password": "changeit",
        "ssl.keystore.location": str(STORES / f"broker.{kind}"),
        "ssl.keystore.password": "changeit",
        "ssl.key.password": "keypass12",
    }
    settings = translate(properties)
    assert (STORES / "ca.pem").read_text().strip() in str(settings["ssl.ca.pem"])
    assert (STORES / "b.pem").read_text().strip() in str(settings["ssl.certificate.pem"])
    assert "PRIVATE KEY" in str(settings["ssl.key.pem"]) and "PRIVATE KEY" not in str(settings["ssl.certificate.pem"])
    assert not [key for key in settings if "store" in key]
    accept(properties)


@pytest.mark.parametrize(("algorithm", "wanted"), [("", "none"), ("https", "https"), ("HTTPS", "https"), (" ", "none")])
def test_whether_names_of_hosts_are_checked(algorithm: str, wanted: str) -> None:
    properties = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": algorithm}
    assert translate(properties)["ssl.endpoint.identification.algorithm"] == wanted
    accept(properties)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"ssl.truststore.location": "/no/ca.jks"}, r"ssl\.truststore\.location: /no/ca\.jks: No such file"),
        ({"ssl.keystore.location": str(STORES / "trust.jks")}, r"trust\.jks: the store holds no private key"),
        (
            {"ssl.truststore.location": str(STORES / "trust.jks"), "ssl.truststore.password": "guessed"},
            r"trust\.jks: wrong password.*ssl\.truststore\.password",
        ),
        ({"sasl.jaas.config": "nonsense"}, "found no username"),
        ({"buffer.memory": "much"}, "is no whole number"),
    ],
)
def test_what_cannot_be_carried_over(properties: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        translate(properties)


def test_a_consumers_file_as_the_documents_of_kafka_show_it(tmp_path: Path) -> None:
    properties = {
        **SERVERS,
        "group.id": "g",
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "max.poll.records": "500",
        "fetch.max.wait.ms": "500",
        "isolation.level": "read_committed",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
        "auto.offset.reset": "earliest",
        "interceptor.classes": "com.example.Nothing",
    }
    Consumer(translate(properties)).close()

"""The table of Kafka's client properties: it knows them all, and what it calls honoured changes something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from moldau.client.librdkafka import translate
from moldau.spark.kafka_keys import HONOURED, REFUSED, kafka_keys
from moldau.spark.option_table import OptionError, Use
from moldau.spark.planning.options import ReadOptions, parse_read_options
from moldau.spark.writing.options import WriteOptions, parse_write_options
from tests.peers.java_properties import recorded_properties

STORES = Path(__file__).parents[1] / "tls" / "data"
BASE = {"kafka.bootstrap.servers": "localhost:9092"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="mine";'
TLS = {"security.protocol": "SSL"}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
KERBEROS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = {
    **TOKEN,
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/1",
    "sasl.jaas.config": 'OAuthBearerLoginModule required clientId="a" clientSecret="a";',
}
CHANGES: dict[str, tuple[str, dict[str, str]]] = {
    "acks": ("1", {}),
    "batch.size": ("10", {}),
    "bootstrap.servers": ("elsewhere:1", {}),
    "check.crcs": ("false", {}),
    "client.id": ("me", {}),
    "client.rack": ("r", {}),
    "compression.gzip.level": ("3", {"compression.type": "gzip"}),
    "compression.lz4.level": ("3", {"compression.type": "lz4"}),
    "compression.type": ("lz4", {}),
    "compression.zstd.level": ("5", {"compression.type": "zstd"}),
    "default.api.timeout.ms": ("7", {}),
    "delivery.timeout.ms": ("7", {}),
    "enable.ssl.certificate.verification": ("false", TLS),
    "fetch.max.wait.ms": ("7", {}),
    "group.id": ("g", {}),
    "isolation.level": ("read_uncommitted", {}),
    "max.partition.fetch.bytes": ("7", {}),
    "max.request.size": ("700", {}),
    "receive.buffer.bytes": ("7000", {}),
    "request.timeout.ms": ("7", {}),
    "retry.backoff.ms": ("7", {}),
    "sasl.jaas.config": (JAAS, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}),
    "sasl.kerberos.keytab": ("/me.keytab", {**KERBEROS, "sasl.kerberos.principal": "me@HERE"}),
    "sasl.kerberos.principal": ("you@HERE", {**KERBEROS, "sasl.kerberos.keytab": "/me.keytab"}),
    "sasl.kerberos.service.name": ("log", KERBEROS),
    "sasl.mechanism": ("SCRAM-SHA-512", {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "me"}),
    "sasl.mechanisms": ("SCRAM-SHA-512", {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "me"}),
    "sasl.password": ("mine", LOGIN),
    "sasl.username": ("you", {**LOGIN, "sasl.jaas.config": JAAS}),
    "security.protocol": ("SSL", {}),
    "socket.connection.setup.timeout.ms": ("7", {}),
    "ssl.ca.location": ("ca.pem", TLS),
    "ssl.certificate.location": ("me.pem", TLS),
    "enable.sasl.oauthbearer.unsecure.jwt": ("true", {**TOKEN, "sasl.oauthbearer.config": "principal=a"}),
    "sasl.oauthbearer.client.credentials.client.id": ("b", ENDPOINT),
    "sasl.oauthbearer.client.credentials.client.secret": ("b", ENDPOINT),
    "sasl.oauthbearer.client.id": ("b", ENDPOINT),
    "sasl.oauthbearer.client.secret": ("b", ENDPOINT),
    "sasl.oauthbearer.config": ("principal=a", {**TOKEN, "enable.sasl.oauthbearer.unsecure.jwt": "true"}),
    "sasl.oauthbearer.extensions": ("zone=a", ENDPOINT),
    "sasl.oauthbearer.scope": ("write", ENDPOINT),
    "sasl.oauthbearer.token.endpoint.url": ("https://tokens.example/2", ENDPOINT),
    "ssl.endpoint.identification.algorithm": ("", TLS),
    "ssl.key.location": ("me.key", TLS),
    "ssl.key.password": ("p", TLS),
    "ssl.keystore.certificate.chain": ("C", {**TLS, "ssl.keystore.key": "K"}),
    "ssl.keystore.key": ("K", {**TLS, "ssl.keystore.certificate.chain": "C"}),
    "ssl.keystore.location": ("me.pem", {**TLS, "ssl.keystore.type": "PEM"}),
    "ssl.keystore.password": ("p", TLS),
    "ssl.keystore.type": ("PEM", {**TLS, "ssl.keystore.location": "me"}),
    "ssl.truststore.certificates": ("C", TLS),
    "ssl.truststore.location": ("ca.pem", {**TLS, "ssl.truststore.type": "PEM"}),
    "ssl.truststore.password": ("changeit", {**TLS, "ssl.truststore.location": str(STORES / "trust.p12")}),
    "ssl.truststore.type": ("PEM", {**TLS, "ssl.truststore.location": "ca"}),
    "transaction.timeout.ms": ("7000", {}),
}
"""A value for each honoured property, and what it needs beside it to have a meaning."""
THROUGH_LIBRDKAFKA = sorted(
    key.name for key in kafka_keys().values() if (key.when_reading, key.when_writing) == (HONOURED, REFUSED)
)


def outcome(properties: dict[str, str], use: Use) -> ReadOptions | WriteOptions | str:
    given = BASE | {f"kafka.{name}": value for name, value in properties.items()}
    try:
        if use is Use.BATCH_WRITE:
            return replace(parse_write_options(given, use), properties={})
        return replace(parse_read_options(given | {"subscribe": "orders"}, use), properties={})
    except OptionError as error:
        return str(error)


@pytest.mark.parametrize("use", [Use.BATCH_READ, Use.BATCH_WRITE])
def test_an_honoured_property_changes_something(use: Use) -> None:
    honoured = {key.name for key in kafka_keys().values() if key.treatment(use) == HONOURED}
    for name in sorted(honoured - set(THROUGH_LIBRDKAFKA)):
        value, context = CHANGES[name]
        assert not isinstance(changed := outcome({**context, name: value}, use), str), (name, changed)
        assert changed != outcome(context, use), name


@pytest.mark.parametrize("name", THROUGH_LIBRDKAFKA)
def test_what_only_librdkafka_honours_reaches_it(name: str) -> None:
    config = translate({name: "1"})
    assert set(config) - {"log_level"}, "it was left out"
    said = ""
    try:
        Consumer({**config, "group.id": "g"}).close()
    except KafkaException as error:
        said = str(error)
    assert "No such configuration property" not in said, "of the value it may say what it likes"


def test_the_table_has_every_property_of_javas_clients() -> None:
    """As recorded; tests/clients/test_java_properties.py holds the record against Kafka's jars."""
    assert set(recorded_properties()) - set(kafka_keys()) == set()


def test_what_nobody_knows_is_refused_with_the_nearest_name() -> None:
    assert "Kafka's clients have no property 'acs'" in (text := str(outcome({"acs": "1"}, Use.BATCH_WRITE)))
    assert "'kafka.acks'" in text
    assert "Java class" in str(outcome({"config.providers.vault.class": "x"}, Use.BATCH_WRITE))

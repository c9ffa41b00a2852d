"""Java's client properties in librdkafka's names, so that one properties file serves Kafka's tools and ours.

What both name alike is passed on. What only Java has and librdkafka does without (serializer classes, JMX) is dropped.
What cannot be carried over is refused with what to do: Java's own key stores (JKS) are the main case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from moldau.client.errors import SettingError
from moldau.client.login import MECHANISM_KEYS, chosen_mechanism, described_mechanism, jaas_fields, uses_login

T = TypeVar("T")

RENAMED: Final = {
    "sasl.mechanism": "sasl.mechanisms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}

# Java's clients need these to find classes, or to report about themselves; librdkafka has no such choice to make.
JAVA_ONLY: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "security.providers",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "value.deserializer",
        "value.serializer",
    }
)
HANDLED: Final = frozenset(
    {
        "buffer.memory",
        "partition.assignment.strategy",
        "sasl.jaas.config",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.key.password",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    # Its nearest relative: librdkafka has no eager sticky assignor.
    "org.apache.kafka.clients.consumer.StickyAssignor": "cooperative-sticky",
}
NO_PROVIDER: Final = "No provider for SASL mechanism"
QUIET: Final = 2
"""Only what is critical: errors reach us through calls and callbacks, and are told in one line."""


def translate(properties: Mapping[str, str]) -> dict[str, str | int]:
    """librdkafka's settings for properties in Java's names, in librdkafka's, or mixed."""
    settings: dict[str, str | int] = {}
    if "debug" not in properties:
        settings["log_level"] = QUIET
    for key, value in properties.items():
        if key not in JAVA_ONLY and key not in HANDLED:
            settings[RENAMED.get(key, key)] = value.lower() if key == "security.protocol" else value
    if "buffer.memory" in properties:
        settings["queue.buffering.max.kbytes"] = max(1, _integer("buffer.memory", properties["buffer.memory"]) // 1024)
    if "partition.assignment.strategy" in properties:
        settings["partition.assignment.strategy"] = _assignors(properties["partition.assignment.strategy"])
    if uses_login(properties):
        settings |= _mechanism(properties)
    settings |= _login(properties)
    settings |= _trusted(properties)
    settings |= _identity(properties)
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"].strip().lower()
        settings["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    return settings


def make_client(make: Callable[[dict[str, Any]], T], config: dict[str, Any], properties: Mapping[str, str]) -> T:
    """A client of librdkafka from translated `properties`; it looks at its settings only now."""
    from confluent_kafka import KafkaException

    try:
        return make(config)
    except KafkaException as error:
        problem = str(error.args[0].str())
        if NO_PROVIDER in problem:
            raise without_mechanism(properties) from None
        named = (key for key in properties if RENAMED.get(key, key) in problem)
        longest = max(named, key=len, default="bootstrap.servers")
        raise SettingError(longest, f"refused by librdkafka: {problem}") from None


def without_mechanism(properties: Mapping[str, str]) -> SettingError:
    return SettingError(
        MECHANISM_KEYS[0],
        f"{described_mechanism(properties)} is not in this build of confluent-kafka: install librdkafka with libsasl2 "
        "and `pip install --no-binary confluent-kafka confluent-kafka`, or use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "
        "OAUTHBEARER",
    )


def _integer(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise SettingError(key, f"{value!r} is no whole number") from None


def _assignors(names: str) -> str:
    return ",".join(ASSIGNORS.get(name.strip(), name.strip()) for name in names.split(","))


def _mechanism(properties: Mapping[str, str]) -> dict[str, str]:
    return {RENAMED[MECHANISM_KEYS[0]]: chosen_mechanism(properties), **_token_method(properties)}


def _token_method(properties: Mapping[str, str]) -> dict[str, str]:
    """Java fetches a token where it is told an address; librdkafka has to be told to."""
    fetches = "sasl.oauthbearer.token.endpoint.url" in properties and "sasl.oauthbearer.method" not in properties
    return {"sasl.oauthbearer.method": "oidc"} if fetches else {}


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    jaas = properties.get("sasl.jaas.config")
    if jaas is None:
        return {}
    fields = jaas_fields(jaas)
    if "Krb5LoginModule" in jaas:
        named = {"sasl.kerberos.principal": fields.get("principal"), "sasl.kerberos.keytab": fields.get("keyTab")}
        return {key: value for key, value in named.items() if value}
    if "OAuthBearerLoginModule" in jaas:
        named = {
            "sasl.oauthbearer.client.id": fields.get("clientId"),
            "sasl.oauthbearer.client.secret": fields.get("clientSecret"),
            "sasl.oauthbearer.scope": fields.get("scope"),
        }
        return {key: value for key, value in named.items() if value}
    if not fields.get("username"):
        expected = 'LoginModule required username="…" password="…";'
        raise SettingError("sasl.jaas.config", f"found no username; expected …{expected}")
    return {"sasl.username": fields["username"], "sasl.password": fields.get("password", "")}


def _trusted(properties: Mapping[str, str]) -> dict[str, str]:
    location = properties.get("ssl.truststore.location")
    if location is None:
        return {}
    if _store_type(properties, "truststore", location) != "PEM":
        raise SettingError(
            "ssl.truststore.location",
            f"{location} is a Java trust store, which only Java reads; export it with "
            f"`keytool -exportcert -rfc -keystore {location} -alias ALIAS -file ca.pem` and set "
            "ssl.truststore.type=PEM, ssl.truststore.location=ca.pem",
        )
    return {"ssl.ca.location": location}


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    location = properties.get("ssl.keystore.location")
    store_password = properties.get("ssl.keystore.password")
    key_password = properties.get("ssl.key.password")
    found = {"ssl.key.password": key_password} if key_password is not None else {}
    if location is None:
        return found
    kind = _store_type(properties, "keystore", location)
    if kind == "PEM":
        return found | {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12":
        password = store_password if store_password is not None else ""
        return {"ssl.keystore.location": location, "ssl.keystore.password": password}
    raise SettingError(
        "ssl.keystore.location",
        f"{location} is a {kind} key store, which only Java reads; convert it with "
        f"`keytool -importkeystore -srckeystore {location} -destkeystore key.p12 -deststoretype PKCS12`"
        " and set ssl.keystore.type=PKCS12, ssl.keystore.location=key.p12",
    )


def _store_type(properties: Mapping[str, str], store: str, location: str) -> str:
    by_name = {".pem": "PEM", ".crt": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
    named = properties.get(f"ssl.{store}.type")
    if named:
        return named.upper()
    return next((kind for suffix, kind in by_name.items() if location.lower().endswith(suffix)), "JKS")

"""Java's client properties in librdkafka's names, so that one properties file serves Kafka's tools and ours.

What both name alike is passed on. What only Java has and librdkafka does without (serializer classes, JMX) is dropped.
Java's own key stores are read here and handed over as text. What cannot be carried over is refused with what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from moldau.client.errors import SettingError
from moldau.client.login import MECHANISM_KEYS, chosen_mechanism, described_mechanism, jaas_fields, uses_login
from moldau.client.stores import identity, trusted_certificates
from moldau.types.uuid_text import uuid_of_halves

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
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "value.deserializer",
        "value.serializer",
    }
)
CLASSES: Final = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "security.providers",
        "ssl.engine.factory.class",
    }
)
"""Java classes that decide who is trusted and who somebody is. Kafka's own do what librdkafka does by itself."""
KAFKAS_OWN: Final = "org.apache.kafka."
IGNORES_KEYS: Final = "partitioner.ignore.keys"
STRATEGY: Final = "partition.assignment.strategy"
HANDLED: Final = frozenset(
    {
        "buffer.memory",
        STRATEGY,
        "sasl.jaas.config",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.key.password",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        IGNORES_KEYS,
        *CLASSES,
    }
)
ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
EAGER_STICKY: Final = "org.apache.kafka.clients.consumer.StickyAssignor"
NEAREST: Final = "cooperative-sticky"
"""librdkafka has no eager sticky assignor: this one keeps partitions as well, and gives up only what it loses."""
OWN_NAMES: Final = {
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
"""How librdkafka calls, in its complaints, what it also takes under Java's name."""
REFRESH: Final = "topic.metadata.refresh.interval.ms"
"""When librdkafka looks for new topics and partitions; what it calls `metadata.max.age.ms` is only when it forgets."""
SHORTEST_REFRESH_MS, LONGEST_REFRESH_MS = 10, 3_600_000
log = logging.getLogger(__name__)

NO_PROVIDER: Final = "No provider for SASL mechanism"
QUIET: Final = 2
"""Only what is critical: errors reach us through calls and callbacks, and are told in one line."""


def translate(properties: Mapping[str, str]) -> dict[str, str | int]:
    """librdkafka's settings for properties in Java's names, in librdkafka's, or mixed."""
    settings: dict[str, str | int] = {}
    _refuse_classes(properties)
    if "debug" not in properties:
        settings["log_level"] = QUIET
    for key, value in properties.items():
        if key not in JAVA_ONLY and key not in HANDLED:
            settings[RENAMED.get(key, key)] = value.lower() if key == "security.protocol" else value
    if "buffer.memory" in properties:
        settings["queue.buffering.max.kbytes"] = max(1, _integer("buffer.memory", properties["buffer.memory"]) // 1024)
    if "metadata.max.age.ms" in properties and REFRESH not in properties:
        age_ms = _integer("metadata.max.age.ms", properties["metadata.max.age.ms"])
        settings[REFRESH] = max(SHORTEST_REFRESH_MS, min(age_ms, LONGEST_REFRESH_MS))
    if properties.get(IGNORES_KEYS, "").strip().lower() == "true":
        settings["partitioner"] = "random"
    if STRATEGY in properties:
        settings[STRATEGY] = _assignors(properties[STRATEGY])
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
        for own, java in OWN_NAMES.items():
            problem = problem.replace(f'"{own}"', f'"{java}"')
        named = (key for key in properties if RENAMED.get(key, key) in problem)
        longest = max(named, key=len, default="bootstrap.servers")
        raise SettingError(longest, f"refused by librdkafka: {problem}") from None


def told_error(raised: BaseException) -> BaseException:
    """What went wrong. What is fatal, such as being fenced, confluent-kafka raises in the midst of a delivery callback:
    Python makes a SystemError of that, whose cause it is."""
    return raised.__cause__ or raised if isinstance(raised, SystemError) else raised


def uuid_of(native: Any) -> UUID:
    """An id that librdkafka hands out, whose own text of it is not the one of Kafka's tools and files."""
    return uuid_of_halves(native.get_most_significant_bits(), native.get_least_significant_bits())


def without_mechanism(properties: Mapping[str, str]) -> SettingError:
    return SettingError(
        MECHANISM_KEYS[0],
        f"{described_mechanism(properties)} is not in this build of confluent-kafka: install librdkafka with libsasl2 "
        "and `pip install --no-binary confluent-kafka confluent-kafka`, or use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "
        "OAUTHBEARER",
    )


def _refuse_classes(properties: Mapping[str, str]) -> None:
    for key in sorted(CLASSES & properties.keys()):
        if properties[key].strip() and not properties[key].strip().startswith(KAFKAS_OWN):
            raise SettingError(key, f"{properties[key]} is Java's, and cannot run here; without it nothing would do so")


def _integer(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise SettingError(key, f"{value!r} is no whole number") from None


def _assignors(names: str) -> str:
    return ",".join(_assignor(name.strip()) for name in names.split(","))


def _assignor(name: str) -> str:
    if name == EAGER_STICKY:
        log.warning(
            "%s: librdkafka has no %s and takes %s in its place: members give up only what they lose, and none of "
            "Java's with StickyAssignor can be in the group",
            STRATEGY, EAGER_STICKY, NEAREST,
        )  # fmt: skip
        return NEAREST
    if "." in name and name not in ASSIGNORS:
        raise SettingError(
            STRATEGY,
            f"{name} is a class, and librdkafka takes none: expected {', '.join(ASSIGNORS.values())}; `assign` "
            "gives a consumer whatever partitions your program has shared out",
        )
    return ASSIGNORS.get(name, name)


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
    if fields.get("tokenauth", "").lower() == "true":
        raise SettingError(
            "sasl.jaas.config",
            "librdkafka cannot log in with a delegation token (tokenauth): Java's clients can, and of ours those that "
            "do without it, such as Spark's source",
        )
    return {"sasl.username": fields["username"], "sasl.password": fields.get("password", "")}


def _trusted(properties: Mapping[str, str]) -> dict[str, str]:
    certificates = trusted_certificates(properties)
    if certificates is not None:
        return {"ssl.ca.pem": certificates}
    location = properties.get("ssl.truststore.location")
    return {} if location is None else {"ssl.ca.location": location}


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    keys = identity(properties)
    if keys is not None:
        password = {} if keys.password is None else {"ssl.key.password": keys.password}
        return {"ssl.certificate.pem": keys.certificates, "ssl.key.pem": keys.key, **password}
    key_password = properties.get("ssl.key.password")
    found = {"ssl.key.password": key_password} if key_password is not None else {}
    location = properties.get("ssl.keystore.location")
    return found if location is None else found | {"ssl.certificate.location": location, "ssl.key.location": location}

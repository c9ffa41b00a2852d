"""What the settings of a registry's serializers say: under which subject a schema is, and which schema is written with.

Names and meanings are Confluent's, of its Java and of its Python client; where the two differ, both are understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from moldau.client.errors import SettingError
from moldau.clients import properties as settings
from moldau.clients.schema_registry import Registered, RegistryFailed, SchemaRegistry, registered
from moldau.clients.serializers import Properties

TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED = "topic", "record", "topic_record", "associated"
FALLBACKS: Final = (TOPIC, RECORD, TOPIC_RECORD, "none")
STRATEGIES: Final = {each: each for each in (TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED)} | {
    f"io.confluent.kafka.serializers.subject.{name}NameStrategy": ours
    for name, ours in (
        ("Topic", TOPIC), ("Record", RECORD), ("TopicRecord", TOPIC_RECORD), ("Associated", ASSOCIATED),
        ("AssociatedSubject", ASSOCIATED),
    )
}  # fmt: skip
PREFIX, HEADER = "prefix", "header"
PLACES: Final = {each: each for each in (PREFIX, HEADER)} | {
    f"io.confluent.kafka.serializers.schema.id.{name}SchemaIdSerializer": ours
    for name, ours in (("Prefix", PREFIX), ("Header", HEADER))
}
NO_ASSOCIATIONS: Final = (404, 405)


def of_part(properties: Properties, name: str, is_key: bool, default: object) -> object:
    """A setting for keys or values alone, or for both."""
    return properties.get(f"{'key' if is_key else 'value'}.{name}", properties.get(name, default))


def one_of(name: str, given: object, known: Mapping[str, str], shown: tuple[str, ...]) -> str:
    found = known.get(str(given)) or known.get(str(given).lower())
    if found is None:
        raise SettingError(name, f"{given!r} is none of {', '.join(shown)}")
    return found


def in_header(properties: Properties, is_key: bool) -> bool:
    given = of_part(properties, "schema.id.serializer", is_key, PREFIX)
    return one_of("schema.id.serializer", given, PLACES, (PREFIX, HEADER)) == HEADER


@dataclass(slots=True)
class Naming:
    """How subjects are named."""

    strategy: str = TOPIC
    fallback: str = TOPIC
    cluster_id: str = "-"
    _associated: dict[tuple[str, bool], str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Properties, is_key: bool) -> Naming:
        name = "subject.name.strategy"
        given = of_part(properties, name, is_key, properties.get(f"{name}.type", ASSOCIATED))
        fallback = f"{name}.fallback.type"
        return cls(
            one_of(name, given, STRATEGIES, (TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED)),
            one_of(fallback, properties.get(fallback, TOPIC), {each: each for each in FALLBACKS}, FALLBACKS),
            str(properties.get(f"{name}.kafka.cluster.id", "-")),
        )

    def subject(self, registry: SchemaRegistry, topic: str, is_key: bool, record_name: str | None) -> str:
        strategy = self.strategy
        if strategy == ASSOCIATED:
            found = self._association(registry, topic, is_key)
            if found is not None:
                return found
            strategy = self.fallback
        if strategy == TOPIC:
            return f"{topic}-{'key' if is_key else 'value'}"
        if strategy == "none":
            raise ValueError(f"no subject is associated with topic {topic}: subject.name.strategy.fallback.type=none")
        if record_name is None:
            raise ValueError("the schema has no name, which its subject should be")
        return record_name if strategy == RECORD else f"{topic}-{record_name}"

    def _association(self, registry: SchemaRegistry, topic: str, is_key: bool) -> str | None:
        """Asked for once: a program goes on writing where it began."""
        place = topic, is_key
        if place not in self._associated:
            self._associated[place] = asked_association(registry, self.cluster_id, topic, is_key)
        return self._associated[place]


def asked_association(registry: SchemaRegistry, cluster_id: str, topic: str, is_key: bool) -> str | None:
    wanted = {"resourceType": "topic", "associationType": "key" if is_key else "value"}
    path = f"/associations/resources/{quote(cluster_id, safe='')}/{quote(topic, safe='')}?{urlencode(wanted)}"
    try:
        found = registry.ask_any(path)
    except RegistryFailed as error:
        if error.status in NO_ASSOCIATIONS:
            return None
        raise
    if not isinstance(found, list) or not found:
        return None
    if len(found) > 1:
        raise ValueError(f"topic {topic} has {len(found)} associated subjects: end all but one of the associations")
    return str(found[0]["subject"])


@dataclass(frozen=True, slots=True)
class Choice:
    """Which registered schema is written with, where a setting says that: this id, the newest one with this metadata,
    the newest one. It wins over auto.register.schemas."""

    schema_id: int | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    latest: bool = False

    @classmethod
    def of(cls, properties: Properties) -> Choice:
        schema_id = settings.whole(properties, "use.schema.id", -1) if properties.get("use.schema.id") else -1
        return cls(
            schema_id if schema_id >= 0 else None,
            pairs("use.latest.with.metadata", properties.get("use.latest.with.metadata")),
            settings.flag(properties, "use.latest.version", False),
        )

    @property
    def is_made(self) -> bool:
        return self.schema_id is not None or bool(self.metadata) or self.latest

    def found(self, registry: SchemaRegistry, subject: str) -> Registered:
        if self.schema_id is not None:
            answer = registry.ask(f"/schemas/ids/{self.schema_id}?{urlencode({'subject': subject})}")
            return registered(answer, self.schema_id)
        if self.metadata:
            wanted = [pair for key, value in self.metadata for pair in (("key", key), ("value", value))]
            answer = registry.ask(f"/subjects/{quote(subject, safe='')}/metadata?{urlencode(wanted)}")
            return registered(answer, int(answer.get("id", 0)))
        return registry.version(subject)


def pairs(name: str, given: Any) -> tuple[tuple[str, str], ...]:
    """Of a mapping, or of `key=value,key=value`."""
    if not given:
        return ()
    if isinstance(given, Mapping):
        return tuple((str(key), str(value)) for key, value in given.items())
    found = []
    for each in str(given).split(","):
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            raise SettingError(name, f"{each!r} is not key=value")
        found.append((key.strip(), value.strip()))
    return tuple(found)

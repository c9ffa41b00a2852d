"""Properties with Java's names: what this package sees to itself, and librdkafka's settings for the rest.

Values may be what they are in Python (True, 5, a class); librdkafka gets their texts. Defaults are those of Java's
clients where the two differ, and can be kept: see `PRODUCER` and `CONSUMER`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from moldau.client.errors import SettingError
from moldau.client.librdkafka import translate

PRODUCER: Final = {"partitioner": "murmur2_random", "enable.idempotence": "true"}
CONSUMER: Final = {
    "isolation.level": "read_uncommitted",
    "enable.auto.offset.store": "false",
    # librdkafka rests for a second once it has 100,000 messages: who reads them faster would wait.
    "fetch.queue.backoff.ms": "10",
}
OURS: Final = frozenset(
    {
        "deserializer.encoding",
        "key.deserializer.encoding",
        "key.serializer.encoding",
        "max.poll.records",
        "normalize.schemas",
        "partitioner.class",
        "serializer.encoding",
        "value.deserializer.encoding",
        "value.serializer.encoding",
    }
)
"""Looked at in this package, beside what librdkafka does without."""
OUR_PREFIXES: Final = (
    "schema.registry.",
    "basic.auth.",
    "bearer.auth.",
    "auto.register.schemas",
    "use.latest.",
    "use.schema.id",
    "schema.id.serializer",
    "key.schema.id.serializer",
    "value.schema.id.serializer",
    "subject.name.strategy",
    "partitioner.special.",
    "avro.",
    "json.",
    "protobuf.",
    "key.subject.name.strategy",
    "value.subject.name.strategy",
    "specific.",
    "user.",
)
GONE: Final = {
    "block.on.buffer.full": "is gone since 0.9: max.block.ms says how long send may wait",
    "metadata.fetch.timeout.ms": "is gone since 0.9: max.block.ms says how long send may wait",
    "timeout.ms": "is gone since 0.9: use request.timeout.ms and delivery.timeout.ms",
    "zookeeper.connect": "clients talk to brokers: use bootstrap.servers",
    "metadata.broker.list": "use bootstrap.servers",
}

log = logging.getLogger("moldau.clients")


def merged(given: Mapping[str, object] | None, more: Mapping[str, object]) -> dict[str, object]:
    """Properties from a mapping and from keywords, in which `_` stands for a dot; keywords win."""
    found = dict(given or {})
    found |= {name.replace("_", "."): value for name, value in more.items()}
    for name, problem in GONE.items():
        if name in found:
            raise SettingError(name, problem)
    if not found.get("bootstrap.servers"):
        raise SettingError("bootstrap.servers", "is missing; expected host:port, several separated by commas")
    return found


def librdkafka(properties: Mapping[str, object], defaults: Mapping[str, str]) -> dict[str, Any]:
    """Its settings; errors that belong to no call are logged."""
    texts = {name: text(value) for name, value in properties.items() if not is_ours(name)}
    settings: dict[str, Any] = {**defaults, **translate(texts)}
    settings["error_cb"] = lambda error: log.warning("%s: %s", settings.get("client.id", "client"), error.str())
    if settings.get("auto.offset.reset") == "none":
        settings["auto.offset.reset"] = "error"
    return settings


def texts(properties: Mapping[str, object]) -> dict[str, str]:
    return {name: text(value) for name, value in properties.items()}


def is_ours(name: str) -> bool:
    return name in OURS or name.startswith(OUR_PREFIXES)


def text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def seconds(properties: Mapping[str, object], name: str, default_ms: int) -> float:
    return whole(properties, name, default_ms) / 1000


def whole(properties: Mapping[str, object], name: str, default: int) -> int:
    found = properties.get(name, default)
    try:
        return int(str(found))
    except ValueError:
        raise SettingError(name, f"{found!r} is no whole number") from None


def flag(properties: Mapping[str, object], name: str, default: bool) -> bool:
    found = text(properties.get(name, default)).strip().lower()
    if found not in ("true", "false"):
        raise SettingError(name, f"{found!r} is neither true nor false")
    return found == "true"

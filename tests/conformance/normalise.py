"""Replaces what must differ between two brokers by stable placeholders, and gives lists without an order one.

Replaced: topic ids, producer ids, member ids and fetch session ids (same id, same placeholder), the cluster's id, the
epoch of its features, ports and other settings of the deployment, log directories, disk space, the prefix of the run's
topic names (by ~), times that the broker took from its clock, leader epochs after a restart, documentation
(everybody's own words).
"""

import base64
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance import batches

Plain = Any
_MINUTE_MS: Final = 60_000
_YEAR_MS: Final = 365 * 24 * 60 * _MINUTE_MS
_TIMES: Final = frozenset({
    "timestamp", "base_timestamp", "max_timestamp", "log_append_time", "last_timestamp", "transaction_start_time",
})  # fmt: skip
_IDENTITY: Final = (
    "api_key", "resource_type", "resource_name", "name", "topic", "topic_name", "topic_id",
    "log_dir", "key", "node_id", "broker_id", "partition_index", "partition", "index",
    "producer_id", "group_id", "group", "member_id", "entity_type",
)  # fmt: skip
_DEPLOYMENT_SETTINGS: Final = frozenset({
    "listeners", "advertised.listeners", "log.dirs", "log.dir", "metadata.log.dir", "controller.quorum.voters",
})  # fmt: skip
_TOPIC, _GROUP = 2, 32
_IN_ORDER: Final = frozenset({"synonyms", "records", "record_errors"})
# Milliseconds of our days, and the same after they overflowed because a limit of 2^63 - 1 was taken from them.
# Apache Kafka prints the whole request, with the sizes of its queues.
_REFUSED_REQUEST: Final = re.compile(r"Request .* needs (\w+) permission\.", re.DOTALL)
_CLOCK_TIME: Final = re.compile(r"\b1[6-9]\d{11}\b|-92233\d{14}\b")


@dataclass(slots=True)
class Normaliser:
    """Knows what one session has learned about the broker it talks to."""

    tag: str
    prefix: str
    time_base: int
    clock_now: int
    topic_ids: dict[str, str] = field(default_factory=dict)
    producer_ids: dict[int, str] = field(default_factory=dict)
    session_ids: dict[int, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    member_ids: dict[str, str] = field(default_factory=dict)
    leader_epochs: dict[int, str] = field(default_factory=dict)
    sent_crcs: set[int] = field(default_factory=set)

    def name_topic_id(self, topic_id: str | None, name: str) -> None:
        if topic_id is None or topic_id in self.topic_ids:
            return
        label = f"id of {self.text(name)}"
        earlier = sum(known.startswith(label) for known in self.topic_ids.values())
        self.topic_ids[topic_id] = f"{label}, incarnation {earlier + 1}" if earlier else label

    def answer(self, plain: Plain, *, only_own: bool = False, ordered: bool = False) -> Plain:
        return self._value("", self._own(plain) if only_own else plain, ordered)

    def text(self, text: str) -> str:
        for topic_id, label in self.topic_ids.items():
            text = text.replace(topic_id, label).replace(_java_uuid(topic_id), label)
        for given, label in (*self.folders.items(), *self.member_ids.items()):
            text = text.replace(given, label)
        text = _REFUSED_REQUEST.sub(r"Request … needs \1 permission.", text)
        return _CLOCK_TIME.sub("TIME", text.replace(self.prefix, "~").replace(self.tag, "RUN"))

    def _value(self, name: str, value: Plain, ordered: bool) -> Plain:
        if name == "records" and isinstance(value, bytes):
            value = batches.describe(value, self.sent_crcs)
        if isinstance(value, Mapping):
            if value.get("name") in _DEPLOYMENT_SETTINGS and "value" in value:
                value = {**value, "value": "DEPLOYMENT"}
            return {key: self._value(key, inner, ordered) for key, inner in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            items = [self._value(name, item, ordered) for item in value]
            return items if ordered or name in _IN_ORDER else sorted(items, key=identity_rank)
        if isinstance(value, bool) or value is None:
            return value
        return self._leaf(name, value)

    def _leaf(self, name: str, value: Plain) -> Plain:
        if name in _TIMES:
            return self._time(value)
        if name == "topic_id":
            return self.topic_ids.get(value, "an unknown id")
        if name in ("producer_id", "session_id"):
            return (self.producer_ids if name == "producer_id" else self.session_ids).get(value, value)
        if name in ("leader_epoch", "epoch"):
            return self.leader_epochs.get(value, value)
        if name == "finalized_features_epoch" and value >= 0:
            return "EPOCH"
        if name == "port" and value > 0:
            return "PORT"
        if name == "cluster_id":
            return "CLUSTER"
        if name in ("total_bytes", "usable_bytes") and value > 0:
            return "BYTES"
        if name == "log_dir":
            return self.folders.get(value, "another folder")
        if name == "documentation":
            return "WORDS"
        if isinstance(value, bytes):
            return value.hex()
        return self.text(value) if isinstance(value, str) else value

    def _time(self, value: int) -> Plain:
        if abs(value - self.clock_now) < 20 * _MINUTE_MS:
            return "NOW"
        if abs(value - self.time_base) < _YEAR_MS:
            return f"T{value - self.time_base:+d}"
        return value

    def _own(self, plain: Plain) -> Plain:
        """Without the topics and groups of other scenarios, which share the broker."""
        if isinstance(plain, Mapping):
            return {key: self._own(value) for key, value in plain.items()}
        if isinstance(plain, Sequence) and not isinstance(plain, str | bytes):
            return [self._own(item) for item in plain if not self._is_foreign(item)]
        return plain

    def _is_foreign(self, item: Plain) -> bool:
        if not isinstance(item, Mapping):
            return False
        if "resource_name" in item:
            is_named_by_scenarios = item.get("resource_type", _TOPIC) in (_TOPIC, _GROUP)
            return is_named_by_scenarios and not item["resource_name"].startswith(self.prefix)
        if "group_id" in item and "protocol_type" in item and "members" not in item:
            return not item["group_id"].startswith(self.prefix)
        is_topic = "partitions" in item or "topic_authorized_operations" in item
        return is_topic and not str(item.get("name")).startswith(self.prefix)


def identity(item: Plain) -> tuple[Any, ...]:
    """The fields that tell an item from its neighbours."""
    if not isinstance(item, Mapping):
        return ()
    return tuple(item[key] for key in _IDENTITY if key in item)


def identity_rank(item: Plain) -> tuple[Any, ...]:
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, str(part)) for part in identity(item))


def _java_uuid(topic_id: str) -> str:
    """How Apache Kafka writes an id in its messages."""
    return base64.urlsafe_b64encode(uuid.UUID(topic_id).bytes).decode().rstrip("=")

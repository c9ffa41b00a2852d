"""The values of the metadata store's entries: small JSON objects, each with the version of its form in "v".

    /cluster                        {"v":1,"id":"<cluster id>"}
    /features                       {"v":1,"levels":{"<name>":<level>,...}}
    /producer-ids                   {"v":1,"next":<first id not yet handed out>}
    /brokers/<id>                   {"v":1,"incarnation":"<uuid>","rack":null,"fenced":false,
                                     "listeners":[{"name":..,"host":..,"port":..,"protocol":..},...]}
    /topics/<name>                  {"v":1,"id":"<uuid>","partitions":<count>}
    /topics/<name>/partitions/<n>   {"v":1,"replicas":[..],"isr":[..],"leader":<id or -1>,"leader_epoch":<n>}
    /configs/topics/<name>          {"v":1,"settings":{"<key>":"<value>",...}}
    /configs/brokers/<id|default>, /configs/groups/<group>, /configs/client-metrics/<subscription>    likewise

A partition's epoch is its entry's version and a broker's epoch the revision that created its entry: neither is stored.
Unknown members are left for later releases; an unknown version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

VERSION = 1


class BadEntryError(ValueError):
    """A value in the metadata store that this release cannot read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"metadata entry {path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TopicEntry:
    id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    port: int
    protocol: str


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    incarnation: UUID
    listeners: tuple[Listener, ...]
    rack: str | None = None
    fenced: bool = False


def encode_cluster(cluster_id: str) -> bytes:
    return _encode({"id": cluster_id})


def decode_cluster(path: str, value: bytes) -> str:
    return str(_decode(path, value, "id")["id"])


def encode_features(levels: Mapping[str, int]) -> bytes:
    return _encode({"levels": dict(levels)})


def decode_features(path: str, value: bytes) -> dict[str, int]:
    return {str(name): int(level) for name, level in _decode(path, value, "levels")["levels"].items()}


def encode_producer_ids(next_id: int) -> bytes:
    return _encode({"next": next_id})


def decode_producer_ids(path: str, value: bytes) -> int:
    return int(_decode(path, value, "next")["next"])


def encode_broker(entry: BrokerEntry) -> bytes:
    listeners = [
        {"name": item.name, "host": item.host, "port": item.port, "protocol": item.protocol} for item in entry.listeners
    ]
    return _encode(
        {"incarnation": str(entry.incarnation), "rack": entry.rack, "fenced": entry.fenced, "listeners": listeners}
    )


def decode_broker(path: str, value: bytes) -> BrokerEntry:
    found = _decode(path, value, "incarnation", "listeners")
    listeners = tuple(
        Listener(item["name"], item["host"], item["port"], item["protocol"]) for item in found["listeners"]
    )
    return BrokerEntry(UUID(found["incarnation"]), listeners, found.get("rack"), bool(found.get("fenced", False)))


def encode_topic(topic_id: UUID, partitions: int) -> bytes:
    return _encode({"id": str(topic_id), "partitions": partitions})


def decode_topic(path: str, value: bytes) -> TopicEntry:
    found = _decode(path, value, "id", "partitions")
    return TopicEntry(UUID(found["id"]), int(found["partitions"]))


def encode_partition(replicas: Sequence[int], isr: Sequence[int], leader: int, leader_epoch: int) -> bytes:
    return _encoded_partition(tuple(replicas), tuple(isr), leader, leader_epoch)


def decode_partition(path: str, value: bytes) -> PartitionEntry:
    try:
        return _decoded_partition(value)
    except BadEntryError as error:
        raise BadEntryError(path, error.reason) from error


# Thousands of partitions are alike: they share one value, which is written and read once.
@lru_cache(maxsize=8192)
def _encoded_partition(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, leader_epoch: int) -> bytes:
    return _encode({"replicas": replicas, "isr": isr, "leader": leader, "leader_epoch": leader_epoch})


@lru_cache(maxsize=8192)
def _decoded_partition(value: bytes) -> PartitionEntry:
    found = _decode("", value, "replicas", "isr", "leader", "leader_epoch")
    return PartitionEntry(tuple(found["replicas"]), tuple(found["isr"]), found["leader"], found["leader_epoch"])


def encode_settings(settings: Mapping[str, str]) -> bytes:
    return _encode({"settings": dict(settings)})


def decode_settings(path: str, value: bytes) -> dict[str, str]:
    return {str(key): str(text) for key, text in _decode(path, value, "settings")["settings"].items()}


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _encode(members: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode({"v": VERSION, **members}).encode()


def _decode(path: str, value: bytes, *needed: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise BadEntryError(path, f"not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("v") != VERSION:
        version = found.get("v") if isinstance(found, dict) else None
        raise BadEntryError(path, f"its form has version {version!r}; this release reads {VERSION}")
    for name in needed:
        if name not in found:
            raise BadEntryError(path, f"no member {name!r}")
    return found

"""The values of the metadata store's entries: small JSON objects, each with the version of its form in "v".

    /cluster                        {"v":1,"id":"<cluster id>"}
    /controller                     {"v":1,"id":<broker id, -1 after it stepped down>,"broker_epoch":<n>}
    /features                       {"v":1,"levels":{"<name>":<level>,...}}
    /producer-ids                   {"v":1,"next":<first id not yet handed out>}
    /node-ids                       {"v":1,"last":<the last number that was given to a broker without one>}
    /brokers/<id>                   {"v":1,"incarnation":"<uuid>","rack":null,
                                     "listeners":[{"name":..,"host":..,"port":..,"protocol":..},...],
                                     "boot_id":"..","directories":["<uuid>",..],"features":{"<name>":[<low>,<high>],..},
                                     "clean":<stopped cleanly before>,"previous_epoch":<n>}
    /broker-states/<id>             {"v":1,"epoch":<of the registration it is about>,"fenced":..,"shutting_down":..,
                                     "boot_id":"..","directories":[..],"offline_directories":["<uuid>",..]}
    /topics/<name>                  {"v":1,"id":"<uuid>","partitions":<count>}
    /topics/<name>/partitions/<n>   {"v":1,"replicas":[..],"isr":[..],"leader":<id or -1>,"leader_epoch":<n>,
                                     "partition_epoch":<n>}, and where there is something to say
                                     "adding":[..],"removing":[..],"elr":[..],"last_known_leader":<id>,
                                     "recovering":true,"directories":["<uuid>" or null,.. for each replica]
    /configs/topics/<name>          {"v":1,"settings":{"<key>":"<value>",...}}
    /configs/brokers/<id|default>, /configs/groups/<group>, /configs/client-metrics/<subscription>    likewise
    /scram-users/<user>             see scram_users
    /delegation-tokens/<id>         see delegation_tokens
    /acls, /roles, /quotas          see security_codec

A broker's epoch is the revision of its registration's last put, the controller's is the version of its entry plus one:
neither is stored. A partition without "partition_epoch" was written when its entry's version was its epoch.
Members of a later release are kept, as text, where an entry is written again; an unknown version is refused. So a later
release adds members where it can; another version of a form it writes only once a level of a feature, which every
broker has announced to support, is finalized (controller/features). "v" of /features and of /brokers/<id> stays 1 for
good: by them an earlier release knows that it must not take part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from moldau.metadata.store import WRITTEN_LATER

VERSION = 1
NOBODY = -1
NO_EPOCH = -1
NOTHING_ELSE = ""
"""The unknown members of an entry that has none."""


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
    unknown: str = NOTHING_ELSE


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """`partition_epoch` is None where it is the entry's version; `directories` has one for each replica, or none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_leader: int = NOBODY
    recovering: bool = False
    directories: tuple[UUID | None, ...] = ()
    unknown: str = NOTHING_ELSE


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    port: int
    protocol: str


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """What a broker says of itself. `previous_epoch` is the one under which it stopped, if it stopped cleanly."""

    incarnation: UUID
    listeners: tuple[Listener, ...]
    rack: str | None = None
    boot_id: str = ""
    directories: tuple[UUID, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    clean: bool = False
    previous_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class BrokerStateEntry:
    """What the controller says of the registration with this epoch; boot id and directories are that one's."""

    epoch: int
    fenced: bool
    shutting_down: bool = False
    boot_id: str = ""
    directories: tuple[UUID, ...] = ()
    offline_directories: tuple[UUID, ...] = ()
    unknown: str = NOTHING_ELSE


@dataclass(frozen=True, slots=True)
class ControllerEntry:
    id: int
    broker_epoch: int
    unknown: str = NOTHING_ELSE


def encode_cluster(cluster_id: str) -> bytes:
    return encode_members({"id": cluster_id})


def decode_cluster(path: str, value: bytes) -> str:
    return str(decode_members(path, value, "id")["id"])


def encode_controller(entry: ControllerEntry) -> bytes:
    return encode_members({"id": entry.id, "broker_epoch": entry.broker_epoch}, entry.unknown)


def decode_controller(path: str, value: bytes) -> ControllerEntry:
    found = decode_members(path, value, "id", "broker_epoch")
    return ControllerEntry(found["id"], found["broker_epoch"], unknown_members(found, _CONTROLLER))


def encode_features(levels: Mapping[str, int], unknown: str = NOTHING_ELSE) -> bytes:
    return encode_members({"levels": dict(levels)}, unknown)


def decode_features(path: str, value: bytes) -> tuple[dict[str, int], str]:
    found = decode_members(path, value, "levels")
    return {str(name): int(level) for name, level in found["levels"].items()}, unknown_members(found, _FEATURES)


def encode_producer_ids(next_id: int, unknown: str = NOTHING_ELSE) -> bytes:
    return encode_members({"next": next_id}, unknown)


def decode_producer_ids(path: str, value: bytes) -> tuple[int, str]:
    found = decode_members(path, value, "next")
    return int(found["next"]), unknown_members(found, _PRODUCER_IDS)


def encode_broker(entry: BrokerEntry) -> bytes:
    listeners = [
        {"name": item.name, "host": item.host, "port": item.port, "protocol": item.protocol} for item in entry.listeners
    ]
    return encode_members(
        {
            "incarnation": str(entry.incarnation),
            "rack": entry.rack,
            "listeners": listeners,
            "boot_id": entry.boot_id,
            "directories": _texts(entry.directories),
            "features": {name: list(levels) for name, levels in entry.features.items()},
            "clean": entry.clean,
            "previous_epoch": entry.previous_epoch,
        }
    )


def decode_broker(path: str, value: bytes) -> BrokerEntry:
    found = decode_members(path, value, "incarnation", "listeners")
    listeners = tuple(
        Listener(item["name"], item["host"], item["port"], item["protocol"]) for item in found["listeners"]
    )
    return BrokerEntry(
        UUID(found["incarnation"]),
        listeners,
        found.get("rack"),
        found.get("boot_id", ""),
        _uuids(found.get("directories", ())),
        MappingProxyType({name: (low, high) for name, (low, high) in found.get("features", {}).items()}),
        bool(found.get("clean", False)),
        int(found.get("previous_epoch", NO_EPOCH)),
    )


def encode_broker_state(entry: BrokerStateEntry) -> bytes:
    members: dict[str, Any] = {
        "epoch": entry.epoch,
        "fenced": entry.fenced,
        "shutting_down": entry.shutting_down,
        "boot_id": entry.boot_id,
        "directories": _texts(entry.directories),
    }
    if entry.offline_directories:
        members["offline_directories"] = _texts(entry.offline_directories)
    return encode_members(members, entry.unknown)


def decode_broker_state(path: str, value: bytes) -> BrokerStateEntry:
    found = decode_members(path, value, "epoch", "fenced")
    return BrokerStateEntry(
        int(found["epoch"]),
        bool(found["fenced"]),
        bool(found.get("shutting_down", False)),
        found.get("boot_id", ""),
        _uuids(found.get("directories", ())),
        _uuids(found.get("offline_directories", ())),
        unknown_members(found, _BROKER_STATE),
    )


def encode_topic(topic_id: UUID, partitions: int, unknown: str = NOTHING_ELSE) -> bytes:
    return encode_members({"id": str(topic_id), "partitions": partitions}, unknown)


def decode_topic(path: str, value: bytes) -> TopicEntry:
    found = decode_members(path, value, "id", "partitions")
    return TopicEntry(UUID(found["id"]), int(found["partitions"]), unknown_members(found, _TOPIC))


def encode_partition(replicas: Sequence[int], isr: Sequence[int], leader: int, leader_epoch: int) -> bytes:
    """The entry of a partition of which there is no more to say yet."""
    return encode_partition_entry(PartitionEntry(tuple(replicas), tuple(isr), leader, leader_epoch, 0))


# Thousands of partitions are alike: they share one value, which is written and read once.
@lru_cache(maxsize=8192)
def encode_partition_entry(entry: PartitionEntry) -> bytes:
    members: dict[str, Any] = {
        "replicas": entry.replicas,
        "isr": entry.isr,
        "leader": entry.leader,
        "leader_epoch": entry.leader_epoch,
    }
    if entry.partition_epoch is not None:
        members["partition_epoch"] = entry.partition_epoch
    for name in ("adding", "removing", "elr"):
        if getattr(entry, name):
            members[name] = getattr(entry, name)
    if entry.last_known_leader != NOBODY:
        members["last_known_leader"] = entry.last_known_leader
    if entry.recovering:
        members["recovering"] = True
    if any(entry.directories):
        members["directories"] = [None if each is None else str(each) for each in entry.directories]
    return encode_members(members, entry.unknown)


def decode_partition(path: str, value: bytes) -> PartitionEntry:
    try:
        return _decoded_partition(value)
    except BadEntryError as error:
        raise BadEntryError(path, error.reason) from error


@lru_cache(maxsize=8192)
def _decoded_partition(value: bytes) -> PartitionEntry:
    found = decode_members("", value, "replicas", "isr", "leader", "leader_epoch")
    return PartitionEntry(
        tuple(found["replicas"]),
        tuple(found["isr"]),
        found["leader"],
        found["leader_epoch"],
        found.get("partition_epoch"),
        tuple(found.get("adding", ())),
        tuple(found.get("removing", ())),
        tuple(found.get("elr", ())),
        found.get("last_known_leader", NOBODY),
        bool(found.get("recovering", False)),
        tuple(None if each is None else UUID(each) for each in found.get("directories", ())),
        unknown_members(found, _PARTITION),
    )


def encode_settings(settings: Mapping[str, str], unknown: str = NOTHING_ELSE) -> bytes:
    return encode_members({"settings": dict(settings)}, unknown)


def decode_settings(path: str, value: bytes) -> tuple[dict[str, str], str]:
    found = decode_members(path, value, "settings")
    return {str(key): str(text) for key, text in found["settings"].items()}, unknown_members(found, _SETTINGS)


_CONTROLLER = frozenset({"v", "id", "broker_epoch"})
_FEATURES = frozenset({"v", "levels"})
_PRODUCER_IDS = frozenset({"v", "next"})
_BROKER_STATE = frozenset({"v", "epoch", "fenced", "shutting_down", "boot_id", "directories", "offline_directories"})
_TOPIC = frozenset({"v", "id", "partitions"})
_PARTITION = frozenset(
    {
        "v", "replicas", "isr", "leader", "leader_epoch", "partition_epoch", "adding", "removing", "elr",
        "last_known_leader", "recovering", "directories",
    }
)  # fmt: skip
_SETTINGS = frozenset({"v", "settings"})

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode_members(members: Mapping[str, Any], unknown: str = NOTHING_ELSE) -> bytes:
    more = json.loads(unknown) if unknown else {}
    return _ENCODER.encode({"v": VERSION, **members, **more}).encode()


def unknown_members(found: Mapping[str, Any], known: frozenset[str]) -> str:
    if known.issuperset(found):
        return NOTHING_ELSE
    return _ENCODER.encode({name: value for name, value in found.items() if name not in known})


def _texts(ids: Sequence[UUID]) -> list[str]:
    return [str(each) for each in ids]


def _uuids(texts: Sequence[str]) -> tuple[UUID, ...]:
    return tuple(map(UUID, texts))


def unknown_form(path: str, version: object) -> BadEntryError:
    later = f": {WRITTEN_LATER}" if isinstance(version, int) and version > VERSION else ""
    return BadEntryError(path, f"its form has version {version!r}; this release reads {VERSION}{later}")


def decode_members(path: str, value: bytes, *needed: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise BadEntryError(path, f"not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("v") != VERSION:
        version = found.get("v") if isinstance(found, dict) else None
        raise unknown_form(path, version)
    for name in needed:
        if name not in found:
            raise BadEntryError(path, f"no member {name!r}")
    return found

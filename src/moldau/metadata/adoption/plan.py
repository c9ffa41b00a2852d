"""What is taken over from Apache Kafka and what is not (pure).

A topic is taken whole or not at all: with a partition missing, keys would go to other partitions than before. Its
replicas on other brokers end: the broker that takes over is alone.

With ZooKeeper the settings of topics are not in the log directories. A topic that was kept for ever would lose its
records to the default retention minutes after the first start, so those topics are kept for ever until somebody sets a
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.broker_checks import refuse_missing_security
from moldau.config.definition import ConfigError, Settings
from moldau.config.tables import broker_settings, client_metrics_settings, group_settings, topic_settings
from moldau.metadata import codec, paths, security_codec
from moldau.metadata.adoption.kraft_records import Partition
from moldau.metadata.adoption.kraft_state import KraftState, Resource
from moldau.metadata.adoption.survey import FoundLog, Survey
from moldau.metadata.controller.acls import WantedAcl
from moldau.metadata.controller.acls import checked as checked_acl
from moldau.metadata.controller.client_quotas import checked_entity
from moldau.metadata.controller.min_insync import settings_of_a_new_cluster
from moldau.metadata.controller.scram_users import MECHANISMS
from moldau.metadata.scram_users import encode_scram_user
from moldau.metadata.store import ABSENT, Put
from moldau.storage.folders import Mark
from moldau.types.acls import Acl
from moldau.types.credentials import ScramCredential
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from moldau.types.quotas import QuotaEntity

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
KEPT_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
INTERNAL_TOPIC_SETTINGS: Mapping[str, Mapping[str, str]] = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
}
# Where Kafka's next one is unknown: beyond whatever blocks its brokers may have been given.
SPARE_PRODUCER_IDS = 1_000_000
_LEFT = {
    Mark.DELETE: "its topic was deleted",
    Mark.FUTURE: "an unfinished copy; the partition itself is taken",
    Mark.STRAY: "Kafka had set it aside",
}


@dataclass(frozen=True, slots=True)
class TakenTopic:
    name: str
    id: UUID
    logs: tuple[FoundLog, ...]
    leader_epochs: tuple[int, ...]
    settings: Mapping[str, str]

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs)


@dataclass(frozen=True, slots=True)
class NotTaken:
    what: str
    name: str
    reason: str


@dataclass(slots=True)
class Plan:
    cluster_id: str
    node_id: int
    from_zookeeper: bool
    topics: list[TakenTopic] = field(default_factory=list)
    settings: dict[Resource, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: dict[UUID, Acl] = field(default_factory=dict)
    scram_users: dict[str, dict[str, ScramCredential]] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    not_taken: list[NotTaken] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(topic.size_bytes for topic in self.topics)

    def leave(self, what: str, name: str, reason: str) -> None:
        self.not_taken.append(NotTaken(what, name, reason))


def plan(found: Survey, new_uuid: UUID) -> Plan:
    """`new_uuid` is where ids begin for topics that have none."""
    made = Plan(found.cluster_id, found.node_id, found.state is None)
    if found.state is None:
        _plan_from_folders(made, found, new_uuid)
    else:
        _plan_from_metadata(made, found, found.state)
    for path, mark in found.leftovers:
        made.leave("folder", path, _LEFT[mark])
    made.topics.sort(key=lambda topic: topic.name)
    return made


# -- with KRaft -------------------------------------------------------------------------------------------------------


def _plan_from_metadata(made: Plan, found: Survey, state: KraftState) -> None:
    for name, topic_id in sorted(state.topics.items()):
        partitions = state.partitions[topic_id]
        logs = [found.logs.get(TopicPartition(name, index)) for index in range(len(partitions))]
        here = [log for log in logs if log is not None and log.topic_id in (None, topic_id)]
        settings = state.settings.get(Resource(TOPIC, name), {})
        reason = _missing(partitions, here, made.node_id) or _unreadable(here, settings)
        if reason:
            made.leave("topic", name, reason)
            continue
        epochs = tuple(
            max(partitions[index].leader_epoch, here[index].last_leader_epoch) for index in sorted(partitions)
        )
        kept = _known(made, f"of topic {name}", settings, topic_settings())
        made.topics.append(TakenTopic(name, topic_id, tuple(here), epochs, kept))
    for partition, log in found.logs.items():
        topic_id_known = state.topics.get(partition.topic)
        if topic_id_known is None or log.topic_id not in (None, topic_id_known):
            made.leave("folder", str(log.path), "its topic is not in the cluster")
    made.next_producer_id = state.next_producer_id
    _plan_settings(made, state)
    _plan_access(made, state)


def _missing(partitions: Mapping[int, Partition], here: list[FoundLog], node_id: int) -> str:
    present = {log.partition.partition for log in here}
    absent = [index for index in sorted(partitions) if index not in present]
    if absent:
        return f"these log directories hold no log of {_numbered(absent)}"
    behind = [
        index
        for index, partition in sorted(partitions.items())
        if node_id not in (partition.isr or partition.eligible) and node_id not in partition.eligible
    ]
    return f"other brokers may hold newer records of {_numbered(behind)}: this one was not in sync" if behind else ""


def _unreadable(here: list[FoundLog], settings: Mapping[str, str]) -> str:
    old = [log.partition.partition for log in here if log.old_format]
    if old:
        return f"{_numbered(old)} hold records in a format from before Kafka 0.11"
    if settings.get("remote.storage.enable") == "true":
        return "a part of its records lies in tiered storage"
    return ""


def _numbered(indexes: list[int]) -> str:
    shown = ", ".join(map(str, indexes[:10])) + (" and others" if len(indexes) > 10 else "")
    return f"partition{'s' if len(indexes) > 1 else ''} {shown}"


def _plan_settings(made: Plan, state: KraftState) -> None:
    own = str(made.node_id)
    for resource, settings in sorted(state.settings.items()):
        if not settings or resource.type == TOPIC:
            continue
        match resource.type:
            case 4 if resource.name in ("", own):
                shown = f"of broker {own}" if resource.name else "of all brokers"
                kept = _known(made, shown, settings, broker_settings())
                made.settings[resource] = _usable(made, shown, kept)
            case 16:
                kept = _known(made, f"of the subscription {resource.name}", settings, client_metrics_settings())
                made.settings[resource] = kept
            case 32:
                made.settings[resource] = _known(made, f"of group {resource.name}", settings, group_settings())
            case 4:
                made.leave("settings", f"of broker {resource.name}", "it is another broker")
            case _:
                made.leave("settings", f"of {resource.name}", "of a kind that is unknown here")


def _plan_access(made: Plan, state: KraftState) -> None:
    for acl_id, found in sorted(state.acls.items()):
        wanted = WantedAcl(
            found.resource, found.pattern, found.name, found.principal, found.host, found.operation, found.permission
        )
        try:
            made.acls[acl_id] = checked_acl(wanted)
        except KafkaError as error:
            made.leave("ACL", f"of {found.principal} on {found.name}", error.message or error.code.name)
    for user, credentials in sorted(state.scram_users.items()):
        made.scram_users[user] = {MECHANISMS[each]: found for each, found in credentials.items() if each in MECHANISMS}
    for entity, limits in state.quotas.items():
        try:
            made.quotas[checked_entity(entity)] = limits
        except KafkaError as error:
            made.leave("quota", " ".join(f"{kind} {name}" for kind, name in entity), error.message or error.code.name)
    if state.has_tokens:
        made.leave("delegation tokens", "all", "whoever has one makes a new one")


def _known(made: Plan, whose: str, settings: Mapping[str, str], table: Settings) -> dict[str, str]:
    kept = {}
    for name, text in sorted(settings.items()):
        setting = table.get(name)
        if setting is None:
            made.leave("setting", f"{name} {whose}", "it is unknown here")
            continue
        try:
            setting.parse(text)
        except ConfigError as error:
            made.leave("setting", f"{name} {whose}", f"its value is not allowed here: {error.allowed}")
            continue
        kept[name] = text
    return kept


def _usable(made: Plan, whose: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Of a broker's settings those that cannot keep it from starting."""
    kept: dict[str, str] = {}
    plain = BrokerConfig.load({})
    for name, text in settings.items():
        try:
            refuse_missing_security({name: text})
            plain.with_dynamic({**kept, name: text}, {})
        except BrokerConfigError as error:
            made.leave("setting", f"{name} {whose}", str(error.problems[0].allowed))
            continue
        if name in ("listeners", "listener.security.protocol.map") or broker_settings()[name].read_only:
            made.leave("setting", f"{name} {whose}", "it is set when the broker starts")
            continue
        kept[name] = text
    return kept


# -- with ZooKeeper ---------------------------------------------------------------------------------------------------


def _plan_from_folders(made: Plan, found: Survey, new_uuid: UUID) -> None:
    by_topic: dict[str, list[FoundLog]] = {}
    for partition in sorted(found.logs):
        by_topic.setdefault(partition.topic, []).append(found.logs[partition])
    for number, (name, logs) in enumerate(by_topic.items()):
        reason = _gaps(logs) or _unreadable(logs, {})
        if reason:
            made.leave("topic", name, reason)
            continue
        settings = INTERNAL_TOPIC_SETTINGS.get(name, KEPT_FOR_EVER)
        topic_id = logs[0].topic_id or UUID(int=(new_uuid.int + number) % (1 << 128))
        epochs = tuple(log.last_leader_epoch for log in logs)
        made.topics.append(TakenTopic(name, topic_id, tuple(logs), epochs, settings))
    highest = max((log.highest_producer_id for log in found.logs.values()), default=-1)
    made.next_producer_id = (highest // 1000 + 1) * 1000 + SPARE_PRODUCER_IDS
    unseen = "they lie in ZooKeeper"
    made.leave("settings", "of topics", f"{unseen}; the topics are kept for ever until retention.ms is set")
    made.leave("settings", "of brokers, users and clients, and ACLs", unseen)
    made.leave("partitions", "of other brokers", f"{unseen}: check that each topic has as many partitions as before")


def _gaps(logs: list[FoundLog]) -> str:
    indexes = [log.partition.partition for log in logs]
    absent = [index for index in range(indexes[-1] + 1) if index not in indexes]
    if absent:
        return f"these log directories hold no log of {_numbered(absent)}"
    if len({log.topic_id for log in logs}) > 1:
        return "its partitions have different topic ids"
    return ""


# -- what is written --------------------------------------------------------------------------------------------------


def entries(made: Plan) -> list[Put]:
    """What the metadata store begins with."""
    default = settings_of_a_new_cluster(BrokerConfig.load({})) | made.settings.get(Resource(BROKER, ""), {})
    puts = [
        Put(paths.CLUSTER, codec.encode_cluster(made.cluster_id), ABSENT),
        Put(paths.broker_config(None), codec.encode_settings(default), ABSENT),
        Put(paths.PRODUCER_IDS, codec.encode_producer_ids(made.next_producer_id), ABSENT),
    ]
    for resource, settings in made.settings.items():
        if settings and resource != Resource(BROKER, ""):
            puts.append(Put(_path_of(resource), codec.encode_settings(settings), ABSENT))
    for topic in made.topics:
        puts.append(Put(paths.topic(topic.name), codec.encode_topic(topic.id, len(topic.logs)), ABSENT))
        if topic.settings:
            puts.append(Put(paths.topic_config(topic.name), codec.encode_settings(topic.settings), ABSENT))
        for index, epoch in enumerate(topic.leader_epochs):
            value = codec.encode_partition([made.node_id], [made.node_id], made.node_id, epoch)
            puts.append(Put(paths.partition(topic.name, index), value, ABSENT))
    puts += [Put(paths.acl(acl_id), security_codec.encode_acl(acl), ABSENT) for acl_id, acl in made.acls.items()]
    puts += [
        Put(paths.scram_user(user), encode_scram_user(credentials), ABSENT)
        for user, credentials in made.scram_users.items()
        if credentials
    ]
    puts += [
        Put(paths.quotas(entity), security_codec.encode_quotas(entity, limits), ABSENT)
        for entity, limits in made.quotas.items()
    ]
    return puts


def _path_of(resource: Resource) -> str:
    match resource.type:
        case 4:
            return paths.broker_config(int(resource.name))
        case 16:
            return paths.client_metrics_config(resource.name)
        case _:
            return paths.group_config(resource.name)

"""Which settings stand in for which others, and who wins."""

from collections.abc import Mapping, MutableMapping

from moldau.config.definition import Value

# A topic's setting and the broker setting that is its default.
TOPIC_TO_BROKER = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "cleanup.policy": "log.cleanup.policy",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "min.insync.replicas": "min.insync.replicas",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "preallocate": "log.preallocate",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}

# A group's setting and the broker setting that is its default; those that are not here have defaults of their own.
GROUP_TO_BROKER = {
    name: f"group.{name}"
    for name in (
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
        "share.session.timeout.ms",
        "share.heartbeat.interval.ms",
        "share.record.lock.duration.ms",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.assignment.interval.ms",
        "streams.session.timeout.ms",
        "streams.heartbeat.interval.ms",
        "streams.num.standby.replicas",
        "streams.initial.rebalance.delay.ms",
        "streams.assignment.interval.ms",
    )
}

# One quantity under several names, the one that wins first; with the milliseconds in a unit of each.
_FAMILIES: tuple[Mapping[str, int], ...] = (
    {"log.roll.ms": 1, "log.roll.hours": 3_600_000},
    {"log.roll.jitter.ms": 1, "log.roll.jitter.hours": 3_600_000},
    {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
    {"log.flush.interval.ms": 1, "log.flush.scheduler.interval.ms": 1},
)
# The scheduler's interval is a setting of its own as well: only the first name of that family leads to the others.
_FAMILY_OF = {name: family for family in _FAMILIES for name in family if name != "log.flush.scheduler.interval.ms"}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names under which this quantity can be set, the strongest first; at least the name itself."""
    if name.startswith("listener.name."):
        _, _, base = name.removeprefix("listener.name.").partition(".")
        if base:
            return (name, base)
    return tuple(_FAMILY_OF.get(name, (name,)))


def topic_synonyms(topic_name: str) -> tuple[str, ...]:
    """The broker settings that can give a topic setting its value, the strongest first."""
    broker_name = TOPIC_TO_BROKER.get(topic_name)
    return () if broker_name is None else tuple(_FAMILY_OF.get(broker_name, (broker_name,)))


def milliseconds_in(name: str, text: str) -> str:
    """What is written under a name that counts in hours or minutes, in milliseconds; any other text as it is."""
    unit = next((family[name] for family in _FAMILIES if name in family), 1)
    return text if unit == 1 else str(int(text) * unit)


def override(settings: MutableMapping[str, str], changes: Mapping[str, str]) -> None:
    """Lays changes over settings: a changed name also displaces its weaker and stronger synonyms."""
    for name, value in changes.items():
        for synonym in _FAMILY_OF.get(name, ()):
            settings.pop(synonym, None)
        settings[name] = value


def milliseconds(values: Mapping[str, Value], name: str) -> int:
    """The quantity that `name` and its synonyms mean, in milliseconds: the first of them that has a value."""
    for synonym, unit in _FAMILY_OF[name].items():
        value = values[synonym]
        if isinstance(value, int):
            return value * unit
    raise AssertionError(f"no member of the family of {name} has a default")

"""What governs one topic's log: the topic's own settings over the broker's."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError
from moldau.config.javatext import in_hash_order
from moldau.config.tables import topic_settings


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Each attribute is the setting of that name, with dots for underscores."""

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """The settings of a topic that has these of its own. Names that no topic has are passed over."""
        values: dict[str, Any] = {name: broker.topic_defaults[name] for name in _settings_of_attributes().values()}
        settings = topic_settings()
        for name, text in overrides.items():
            if name in settings:
                values[name] = settings[name].parse(text)
        if values.get("internal.segment.bytes") is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        values["cleanup.policy"] = frozenset(values["cleanup.policy"])
        return cls(**{attribute: values[name] for attribute, name in _settings_of_attributes().items()})

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def max_segment_ms(self) -> int:
        """The age at which the active segment is rolled: compaction may ask for it earlier than `segment.ms`."""
        if self.compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def compression_level(self) -> int | None:
        """The level for `compression.type`; None where the codec has none or the level is the codec's own default."""
        levels = {
            "gzip": None if self.compression_gzip_level == -1 else self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)


@cache
def _settings_of_attributes() -> Mapping[str, str]:
    return {attribute: attribute.replace("_", ".") for attribute in TopicConfig.__slots__}


def validate_overrides(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Refuses settings that a topic must not have, with the words and in the order of Apache Kafka's controller."""
    null_names = [name for name, text in overrides.items() if text is None]
    if null_names:
        message = f"Null value not supported for topic configs: {','.join(null_names)}"
        raise ConfigError(null_names[0], None, "a value", message)
    settings = topic_settings()
    for name in in_hash_order(overrides):
        if name not in settings:
            raise ConfigError(
                name, overrides[name], "the name of a topic setting", f"Unknown topic config name: {name}"
            )
    values = dict(broker.topic_defaults)
    for name, setting in settings.items():
        if name in overrides:
            values[name] = setting.parse(overrides[name])
    _check_compaction_lags(values)
    if values["remote.storage.enable"]:
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise ConfigError("remote.storage.enable", "true", "false", message)


def _check_compaction_lags(values: Mapping[str, Any]) -> None:
    lowest, highest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if lowest > highest:
        allowed = f"at most max.compaction.lag.ms ({highest})"
        message = f"conflict topic config setting min.compaction.lag.ms ({lowest}) > max.compaction.lag.ms ({highest})"
        raise ConfigError("min.compaction.lag.ms", str(lowest), allowed, message)

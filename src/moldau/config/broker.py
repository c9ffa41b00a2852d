"""What governs one broker: its properties, the defaults beneath them and the dynamic changes above them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import Any, Self

from moldau.config import broker_checks
from moldau.config.broker_checks import BrokerConfigError
from moldau.config.definition import ConfigError, Setting, Value
from moldau.config.listeners import Listener
from moldau.config.synonyms import TOPIC_TO_BROKER, milliseconds, override
from moldau.config.tables import broker_settings, topic_settings

__all__ = ["BrokerConfig", "BrokerConfigError", "default_text"]

# Apache Kafka insists on these; a broker that starts without any properties needs something.
_OWN_DEFAULTS = {
    "node.id": "1",
    "broker.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "",
}
# Kafka's default of 3 would leave a single node without coordinators: it could never create their topics.
_SINGLE_NODE_DEFAULTS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the values come from, each as it was written."""

    static: Mapping[str, str]
    cluster_default: Mapping[str, str]
    per_broker: Mapping[str, str]
    single_node: bool


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Each attribute is the setting of that name, with dots for underscores; what is more than that stands first.

    Times that have several names in Kafka (hours, minutes, ms) are in `topic_defaults` once, in milliseconds.
    """

    origins: Origins
    values: Mapping[str, Value]  # every setting by its name, parsed
    topic_defaults: Mapping[str, Value]  # every topic setting by its name: what a topic without settings has
    warnings: tuple[str, ...]  # one line per setting that was given and is unknown or without effect

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str
    log_dirs: tuple[str, ...]
    max_connections_per_ip_overrides: Mapping[str, int]

    auto_create_topics_enable: bool
    broker_rack: str | None
    connections_max_idle_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    min_insync_replicas: int
    node_id: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    replica_high_watermark_checkpoint_interval_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int

    @classmethod
    def load(cls, properties: Mapping[str, str], *, single_node: bool = True) -> Self:
        """The configuration that these properties mean; raises BrokerConfigError with every problem found.

        `single_node`: there is one broker and the metadata store is its own, so internal topics default to one replica.
        """
        static = dict(properties)
        if "node.id" in static:
            static.setdefault("broker.id", static["node.id"])
        elif "broker.id" in static:
            static["node.id"] = static["broker.id"]
        return cls._build(Origins(MappingProxyType(static), _NOTHING, _NOTHING, single_node))

    def with_dynamic(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> Self:
        """The same broker under these dynamic settings instead of its present ones; the broker's own are stronger."""
        origins = Origins(
            self.origins.static,
            MappingProxyType(dict(cluster_default)),
            MappingProxyType(dict(per_broker)),
            self.origins.single_node,
        )
        return self._build(origins)

    @classmethod
    def _build(cls, origins: Origins) -> Self:
        effective = dict(origins.static)
        override(effective, origins.cluster_default)
        override(effective, origins.per_broker)
        values, problems = _parsed(effective, origins.single_node)
        if problems:
            raise BrokerConfigError(problems)
        checked = broker_checks.check(values, effective)
        attributes: dict[str, Any] = {name: values[setting] for name, setting in _plain_attributes().items()}
        return cls(
            origins=origins,
            values=MappingProxyType(values),
            topic_defaults=MappingProxyType(_topic_defaults(values)),
            warnings=broker_checks.warnings(origins.static),
            listeners=checked.endpoints.listeners,
            advertised_listeners=checked.endpoints.advertised,
            inter_broker_listener_name=checked.endpoints.inter_broker_name,
            log_dirs=checked.log_dirs,
            max_connections_per_ip_overrides=MappingProxyType(checked.max_connections_per_ip_overrides),
            **attributes,
        )


_NOTHING: Mapping[str, str] = MappingProxyType({})
_COMPUTED = {
    "listeners",
    "advertised_listeners",
    "inter_broker_listener_name",
    "log_dirs",
    "max_connections_per_ip_overrides",
}


@cache
def _plain_attributes() -> Mapping[str, str]:
    names = {field.name: field.name.replace("_", ".") for field in fields(BrokerConfig)}
    return {name: setting for name, setting in names.items() if setting in broker_settings() and name not in _COMPUTED}


def default_text(setting: Setting, *, single_node: bool) -> str | None:
    """The default of a broker setting here, which for a few is not Kafka's."""
    if setting.name in _OWN_DEFAULTS:
        return _OWN_DEFAULTS[setting.name]
    if single_node and setting.name in _SINGLE_NODE_DEFAULTS:
        return _SINGLE_NODE_DEFAULTS[setting.name]
    return setting.default


def _parsed(effective: Mapping[str, str], single_node: bool) -> tuple[dict[str, Value], list[ConfigError]]:
    values = dict(_default_values(single_node))
    problems = []
    settings = broker_settings()
    for name, text in effective.items():
        setting = settings.get(name)
        if setting is None:
            continue
        try:
            values[name] = setting.parse(text)
        except ConfigError as problem:
            problems.append(problem)
    return values, problems


@cache
def _default_values(single_node: bool) -> Mapping[str, Value]:
    defaults = {}
    for name, setting in broker_settings().items():
        text = default_text(setting, single_node=single_node)
        defaults[name] = setting.default_value if text == setting.default else setting.parse_unchecked(text)
    return defaults


def _topic_defaults(values: Mapping[str, Value]) -> dict[str, Value]:
    defaults = {name: setting.default_value for name, setting in topic_settings().items()}
    for topic_name, broker_name in TOPIC_TO_BROKER.items():
        defaults[topic_name] = values[broker_name]
    for topic_name in ("segment.ms", "segment.jitter.ms", "flush.ms", "retention.ms"):
        defaults[topic_name] = milliseconds(values, TOPIC_TO_BROKER[topic_name])
    # Any negative retention means for ever.
    defaults["retention.ms"] = max(-1, milliseconds(values, "log.retention.ms"))
    return defaults

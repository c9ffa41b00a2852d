"""What governs one broker: its properties, the defaults beneath them and the dynamic changes above them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Self

from moldau.config import broker_checks
from moldau.config.broker_checks import BrokerConfigError
from moldau.config.connection_limits import ConnectionLimits
from moldau.config.definition import ConfigError, Value
from moldau.config.listener_security import ListenerSecurity, PeerLogin, exposures
from moldau.config.listeners import Listener
from moldau.config.metrics_listeners import HttpAddress
from moldau.config.synonyms import TOPIC_TO_BROKER, milliseconds, override
from moldau.config.tables import broker_settings, topic_settings
from moldau.config.zookeeper import ZooKeeperSettings

__all__ = ["BrokerConfig", "BrokerConfigError"]

# As broker.id: a number is wanted.
_GENERATED = "-1"
# Apache Kafka insists on these. Who leaves them out gets them as if they had been written.
_REQUIRED = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
# Kafka's default of 3 would leave a single node without coordinators: it could never create their topics.
_SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the values come from, each as it was written."""

    static: Mapping[str, str]
    cluster_default: Mapping[str, str]
    per_broker: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Each attribute is the setting of that name, with dots for underscores; what is more than that stands first.

    Times that have several names in Kafka (hours, minutes, ms) are in `topic_defaults` once, in milliseconds.
    """

    origins: Origins
    values: Mapping[str, Value]  # every setting by its name, parsed
    topic_defaults: Mapping[str, Value]  # every topic setting by its name: what a topic without settings has
    warnings: tuple[str, ...]  # one line for each setting that is unknown, without effect or dangerous

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str
    security: Mapping[str, ListenerSecurity]  # by listener name
    peer_login: PeerLogin | None  # as whom this broker logs in at others; None where they ask for no login
    log_dirs: tuple[str, ...]
    max_connections_per_ip_overrides: Mapping[str, int]
    connection_limits: Mapping[str, ConnectionLimits]  # by listener name
    metrics_listeners: tuple[HttpAddress, ...]
    zookeeper: ZooKeeperSettings | None  # None: the metadata is this broker's own

    add_partitions_to_txn_retry_backoff_max_ms: int
    add_partitions_to_txn_retry_backoff_ms: int
    allow_everyone_if_no_acl_found: bool
    authorizer_class_name: str
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    broker_id_generation_enable: bool
    broker_rack: str | None
    connection_failed_authentication_delay_ms: int
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    default_replication_factor: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delegation_token_secret_key: str | None
    delete_topic_enable: bool
    fetch_max_bytes: int
    follower_replication_throttled_rate: int | None
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    leader_imbalance_check_interval_seconds: int
    leader_replication_throttled_rate: int | None
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    min_insync_replicas: int
    node_id: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    reserved_broker_max_id: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    super_users: str
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    moldau_boot_id_trust_enable: bool
    moldau_kafka_view_enable: bool
    moldau_metrics_partitions_enable: bool
    moldau_peer_links_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    wants_number: bool = False  # a member of a cluster to which nobody gave a number: `numbered` does

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> Self:
        """The configuration that these properties mean; raises BrokerConfigError with every problem found.

        Without `zookeeper.connect` there is one broker, whose metadata store is its own: internal topics default to one
        replica.
        """
        static = dict(properties)
        if static.get("broker.id") == _GENERATED:
            del static["broker.id"]
        is_numbered = "node.id" in static or "broker.id" in static
        if "node.id" not in static and "broker.id" in static:
            static["node.id"] = static["broker.id"]
        static = _REQUIRED | ({} if static.get("zookeeper.connect") else _SINGLE_NODE) | static
        static.setdefault("broker.id", static["node.id"])
        origins = Origins(MappingProxyType(static), _NOTHING, _NOTHING)
        built = cls._build(origins, broker_checks.warnings(properties))
        wants_number = not is_numbered and built.zookeeper is not None
        exposed = exposures(built.listeners, built.security)
        return replace(built, warnings=(*built.warnings, *exposed), wants_number=wants_number)

    def numbered(self, node_id: int) -> Self:
        """The same broker with a number that was found or made for it."""
        number = {"node.id": str(node_id), "broker.id": str(node_id)}
        return replace(self.load({**self.origins.static, **number}), warnings=self.warnings)

    def with_dynamic(self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> Self:
        """The same broker under these dynamic settings instead of its present ones; the broker's own are stronger."""
        dynamic = MappingProxyType(dict(cluster_default)), MappingProxyType(dict(per_broker))
        return self._build(Origins(self.origins.static, *dynamic), self.warnings)

    @classmethod
    def _build(cls, origins: Origins, warnings: tuple[str, ...]) -> Self:
        effective = dict(origins.static)
        override(effective, origins.cluster_default)
        override(effective, origins.per_broker)
        values, problems = _parsed(effective)
        if problems:
            raise BrokerConfigError(problems)
        checked = broker_checks.check(values, effective, dynamic=bool(origins.cluster_default or origins.per_broker))
        attributes: dict[str, Any] = {name: values[setting] for name, setting in _plain_attributes().items()}
        return cls(
            origins=origins,
            values=MappingProxyType(values),
            topic_defaults=MappingProxyType(_topic_defaults(values)),
            warnings=warnings,
            listeners=checked.endpoints.listeners,
            advertised_listeners=checked.endpoints.advertised,
            inter_broker_listener_name=checked.endpoints.inter_broker_name,
            security=MappingProxyType(checked.security),
            peer_login=checked.peer_login,
            log_dirs=checked.log_dirs,
            metrics_listeners=checked.metrics_listeners,
            zookeeper=checked.zookeeper,
            max_connections_per_ip_overrides=MappingProxyType(checked.max_connections_per_ip_overrides),
            connection_limits=MappingProxyType(checked.connection_limits),
            **attributes,
        )


_NOTHING: Mapping[str, str] = MappingProxyType({})
_COMPUTED = {
    "listeners",
    "advertised_listeners",
    "inter_broker_listener_name",
    "log_dirs",
    "max_connections_per_ip_overrides",
    "metrics_listeners",
}


@cache
def _plain_attributes() -> Mapping[str, str]:
    names = {field.name: field.name.replace("_", ".") for field in fields(BrokerConfig)}
    return {name: setting for name, setting in names.items() if setting in broker_settings() and name not in _COMPUTED}


def _parsed(effective: Mapping[str, str]) -> tuple[dict[str, Value], list[ConfigError]]:
    values = dict(_default_values())
    problems = []
    for name, setting in broker_settings().items():
        if name in effective:
            try:
                values[name] = setting.parse(effective[name])
            except ConfigError as problem:
                problems.append(problem)
    return values, problems


@cache
def _default_values() -> Mapping[str, Value]:
    return {name: setting.default_value for name, setting in broker_settings().items()}


def _topic_defaults(values: Mapping[str, Value]) -> dict[str, Value]:
    defaults = {name: setting.default_value for name, setting in topic_settings().items()}
    for topic_name, broker_name in TOPIC_TO_BROKER.items():
        defaults[topic_name] = values[broker_name]
    for topic_name in ("segment.ms", "segment.jitter.ms", "flush.ms", "retention.ms"):
        defaults[topic_name] = milliseconds(values, TOPIC_TO_BROKER[topic_name])
    # Any negative retention means for ever.
    defaults["retention.ms"] = max(-1, milliseconds(values, "log.retention.ms"))
    return defaults

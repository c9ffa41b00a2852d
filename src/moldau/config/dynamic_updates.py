"""Whether dynamic changes of a broker's settings are accepted, in the words of Apache Kafka's broker."""

from collections.abc import Iterable, Mapping

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.definition import ConfigError, Update
from moldau.config.javatext import in_hash_order
from moldau.config.synonyms import broker_synonyms
from moldau.config.tables import broker_settings

# Only one listener's key material can change while the broker runs.
_PER_LISTENER = {
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
# Apache Kafka opens and closes sockets while it runs; this broker binds them at its start.
_BOUND_AT_START = ("listeners", "listener.security.protocol.map")
_CLUSTER_LEVEL_OF_LISTENERS = {"max.connections", "max.connection.creation.rate", "num.network.threads"}
_THREADS = ("num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads")


def apply_updates(current: BrokerConfig, updated: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
    """The configuration once `updated` is all dynamic settings of this broker, or all that brokers have by default.

    Raises ConfigError; Kafka answers INVALID_REQUEST with its words.
    """
    settings = broker_settings()
    read_only = [name for name in updated if name in settings and settings[name].read_only]
    _refuse(read_only, "Cannot update these configs dynamically")
    bare = [name for name in updated if name in _PER_LISTENER]
    _refuse(bare, "These security configs can be dynamically updated only per-listener using the listener prefix")
    base_values = {
        broker_synonyms(name)[-1] if name.startswith("listener.name.") else name: updated[name] for name in updated
    }
    for name, setting in settings.items():
        if name in base_values:
            setting.parse(base_values[name])
    if not per_broker:
        single = [name for name in updated if _of_one_broker(name)]
        _refuse(single, "Cannot update these configs at default cluster level, broker id must be specified")
    origins = current.origins
    bound = [name for name in _BOUND_AT_START if name in updated and updated[name] != origins.static.get(name)]
    _refuse(bound, "Cannot update these configs dynamically")
    layers = (origins.cluster_default, updated) if per_broker else (updated, origins.per_broker)
    try:
        changed = current.with_dynamic(*layers)
    except BrokerConfigError as error:
        raise error.problems[0] from None
    _check_threads(current, changed)
    return changed


def _refuse(names: Iterable[str], message: str) -> None:
    ordered = in_hash_order(names)
    if ordered:
        raise ConfigError(ordered[0], None, message, f"{message}: [{', '.join(ordered)}]")


def _of_one_broker(name: str) -> bool:
    setting = broker_settings().get(name)
    if setting is not None:
        return setting.update is Update.PER_BROKER
    return name.startswith("listener.name.") and broker_synonyms(name)[-1] not in _CLUSTER_LEVEL_OF_LISTENERS


def _check_threads(current: BrokerConfig, changed: BrokerConfig) -> None:
    """Kafka changes its thread pools in small steps only, and says so."""
    for name in ("log.cleaner.threads", *_THREADS):
        before, after = current.values[name], changed.values[name]
        if not isinstance(before, int) or not isinstance(after, int) or before == after:
            continue
        reason = ""
        if name == "log.cleaner.threads":
            if after < before // 2:
                reason = f"Log cleaner threads cannot be reduced to less than half the current value {before}"
            elif after > before * 2:
                reason = f"Log cleaner threads cannot be increased to more than double the current value {before}"
        elif after < before // 2:
            reason = f"value should be at least half the current value {before}"
        elif after > before * 2:
            reason = f"value should not be greater than double the current value {before}"
        if reason and name != "log.cleaner.threads":
            reason = f"Dynamic thread count update validation failed for {name}={after}, {reason}"
        if reason:
            wrapped = f"org.apache.kafka.common.config.ConfigException: {reason}"
            message = f"Invalid value {wrapped} for configuration Invalid dynamic configuration"
            raise ConfigError(name, str(after), reason, message)

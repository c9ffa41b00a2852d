"""Checks of a broker's properties against each other, and the parts that several settings make together."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from moldau.config.connection_limits import ConnectionLimits, connection_limits
from moldau.config.definition import ConfigError, Setting, text_of
from moldau.config.listener_security import ListenerSecurity, PeerLogin, base_name, listener_security, peer_login
from moldau.config.listeners import Endpoints, resolve
from moldau.config.metrics_listeners import HttpAddress, metrics_listeners
from moldau.config.oauth import HANDLER_CLASS, SIGNED_HANDLERS, UNSIGNED_HANDLER
from moldau.config.synonyms import broker_synonyms, milliseconds
from moldau.config.tables import broker_settings
from moldau.config.zookeeper import ZooKeeperSettings, zookeeper_settings
from moldau.types.addresses import canonical, is_address

_Result = TypeVar("_Result")
_MEBIBYTE = 1 << 20
# none, gzip, snappy, lz4, zstd
_CODECS = range(5)
_HOST_NAME = re.compile(r"[0-9a-zA-Z_]([0-9a-zA-Z_.-]*[0-9a-zA-Z_.])?", re.ASCII)


class BrokerConfigError(ValueError):
    """The properties cannot be used; one line for each reason."""

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        super().__init__("\n".join(map(_line, problems)))
        self.problems = tuple(problems)


def _line(problem: ConfigError) -> str:
    shown = "null" if problem.value is None else problem.value
    text = f"Invalid value {shown} for configuration {problem.key}: {problem.allowed}"
    setting = broker_settings().get(problem.key)
    return f"{text} (allowed: {setting.allowed()})" if setting is not None and setting.allowed() else text


@dataclass(frozen=True, slots=True)
class Checked:
    endpoints: Endpoints
    security: dict[str, ListenerSecurity]
    peer_login: PeerLogin | None
    zookeeper: ZooKeeperSettings | None
    metrics_listeners: tuple[HttpAddress, ...]
    log_dirs: tuple[str, ...]
    max_connections_per_ip_overrides: dict[str, int]
    connection_limits: dict[str, ConnectionLimits]


def check(values: Mapping[str, Any], written: Mapping[str, str], *, dynamic: bool) -> Checked:
    """What the settings mean together; raises BrokerConfigError with everything in which they disagree."""
    problems: list[ConfigError] = []
    endpoints = _attempt(problems, lambda: resolve(values, written))
    security = limits = None
    if endpoints is not None:
        security = _attempt(problems, lambda: listener_security(values, written, endpoints.listeners))
        limits = _attempt(problems, lambda: connection_limits(values, written, endpoints.listeners))
    login = None
    # One broker alone logs in nowhere.
    if endpoints is not None and security is not None and values["zookeeper.connect"]:
        between = security[endpoints.inter_broker_name]
        login = _attempt(problems, lambda: peer_login(values, written, between))
    zookeeper = _attempt(problems, lambda: zookeeper_settings(values))
    metrics = _attempt(problems, lambda: metrics_listeners(values["metrics.listeners"]))
    overrides = _attempt(problems, lambda: _connection_overrides(values["max.connections.per.ip.overrides"]))
    # Kafka lets dynamic settings disagree about these; creating topics fails then, with the same words.
    for rule in _RULES if dynamic else (*_RULES, _check_compaction_lags):
        try:
            rule(values)
        except ConfigError as problem:
            problems.append(problem)
    if problems or endpoints is None or security is None or overrides is None or metrics is None or limits is None:
        raise BrokerConfigError(problems)
    directories = values["log.dirs"] or values["log.dir"]
    return Checked(endpoints, security, login, zookeeper, metrics, directories, overrides, limits)


def _attempt(problems: list[ConfigError], step: Callable[[], _Result]) -> _Result | None:
    try:
        return step()
    except ConfigError as problem:
        problems.append(problem)
        return None


def _connection_overrides(text: str) -> dict[str, int]:
    key = "max.connections.per.ip.overrides"
    overrides = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        address, colon, number = pair.rpartition(":")
        if not colon or not re.fullmatch(r"\d+", number.strip(), re.ASCII):
            raise ConfigError(key, text, "Expected a comma separated list of address:number")
        host = address.strip()
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not is_address(bare) and not _HOST_NAME.fullmatch(host):
            message = f"max.connections.per.ip.overrides contains invalid addresses : {host}"
            raise ConfigError(key, text, "IP addresses and host names", message)
        overrides[canonical(bare)] = int(number)
    return overrides


def _require(fulfilled: bool, key: str, values: Mapping[str, Any], message: str) -> None:
    if not fulfilled:
        raise ConfigError(key, text_of(values[key]), message, f"requirement failed: {message}")


def _check_ids(values: Mapping[str, Any]) -> None:
    if values["node.id"] != values["broker.id"]:
        message = "You must set `node.id` to the same value as `broker.id`."
        raise ConfigError("node.id", str(values["node.id"]), message, message)


def _check_roll(values: Mapping[str, Any]) -> None:
    message = "log.roll.ms must be greater than or equal to 1"
    _require(milliseconds(values, "log.roll.ms") >= 1, "log.roll.ms", values, message)


def _check_jitter(values: Mapping[str, Any]) -> None:
    message = "log.roll.jitter.ms must be greater than or equal to 0"
    _require(milliseconds(values, "log.roll.jitter.ms") >= 0, "log.roll.jitter.ms", values, message)


def _check_retention(values: Mapping[str, Any]) -> None:
    message = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    _require(milliseconds(values, "log.retention.ms") != 0, "log.retention.ms", values, message)


def _check_cleaner(values: Mapping[str, Any]) -> None:
    threads, buffer = values["log.cleaner.threads"], values["log.cleaner.dedupe.buffer.size"]
    _require(threads > 0, "log.cleaner.threads", values, "log.cleaner.threads must be at least 1")
    message = "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    _require(buffer // threads > _MEBIBYTE, "log.cleaner.dedupe.buffer.size", values, message)


def _check_compaction_lags(values: Mapping[str, Any]) -> None:
    lowest, highest = values["log.cleaner.min.compaction.lag.ms"], values["log.cleaner.max.compaction.lag.ms"]
    message = f"conflict topic config setting min.compaction.lag.ms ({lowest}) > max.compaction.lag.ms ({highest})"
    _require(lowest <= highest, "log.cleaner.min.compaction.lag.ms", values, message)


def _check_queue(values: Mapping[str, Any]) -> None:
    queued, largest = values["queued.max.request.bytes"], values["socket.request.max.bytes"]
    message = "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    _require(queued <= 0 or queued >= largest, "queued.max.request.bytes", values, message)


def _check_connections(values: Mapping[str, Any]) -> None:
    fulfilled = values["max.connections.per.ip"] != 0 or bool(values["max.connections.per.ip.overrides"])
    message = "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    _require(fulfilled, "max.connections.per.ip", values, message)


def _check_idle(values: Mapping[str, Any]) -> None:
    delay, idle = values["connection.failed.authentication.delay.ms"], values["connections.max.idle.ms"]
    message = (
        f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms={idle}"
        " to prevent failed authentication responses from timing out"
    )
    _require(idle < 0 or delay < idle, "connections.max.idle.ms", values, message)


def _check_cordoned(values: Mapping[str, Any]) -> None:
    key = "cordoned.log.dirs"
    cordoned = values[key] or ()
    if "*" in cordoned:
        message = "When cordoned.log.dirs is set to *, it must not contain other values"
        _require(len(cordoned) == 1, key, values, message)
        return
    strangers = [directory for directory in cordoned if directory not in (values["log.dirs"] or values["log.dir"])]
    missing = f"Missing entries : {', '.join(strangers)}"
    message = f"All entries in cordoned.log.dirs must be present in log.dirs or log.dir. {missing}"
    _require(not strangers, key, values, message)


def _check_offsets_codec(values: Mapping[str, Any]) -> None:
    codec = values["offsets.topic.compression.codec"]
    _require(codec in _CODECS, "offsets.topic.compression.codec", values, f"Unknown compression type id: {codec}")


AUTHORIZERS = frozenset(
    {
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    }
)
"""The class of Kafka 4, and those of the years before, whose rules are the same."""


def _check_authorizer(values: Mapping[str, Any]) -> None:
    name = values["authorizer.class.name"]
    known = ", ".join(sorted(AUTHORIZERS))
    _require(name == "" or name in AUTHORIZERS, "authorizer.class.name", values, f"Known are: {known}")


_RULES = (
    _check_ids,
    _check_roll,
    _check_jitter,
    _check_retention,
    _check_cleaner,
    _check_cordoned,
    _check_queue,
    _check_connections,
    _check_idle,
    _check_offsets_codec,
    _check_authorizer,
)


_SECURITY = re.compile(
    r"(ssl|sasl|delegation\.token)\..*|principal\.builder\.class|security\.providers"
    r"|zookeeper\.(ssl\..*|set\.acl|clientCnxnSocket)"
)


def refuse_missing_security(written: Mapping[str, str]) -> None:
    """Raises BrokerConfigError if these properties ask for protection that this broker does not give.

    Going on without it would leave open to everybody what was to be locked.
    """
    problems = []
    for name, text in written.items():
        setting = _setting_of(name)
        if (
            setting is None
            or (setting.honoured and not _is_unknown_class(setting, text))
            or not _SECURITY.fullmatch(setting.name)
        ):
            continue
        if text.strip() not in (setting.default or "", ""):
            shown = "[hidden]" if setting.sensitive else text
            problems.append(ConfigError(name, shown, "not supported yet; leave it out to run without this protection"))
    if problems:
        raise BrokerConfigError(problems)


def is_secret(name: str) -> bool:
    """Whether a setting of this name is never shown."""
    setting = _setting_of(name)
    return setting is not None and setting.sensitive


def _is_unknown_class(setting: Setting, text: str) -> bool:
    """A class of somebody's own would decide who gets in."""
    return setting.name == HANDLER_CLASS and text.strip() not in {*SIGNED_HANDLERS, UNSIGNED_HANDLER}


def _setting_of(name: str) -> Setting | None:
    settings = broker_settings()
    base = base_name(name)
    names = broker_synonyms(name) if base is None else (name, base)
    return next((settings[synonym] for synonym in names if synonym in settings), None)


def warnings(written: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each property that is unknown or has no effect."""
    lines = []
    for name in written:
        setting = _setting_of(name)
        if setting is None:
            lines.append(f"Unknown configuration {name} is ignored.{_nearest(name)}")
        elif not setting.honoured or (name not in broker_settings() and not is_of_a_listener(setting)):
            lines.append(f"Configuration {name} is accepted but has no effect on this broker.")
    return tuple(lines)


_OF_A_LISTENER = {"connections.max.reauth.ms", "max.connections", "max.connection.creation.rate"}


def is_of_a_listener(setting: Setting) -> bool:
    """Whether one listener may have a value of its own."""
    return setting.name.startswith(("ssl.", "sasl.")) or setting.name in _OF_A_LISTENER


def _nearest(name: str) -> str:
    import difflib  # only whoever mistypes waits for it

    found = difflib.get_close_matches(name, broker_settings(), 1, 0.8)
    return f" Did you mean {found[0]}?" if found else ""

"""Where a broker listens and what it tells clients about that: `listeners`, `advertised.listeners`, their protocols."""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.config.definition import ConfigError

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_EVERY_INTERFACE = ("", "0.0.0.0", "::")

_LISTENERS = "listeners"
_ADVERTISED = "advertised.listeners"
_PROTOCOL_MAP = "listener.security.protocol.map"
_INTER_BROKER = "inter.broker.listener.name"
_INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint. An empty host means every interface, and port 0 one that the system picks."""

    name: str
    security_protocol: str
    host: str
    port: int

    @property
    def is_on_every_interface(self) -> bool:
        return self.host in _EVERY_INTERFACE

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoints:
    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str


def resolve(values: Mapping[str, Any], written: Mapping[str, str]) -> Endpoints:
    """The endpoints that the settings mean together; `written` tells a value that was set from a default.

    Controllers are not separate here: listeners that `controller.listener.names` names are left out.
    """
    controllers = {name.upper() for name in values["controller.listener.names"]}
    protocols = protocol_map(values[_PROTOCOL_MAP])
    if _PROTOCOL_MAP not in written:
        protocols = dict.fromkeys(controllers, "PLAINTEXT") | protocols
    opened = parse_listeners(_LISTENERS, values[_LISTENERS], protocols, distinct_ports=True)
    listeners = tuple(listener for listener in opened if listener.name not in controllers)
    if not listeners:
        allowed = "at least one listener that controller.listener.names does not name"
        raise ConfigError(_LISTENERS, ",".join(values[_LISTENERS]), allowed)
    advertised = listeners
    if values[_ADVERTISED] is None:
        _check_can_be_told(listeners)
    else:
        told = parse_listeners(_ADVERTISED, values[_ADVERTISED], protocols, distinct_ports=False)
        advertised = tuple(listener for listener in told if listener.name not in controllers)
    _check_advertised(listeners, advertised)
    return Endpoints(listeners, advertised, _inter_broker_name(values, written, protocols, advertised))


def protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map` by listener name."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.rpartition(":")
        if not colon:
            raise ConfigError(_PROTOCOL_MAP, text, "Expected a comma separated list of NAME:PROTOCOL")
        if protocol.strip().upper() not in _SECURITY_PROTOCOLS:
            message = f"Invalid security protocol `{protocol.strip()}` defined in {_PROTOCOL_MAP}"
            raise ConfigError(_PROTOCOL_MAP, text, f"one of {', '.join(_SECURITY_PROTOCOLS)}", message)
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(
    key: str, entries: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Listener, ...]:
    """The endpoints that a list like `PLAINTEXT://host:9092,INTERNAL://:9093` names."""
    listeners = tuple(_listener(key, entry, protocols) for entry in entries)
    if len({listener.name for listener in listeners}) != len(listeners):
        raise ConfigError(key, ",".join(entries), "Each listener must have a different name")
    if distinct_ports:
        _check_ports(key, listeners)
    return listeners


def _listener(key: str, entry: str, protocols: Mapping[str, str]) -> Listener:
    match = _ENDPOINT.fullmatch(entry)
    if match is None:
        raise ConfigError(key, entry, "Expected NAME://host:port")
    name, host, port = match[1].upper(), match[2], int(match[3][:10])
    if not 0 <= port <= 65535:
        raise ConfigError(key, entry, "Port must be between 0 and 65535")
    if name not in protocols:
        raise ConfigError(key, entry, f"No security protocol defined for listener {name}")
    return Listener(name, protocols[name], host, port)


def _check_ports(key: str, listeners: Sequence[Listener]) -> None:
    by_port: defaultdict[int, list[Listener]] = defaultdict(list)
    for listener in listeners:
        by_port[listener.port].append(listener)
    for port, sharing in by_port.items():
        if port != 0 and len(sharing) > 1 and _ip_versions(sharing) != [4, 6]:
            allowed = "Each listener must have a different port, unless one has an IPv4 and the other an IPv6 address"
            raise ConfigError(key, ",".join(map(str, listeners)), f"{allowed}, port: {port}")


def _ip_versions(listeners: Iterable[Listener]) -> list[int]:
    versions: list[int] = []
    for listener in listeners:
        try:
            versions.append(ipaddress.ip_address(listener.host).version)
        except ValueError:
            versions.append(0)
    return sorted(versions)


def _check_can_be_told(listeners: Iterable[Listener]) -> None:
    for listener in listeners:
        if listener.host == "0.0.0.0":
            example = f"{_ADVERTISED}={listener.name}://broker.example:{listener.port}"
            remedy = f"clients cannot connect to 0.0.0.0: set {_ADVERTISED} too, for example {example}"
            raise ConfigError(_LISTENERS, str(listener), remedy)


def _check_advertised(listeners: Sequence[Listener], advertised: Sequence[Listener]) -> None:
    names = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.host == "0.0.0.0":
            message = f"{_ADVERTISED} cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            raise ConfigError(_ADVERTISED, str(listener), "a routable address", message)
        if listener.name not in names:
            allowed = f"{_ADVERTISED} listener names must be equal to or a subset of the ones defined in {_LISTENERS}"
            raise ConfigError(_ADVERTISED, listener.name, f"{allowed}: {','.join(names)}")
    if not advertised:
        raise ConfigError(_ADVERTISED, "", "There must be at least one broker advertised listener")


def _inter_broker_name(
    values: Mapping[str, Any], written: Mapping[str, str], protocols: Mapping[str, str], advertised: Sequence[Listener]
) -> str:
    names = [listener.name for listener in advertised]
    name: str | None = values[_INTER_BROKER]
    if name is None:
        chosen: str = values[_INTER_BROKER_PROTOCOL]
        # Kafka refuses a broker without a listener called PLAINTEXT here; a single node has nobody to disagree with.
        if _INTER_BROKER_PROTOCOL not in written and chosen not in names:
            return names[0]
    else:
        chosen = name.upper()
        if _INTER_BROKER_PROTOCOL in written:
            message = f"Only one of {_INTER_BROKER} and {_INTER_BROKER_PROTOCOL} should be set."
            raise ConfigError(_INTER_BROKER, name, f"unset, or {_INTER_BROKER_PROTOCOL} unset", message)
        if chosen not in protocols:
            message = f"Listener with name {chosen} defined in {_INTER_BROKER} not found in {_PROTOCOL_MAP}."
            raise ConfigError(_INTER_BROKER, name, f"one of {','.join(protocols)}", message)
    if chosen not in names:
        allowed = f"{_INTER_BROKER} must be a listener name defined in {_ADVERTISED}"
        raise ConfigError(_INTER_BROKER, chosen, f"{allowed}: {','.join(names)}")
    return chosen

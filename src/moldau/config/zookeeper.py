"""Where a broker of a cluster finds ZooKeeper."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.config.definition import ConfigError
from moldau.config.zookeeper_security import OPEN, ZooKeeperSecurity, zookeeper_security

KEY = "zookeeper.connect"
DEFAULT_PORT = 2181

_HOST = re.compile(r"\[[0-9a-fA-F:.]+\]|[0-9a-zA-Z_]([0-9a-zA-Z_.-]*[0-9a-zA-Z_.])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """`hosts` is host:port,host:port; `chroot` is a path, or "" for none."""

    hosts: str
    chroot: str
    session_seconds: float
    connect_seconds: float
    security: ZooKeeperSecurity = OPEN

    @property
    def connect(self) -> str:
        return self.hosts + self.chroot


def zookeeper_settings(values: Mapping[str, Any]) -> ZooKeeperSettings | None:
    """None where there is no zookeeper.connect. Raises ConfigError."""
    text = (values[KEY] or "").strip()
    if not text:
        return None
    hosts, chroot = split_connect(text)
    session_ms = values["zookeeper.session.timeout.ms"]
    connect_ms = values["zookeeper.connection.timeout.ms"] or session_ms
    return ZooKeeperSettings(hosts, chroot, session_ms / 1000, connect_ms / 1000, zookeeper_security(values))


def split_connect(text: str) -> tuple[str, str]:
    """Hosts, each with its port, and the chroot. Raises ConfigError."""
    listed, slash, rest = text.partition("/")
    chroot = "" if not rest else slash + rest
    parts = rest.split("/") if rest else []
    if any(part in ("", ".", "..") for part in parts) or not chroot.isascii() or not chroot.isprintable():
        raise ConfigError(KEY, text, "the chroot after the servers is a path like /kafka, without a slash at its end")
    return ",".join(_address(host.strip(), text) for host in listed.split(",")), chroot


def _address(host: str, text: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(DEFAULT_PORT)
    if not _HOST.fullmatch(name) or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(KEY, text, "Expected host:port,host:port/chroot")
    return f"{name}:{port}"

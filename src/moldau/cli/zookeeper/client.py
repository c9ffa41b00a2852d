"""A client of ZooKeeper for one command: logged in as the section `Client` of the JAAS file in KAFKA_OPTS says, and
encrypted as a file of `zookeeper.ssl.*` settings does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from moldau.cli.jaas_file import jaas_text, use_kerberos_file
from moldau.config.tables import broker_settings
from moldau.config.zookeeper_security import JAAS_TEXT, ZooKeeperSecurity, zookeeper_security
from moldau.metadata.zookeeper.login import LoggedIn, LoginRefusedError, make_client


def open_client(hosts: str, seconds: float, properties: Mapping[str, str] | None = None) -> Any:
    """Connected and logged in. Raises ConfigError, TlsError, JaasFileError, LoginRefusedError and kazoo's errors."""
    security, login = security_of(properties or {}), LoggedIn()
    client = make_client(hosts, seconds, security, login, silent())
    try:
        client.start(timeout=seconds)
        if security.login is not None:
            login.wait(seconds)
    except BaseException as error:
        client.stop()
        client.close()
        if login.problem is not None and isinstance(error, Exception):
            raise LoginRefusedError(login.problem) from error
        raise
    return client


def security_of(properties: Mapping[str, str]) -> ZooKeeperSecurity:
    values: dict[str, Any] = {
        name: setting.parse(properties[name]) if name in properties else setting.default_value
        for name, setting in broker_settings().items()
        if name.startswith("zookeeper.")
    }
    found = zookeeper_security(values | {JAAS_TEXT: jaas_text()})
    if found.login is not None and not found.is_digest:
        use_kerberos_file()
    return found


def silent() -> logging.Logger:
    """The answer is what was asked for or one reason: nobody needs to read each attempt to connect."""
    logger = logging.getLogger("moldau.zookeeper")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger

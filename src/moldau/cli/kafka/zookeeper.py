"""`--zookeeper`, which the tools took before Kafka 3: it leads to brokers, or the profile does.

Where the package `kazoo` is installed and ZooKeeper answers, the brokers registered below `/brokers/ids` are used. In
every other case the servers of the environment or the profile (`moldau profile`, MOLDAU_BOOTSTRAP_SERVERS, else
localhost:9092) serve the command, and a warning says so.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final

ANSWER_SECONDS: Final = 3.0
NOBODY: Final = "no broker is registered in it"


def brokers_behind(zookeeper: str) -> str:
    """Servers to begin with, for a `host:port,host:port/chroot`."""
    found, problem = registered_brokers(zookeeper)
    if found:
        return found
    from moldau.cli.connect import SERVERS, properties_from

    servers = properties_from()[SERVERS]
    print(
        f"WARNING: --zookeeper {zookeeper} was not used ({problem}); going to {servers}. "
        "Use --bootstrap-server, or set MOLDAU_BOOTSTRAP_SERVERS.",
        file=sys.stderr,
    )
    return servers


def registered_brokers(zookeeper: str) -> tuple[str, str]:
    """The brokers that ZooKeeper lists, or nothing and why."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import NoNodeError
    except ImportError:
        return "", "kazoo is not installed: pip install 'moldau[zookeeper]'"
    client = KazooClient(hosts=zookeeper, timeout=ANSWER_SECONDS, logger=silent())
    try:
        client.start(timeout=ANSWER_SECONDS)
        entries = [json.loads(client.get(f"/brokers/ids/{each}")[0]) for each in client.get_children("/brokers/ids")]
    except NoNodeError:
        return "", NOBODY
    except Exception as error:
        return "", f"ZooKeeper: {error or type(error).__name__}"
    finally:
        client.stop()
        client.close()
    return ",".join(address_of(entry) for entry in entries), NOBODY


def silent() -> logging.Logger:
    """The answer is the brokers or one reason: nobody needs to read each attempt to connect."""
    logger = logging.getLogger("moldau.zookeeper")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def address_of(entry: dict[str, Any]) -> str:
    """A broker's registration: `endpoints` since 0.9, `host` and `port` before."""
    endpoints = [str(each) for each in entry.get("endpoints") or []]
    plain = [each for each in endpoints if each.startswith("PLAINTEXT://")] or endpoints
    return plain[0].rpartition("://")[2] if plain else f"{entry['host']}:{entry['port']}"

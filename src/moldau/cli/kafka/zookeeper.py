"""`--zookeeper`, which the tools took before Kafka 3: it leads to brokers, or the profile does.

Where the package `kazoo` is installed and ZooKeeper answers, the brokers registered below `/brokers/ids` are used. In
every other case the servers of the environment or the profile (`moldau profile`, MOLDAU_BOOTSTRAP_SERVERS, else
localhost:9092) serve the command, and a warning says so.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any, Final

from moldau.config.zookeeper import split_connect

ANSWER_SECONDS: Final = 3.0
NOBODY: Final = "no broker is registered in it"


def brokers_behind(zookeeper: str) -> str:
    """Servers to begin with, for a `host:port,host:port/chroot`."""
    found, problem = registered_brokers(zookeeper)
    if found:
        return found
    from moldau.cli.connection import SERVERS, properties_from

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
        from kazoo.exceptions import NoNodeError

        from moldau.cli.zookeeper.client import open_client
    except ImportError:
        return "", "kazoo is not installed: pip install 'moldau[zookeeper]'"
    try:
        check_somebody_listens(zookeeper)
        client = open_client(zookeeper, ANSWER_SECONDS)
    except Exception as error:
        return "", f"ZooKeeper: {error or type(error).__name__}"
    try:
        entries = [json.loads(client.get(f"/brokers/ids/{each}")[0]) for each in client.get_children("/brokers/ids")]
    except NoNodeError:
        return "", NOBODY
    except Exception as error:
        return "", f"ZooKeeper: {error or type(error).__name__}"
    finally:
        client.stop()
        client.close()
    return ",".join(address_of(entry) for entry in entries), NOBODY


def check_somebody_listens(zookeeper: str) -> None:
    """kazoo asks again until its time is up. Raises OSError where each of the servers refuses at once."""
    refusal: OSError | None = None
    for address in split_connect(zookeeper)[0].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        except ConnectionRefusedError as error:
            refusal = error
        except OSError:
            return
        else:
            return
    if refusal is not None:
        raise refusal


def address_of(entry: dict[str, Any]) -> str:
    """A broker's registration: `endpoints` since 0.9, `host` and `port` before."""
    endpoints = [str(each) for each in entry.get("endpoints") or []]
    plain = [each for each in endpoints if each.startswith("PLAINTEXT://")] or endpoints
    return plain[0].rpartition("://")[2] if plain else f"{entry['host']}:{entry['port']}"

"""kafka-cluster: the cluster's id, its endpoints, and the registration of a broker that is gone.

Controllers cannot be asked on their own: `--bootstrap-controller` is taken for `--bootstrap-server`, as a broker here
is both.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.calls import quorum
from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused
from moldau.cli.kafka.connecting import SERVERS, connect_with
from moldau.cli.kafka.failures import message_of
from moldau.client.errors import VersionUnsupported
from moldau.types.errors import KafkaError

if TYPE_CHECKING:
    from moldau.cli.connection import Connection


def parser() -> ArgumentParser:
    made = ArgumentParser("kafka-cluster", "The Kafka cluster tool.")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    known = {
        "cluster-id": "Get information about the ID of a cluster.",
        "unregister": "Unregister a broker.",
        "list-endpoints": "List endpoints",
    }
    for name, purpose in known.items():
        below = commands.add_parser(name, help=purpose, prog="kafka-cluster")
        servers = below.add_mutually_exclusive_group(required=True)
        servers.add_argument("--bootstrap-server", "-b", dest="servers", help="the brokers to begin with")
        servers.add_argument("--bootstrap-controller", "-C", dest="servers", help="the controllers to begin with")
        below.add_argument("--config", "-c", metavar="FILE", help="properties file with settings of the client")
        if name == "unregister":
            below.add_argument("--id", "-i", type=int, required=True, help="the broker's id")
        if name == "list-endpoints":
            below.add_argument("--include-fenced-brokers", action="store_true", help="fenced brokers too")
    return made


def main(arguments: Sequence[str]) -> int:
    try:
        given = parser().read(arguments)
    except ArgumentsRefused:
        return 1
    cluster = connected(given.servers, given.config)
    if given.command == "cluster-id":
        print(f"Cluster ID: {quorum.describe_cluster(cluster).cluster_id}")
    elif given.command == "list-endpoints":
        print_endpoints(cluster, given)
    else:
        return unregister(cluster, given.id)
    return 0


def connected(servers: str, file: str | None) -> Connection:
    from moldau.cli.connection import read_properties

    properties = read_properties(Path(file)) if file else {}
    return connect_with(properties | {SERVERS: servers})


def print_endpoints(cluster: Connection, given: Namespace) -> None:
    brokers = quorum.describe_cluster(cluster, given.include_fenced_brokers).brokers
    hosts = max((len(broker.host) for broker in brokers), default=0)
    racks = max([10, *(len(broker.rack or "") for broker in brokers)])

    def line(*cells: object) -> str:
        number, host, port, rack, state, kind = map(str, cells)
        return f"{number:<10} {host:<{hosts}} {port:<10} {rack:<{racks}} {state:<10} {kind:<15}"

    print(line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"))
    for broker in brokers:
        state = "fenced" if broker.is_fenced else "unfenced"
        print(line(broker.broker_id, broker.host, broker.port, broker.rack or "null", state, "broker"))


def unregister(cluster: Connection, broker: int) -> int:
    import sys

    try:
        quorum.unregister_broker(cluster, broker)
    except VersionUnsupported:
        print("The target cluster does not support the broker unregistration API.")
    except KafkaError as error:
        print(message_of(error), file=sys.stderr)
        return 1
    else:
        print(f"Broker {broker} is no longer registered.")
    return 0

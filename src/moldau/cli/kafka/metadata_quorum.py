"""kafka-metadata-quorum: who keeps the metadata, and how far the others are behind.

Left out: `add-controller` and `remove-controller`; the metadata is kept by a store, not by a quorum of brokers.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from moldau.cli.calls import quorum
from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused
from moldau.cli.kafka.cluster import connected
from moldau.cli.kafka.options import ToolError
from moldau.types.ids import ZERO_UUID
from moldau.types.uuid_text import encode_uuid

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.wire.messages.describe_quorum import DescribeQuorumResponse, PartitionDataInResponse, ReplicaState

HEADINGS: Final = (
    "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status",
)  # fmt: skip


def parser() -> ArgumentParser:
    made = ArgumentParser("kafka-metadata-quorum", "This tool describes the state of the metadata quorum.")
    servers = made.add_mutually_exclusive_group(required=True)
    servers.add_argument("--bootstrap-server", dest="servers", help="the brokers to begin with")
    servers.add_argument("--bootstrap-controller", dest="servers", help="the controllers to begin with")
    made.add_argument("--command-config", metavar="FILE", help="properties file with settings of the client")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    below = commands.add_parser("describe", help="Describe the metadata quorum info", prog="kafka-metadata-quorum")
    below.add_argument("--status", action="store_true", help="a short summary")
    below.add_argument("--replication", action="store_true", help="every replica")
    below.add_argument("--human-readable", action="store_true", help="times as how long ago")
    return made


def main(arguments: Sequence[str]) -> int:
    try:
        given = parser().read(arguments)
    except ArgumentsRefused:
        return 1
    if given.status and given.replication:
        raise ToolError("Only one of --status or --replication should be specified with describe sub-command")
    if not given.status and not given.replication:
        raise ToolError("One of --status or --replication must be specified with describe sub-command")
    cluster = connected(given.servers, given.command_config)
    found, answer = quorum.describe_quorum(cluster)
    if given.status:
        print_status(cluster, found, answer)
    else:
        print_replication(found, given)
    return 0


def print_status(cluster: Connection, found: PartitionDataInResponse, answer: DescribeQuorumResponse) -> None:
    leader = next((each for each in found.current_voters if each.replica_id == found.leader_id), None)
    followers = [each for each in found.current_voters if each.replica_id != found.leader_id]
    behind = max((found.high_watermark - each.log_end_offset for each in followers), default=0)
    times = [each.last_caught_up_timestamp for each in followers]
    now = leader.last_caught_up_timestamp if leader else -1
    late = 0 if not times else -1 if min(times) == -1 or now == -1 else max(0, now - min(times))
    lines = {
        "ClusterId": quorum.describe_cluster(cluster).cluster_id,
        "LeaderId": found.leader_id,
        "LeaderEpoch": found.leader_epoch,
        "HighWatermark": found.high_watermark,
        "MaxFollowerLag": behind,
        "MaxFollowerLagTimeMs": late,
        "CurrentVoters": nodes_text(found.current_voters, answer, with_endpoints=True),
        "CurrentObservers": nodes_text(found.observers, answer, with_endpoints=False),
    }
    for name, value in lines.items():
        print(f"{name + ':':<24}{value}")


def nodes_text(replicas: Sequence[ReplicaState], answer: DescribeQuorumResponse, with_endpoints: bool) -> str:
    listeners = {node.node_id: node.listeners for node in answer.nodes}

    def described(replica: ReplicaState) -> Iterator[str]:
        yield f'"id": {replica.replica_id}'
        if replica.replica_directory_id != ZERO_UUID:
            yield f'"directoryId": "{directory_text(replica.replica_directory_id)}"'
        if with_endpoints:
            urls = [f"{each.name}://{each.host}:{each.port}" for each in listeners.get(replica.replica_id, ())]
            yield f'"endpoints": {json.dumps(urls)}'

    return "[" + ", ".join("{" + ", ".join(described(replica)) + "}" for replica in replicas) + "]"


def directory_text(directory: UUID) -> str:
    return encode_uuid(directory)


def print_replication(found: PartitionDataInResponse, given: Namespace) -> None:
    end = next((each.log_end_offset for each in found.current_voters if each.replica_id == found.leader_id), 0)
    rows = []
    for status, replicas in (("Follower", found.current_voters), ("Observer", found.observers)):
        for each in replicas:
            shown = "Leader" if each.replica_id == found.leader_id else status
            rows.append(
                (
                    each.replica_id,
                    directory_text(each.replica_directory_id),
                    each.log_end_offset,
                    end - each.log_end_offset,
                    moment(each.last_fetch_timestamp, given.human_readable),
                    moment(each.last_caught_up_timestamp, given.human_readable),
                    shown,
                )
            )
    rows.sort(key=lambda row: ("Leader", "Follower", "Observer").index(str(row[-1])))
    cells = [HEADINGS, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    for row in cells:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


def moment(timestamp: int, readable: bool) -> str:
    return f"{time.time_ns() // 1_000_000 - timestamp} ms ago" if readable else str(timestamp)

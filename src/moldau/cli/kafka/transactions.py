"""kafka-transactions: list, describe and abort transactions, and find hanging ones."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import transactions
from moldau.cli.calls.transactions import Marker
from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused, long, short
from moldau.cli.kafka.connecting import SERVERS, connect_with
from moldau.cli.kafka.failures import message_of
from moldau.cli.kafka.options import ToolError
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

NONE: Final = "None"
NOT_FOUND: Final = "DescribeTransactions request for transactionalId `{}` failed because the ID could not be found"


def parser() -> ArgumentParser:
    made = ArgumentParser(
        "kafka-transactions.sh",
        "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect "
        "and recover from hanging transactions.",
    )
    made.add_argument("-v", "--version", action="store_true", help="show the version and exit")
    made.add_argument("--command-config", metavar="FILE", help="properties file with settings of the client")
    made.add_argument("--bootstrap-server", metavar="host:port", required=True, help="the brokers to begin with")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    listing = commands.add_parser("list", help="list transactions")
    listing.add_argument("--duration-filter", type=long, help="only those running longer than so many milliseconds")
    listing.add_argument("--transactional-id-pattern", help="regular expression for transactional ids")
    describing = commands.add_parser("describe", help="describe the state of an active transactional-id")
    describing.add_argument("--transactional-id", required=True, help="transactional id")
    producers = commands.add_parser("describe-producers", help="describe the active producers of a partition")
    producers.add_argument("--broker-id", type=int, help="the replica to ask")
    add_partition(producers, required=True)
    aborting = commands.add_parser("abort", help="abort a hanging transaction")
    add_partition(aborting, required=True)
    aborting.add_argument("--start-offset", type=long, help="start offset of the transaction to abort")
    aborting.add_argument("--producer-id", type=long, help="producer id")
    aborting.add_argument("--producer-epoch", type=short, help="producer epoch")
    aborting.add_argument("--coordinator-epoch", type=int, help="coordinator epoch")
    hanging = commands.add_parser("find-hanging", help="find hanging transactions")
    hanging.add_argument("--broker-id", type=int, help="broker to search")
    hanging.add_argument("--max-transaction-timeout", type=int, default=15, help="minutes, 15 without it")
    add_partition(hanging, required=False)
    ending = commands.add_parser("forceTerminateTransaction", help="abort an ongoing transaction of an id")
    ending.add_argument("--transactionalId", required=True, help="transactional id")
    return made


def add_partition(made: ArgumentParser, required: bool) -> None:
    made.add_argument("--topic", required=required, help="topic name")
    made.add_argument("--partition", type=int, required=required, help="partition number")


def main(arguments: Sequence[str]) -> int:
    try:
        given = parser().read(arguments)
    except ArgumentsRefused:
        return 1
    properties = {}
    if given.command_config:
        from pathlib import Path

        from moldau.cli.connection import read_properties

        properties = read_properties(Path(given.command_config))
    cluster = connect_with(properties | {SERVERS: given.bootstrap_server})
    {
        "list": show_list,
        "describe": show_transaction,
        "describe-producers": show_producers,
        "abort": abort,
        "find-hanging": find_hanging,
        "forceTerminateTransaction": force_termination,
    }[given.command](cluster, given)
    return 0


def failed(what: str, error: Exception) -> ToolError:
    return ToolError(f"{what}: {message_of(error).rstrip('.')}. Enable debug logging for additional detail.")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max([len(title), *(len(row[column]) for row in cells)]) for column, title in enumerate(headers)]
    for row in [list(headers), *cells]:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


# -- commands ------------------------------------------------------------------------------------------------------


def show_list(cluster: Connection, given: Namespace) -> None:
    duration = -1 if given.duration_filter is None else given.duration_filter
    try:
        found = transactions.list_transactions(cluster, longer_than_ms=duration, pattern=given.transactional_id_pattern)
    except KafkaError as error:
        raise failed("Failed to list transactions", error) from None
    rows = [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found]
    print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def show_transaction(cluster: Connection, given: Namespace) -> None:
    name = given.transactional_id
    try:
        found = transactions.describe(cluster, name)
    except KafkaError as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            error = KafkaError(error.code, NOT_FOUND.format(name))
        raise failed(f"Failed to describe transaction state of transactional-id `{name}`", error) from None
    started = found.started_ms
    partitions = ",".join(map(str, found.partitions))
    headers = (
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions",
    )  # fmt: skip
    row = (
        found.coordinator,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        started if started >= 0 else NONE,
        now_ms() - started if started >= 0 else NONE,
        partitions,
    )
    print_table(headers, [row])


def show_producers(cluster: Connection, given: Namespace) -> None:
    place = TopicPartition(given.topic, given.partition)
    try:
        producers = transactions.describe_producers(cluster, [place], given.broker_id)[place]
    except KafkaError as error:
        asked = "leader" if given.broker_id is None else f"broker {given.broker_id}"
        raise failed(f"Failed to describe producers for partition {place} on {asked}", error) from None
    headers = (
        "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
        "CurrentTransactionStartOffset",
    )  # fmt: skip
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else NONE,
        )
        for each in producers
    ]
    print_table(headers, rows)


def abort(cluster: Connection, given: Namespace) -> None:
    place = TopicPartition(given.topic, given.partition)
    if given.start_offset is None and given.producer_id is None:
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if given.start_offset is None:
        for name in ("producer-epoch", "coordinator-epoch"):
            if getattr(given, name.replace("-", "_")) is None:
                raise ToolError(f"Missing required argument --{name}")
        marker = Marker(given.producer_id, given.producer_epoch, max(0, given.coordinator_epoch))
    else:
        marker = open_transaction(cluster, place, given.start_offset)
    try:
        transactions.write_abort_marker(cluster, place, marker)
    except KafkaError as error:
        raise failed(
            f"Failed to abort transaction AbortTransactionSpec(topicPartition={place}, "
            f"producerId={marker.producer_id}, producerEpoch={marker.producer_epoch}, "
            f"coordinatorEpoch={marker.coordinator_epoch})",
            error,
        ) from None


def open_transaction(cluster: Connection, place: TopicPartition, offset: int) -> Marker:
    try:
        found = transactions.open_in(cluster, [place])
    except KafkaError as error:
        raise failed(f"Failed to validate producer state for partition {place}", error) from None
    begun = transactions.begun_at(offset, found)
    if begun is None:
        raise ToolError(f"Could not find any open transactions starting at offset {offset} on partition {place}")
    return begun.marker


def force_termination(cluster: Connection, given: Namespace) -> None:
    try:
        transactions.fence(cluster, given.transactionalId)
    except KafkaError as error:
        raise failed(f"Failed to force terminate transactionalId `{given.transactionalId}`", error) from None


def find_hanging(cluster: Connection, given: Namespace) -> None:
    if given.topic is None and given.broker_id is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if given.partition is not None and given.topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")
    places = places_to_search(cluster, given)
    now = now_ms()
    idle_since_ms = now - given.max_transaction_timeout * 60_000 - 1
    headers = (
        "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
        "Duration(min)",
    )  # fmt: skip
    rows = [
        (
            *each.place,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.start_offset,
            each.producer.last_timestamp,
            (now - each.producer.last_timestamp) // 60_000,
        )
        for each in transactions.hanging_in(cluster, places, idle_since_ms, given.broker_id)
    ]
    print_table(headers, rows)


def places_to_search(cluster: Connection, given: Namespace) -> list[TopicPartition]:
    if given.partition is not None:
        return [TopicPartition(given.topic, given.partition)]
    try:
        return transactions.places_to_search(cluster, given.topic, given.broker_id)
    except KafkaError as error:
        raise failed("Failed to describe 1 topics", KafkaError(error.code)) from None


def now_ms() -> int:
    return time.time_ns() // 1_000_000

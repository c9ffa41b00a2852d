"""kafka-verifiable-consumer: consume and report every event (assignments, records, commits) as a line of JSON."""

from __future__ import annotations

import signal
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import for_client
from moldau.cli.kafka.argument_parser import ArgumentParser
from moldau.cli.kafka.connecting import SERVERS, connect_with
from moldau.cli.kafka.failures import is_failure, message_of
from moldau.cli.kafka.verifiable import add_servers, print_event, properties_in_file, read
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

OLD_FILE_OPTION: Final = "consumer.config"
BATCH: Final = 500
POLL_SECONDS: Final = 0.1
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def parser() -> ArgumentParser:
    made = ArgumentParser(
        "verifiable-consumer",
        "This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, received "
        "messages, and offsets committed) as JSON objects to STDOUT.",
    )
    add_servers(made)
    made.add_argument("--topic", required=True, metavar="TOPIC", help="consume this topic")
    made.add_argument("--group-protocol", default="classic", metavar="GROUP-PROTOCOL", help="classic or consumer")
    made.add_argument("--group-remote-assignor", metavar="GROUP-REMOTE-ASSIGNOR", help="for the consumer protocol")
    made.add_argument("--group-id", required=True, metavar="GROUP-ID", help="the group")
    made.add_argument("--group-instance-id", metavar="GROUP-INSTANCE-ID", help="a static member's name")
    made.add_argument("--max-messages", type=int, default=-1, metavar="MAX-MESSAGES", help="-1: until it is stopped")
    made.add_argument("--session-timeout", type=int, metavar="TIMEOUT-MS", help="for the classic protocol")
    made.add_argument("--verbose", action="store_true", help="a line for every record")
    made.add_argument("--enable-autocommit", action="store_true", help="commit in the background")
    made.add_argument("--reset-policy", default="earliest", metavar="RESET-POLICY", help="earliest, latest or none")
    made.add_argument("--assignment-strategy", default=RANGE, metavar="ASSIGNMENT-STRATEGY", help="classic protocol")
    made.add_argument(f"--{OLD_FILE_OPTION}", metavar="CONFIG-FILE", help="old name of --command-config")
    made.add_argument("--command-config", metavar="CONFIG-FILE", help="properties file of the consumer")
    return made


def main(arguments: Sequence[str]) -> int:
    given = read(parser(), arguments, OLD_FILE_OPTION)
    if isinstance(given, int):
        return given
    more: dict[str, Any] = {"error_cb": lambda error: None, "allow.auto.create.topics": True}
    Run(connect_with(properties_of(given)).consumer(**more), given).consume()
    return 0


def properties_of(given: Namespace) -> dict[str, str]:
    properties = properties_in_file(given, OLD_FILE_OPTION)
    protocol = given.group_protocol.lower()
    properties |= {
        SERVERS: given.bootstrap_server,
        "group.id": given.group_id,
        "group.protocol": protocol,
        "enable.auto.commit": str(given.enable_autocommit).lower(),
        "auto.offset.reset": "error" if given.reset_policy == "none" else given.reset_policy,
    }
    if protocol == "classic":
        properties["partition.assignment.strategy"] = given.assignment_strategy
        if given.session_timeout is not None:
            properties["session.timeout.ms"] = str(given.session_timeout)
    elif given.group_remote_assignor:
        properties["group.remote.assignor"] = given.group_remote_assignor
    if given.group_instance_id:
        properties["group.instance.id"] = given.group_instance_id
    return properties


class Run:
    def __init__(self, consumer: Consumer, given: Namespace) -> None:
        self._consumer = consumer
        self._given = given
        self._consumed = 0
        self._stop = False
        self._asked_to_stop = False

    def consume(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        print_event("startup_complete")
        self._consumer.subscribe(
            [self._given.topic],
            on_assign=lambda consumer, partitions: self._on_change("partitions_assigned", partitions),
            on_revoke=lambda consumer, partitions: self._on_change("partitions_revoked", partitions),
        )
        try:
            while not self._stop and not self._finished:
                wanted = (
                    BATCH if self._given.max_messages < 0 else min(BATCH, self._given.max_messages - self._consumed)
                )
                good = [each for each in self._consumer.consume(wanted, POLL_SECONDS) if each.error() is None]
                if good:
                    self._received(good)
        finally:
            if self._asked_to_stop:
                print_event("shutdown_requested")
            self._consumer.close()
            print_event("shutdown_complete")
            if not self._asked_to_stop:
                # Kafka's tool says so whenever its process ends, after everything else.
                print_event("shutdown_requested")

    @property
    def _finished(self) -> bool:
        return bool(0 <= self._given.max_messages <= self._consumed)

    def _on_signal(self, number: int, frame: object) -> None:
        self._stop = self._asked_to_stop = True

    def _on_change(self, name: str, partitions: Any) -> None:
        print_event(name, partitions=[{"topic": each.topic, "partition": each.partition} for each in partitions])

    def _received(self, messages: list[Message]) -> None:
        by_partition: dict[TopicPartition, list[Message]] = {}
        for message in messages:
            place = TopicPartition(message.topic() or "", message.partition() or 0)
            by_partition.setdefault(place, []).append(message)
        summaries = []
        offsets: dict[TopicPartition, int] = {}
        for place, records in by_partition.items():
            first, last = records[0].offset() or 0, records[-1].offset() or 0
            offsets[place] = last + 1
            summaries.append({**place._asdict(), "count": len(records), "minOffset": first, "maxOffset": last})
            if self._given.verbose:
                for record in records:
                    self._show(record)
        self._consumed += len(messages)
        print_event("records_consumed", count=len(messages), partitions=summaries)
        if not self._given.enable_autocommit:
            self._commit(offsets)

    def _show(self, record: Message) -> None:
        key, content = record.key(), record.value()
        print_event(
            "record_data",
            key=text(key),
            value=text(content),
            topic=record.topic(),
            partition=record.partition(),
            offset=record.offset(),
        )

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        wanted = [for_client(place, offset) for place, offset in offsets.items()]
        outcome: dict[str, Any] = {"success": True}
        try:
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except Exception as error:
            if not is_failure(error):
                raise
            outcome = {"error": message_of(error), "success": False}
        committed = [
            {"topic": topic, "partition": index, "offset": offset} for (topic, index), offset in offsets.items()
        ]
        print_event("offsets_committed", offsets=committed, **outcome)


def text(data: Any) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "replace")

"""kafka-producer-perf-test: produce records as fast as possible, or at a rate, and print latencies.

The figures are those of librdkafka in this Python process, not of Java's producer.
"""

from __future__ import annotations

import random
import sys
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused, double, long
from moldau.cli.kafka.connecting import SERVERS, connect_with
from moldau.cli.kafka.failures import message_of
from moldau.cli.kafka.measuring import Latencies, Metrics, Throttler, now_ms
from moldau.cli.kafka.options import ToolError
from moldau.cli.passwords import shown_pairs

if TYPE_CHECKING:
    from confluent_kafka import Producer

LETTERS: Final = bytes(range(65, 91))
DEFAULT_TRANSACTION_MS: Final = 3000
PAUSE_SECONDS: Final = 0.01


def parser() -> ArgumentParser:
    made = ArgumentParser(
        "kafka-producer-perf-test",
        "This tool is used to verify the producer performance. Transactions are on with a transactional id or with "
        "--transaction-duration-ms.",
    )
    made.add_argument("--bootstrap-server", metavar="BOOTSTRAP-SERVER", help="the servers to connect to")
    made.add_argument("--topic", required=True, metavar="TOPIC", help="produce records to this topic")
    made.add_argument("--num-records", required=True, type=long, metavar="NUM-RECORDS", help="how many")
    payload = made.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, metavar="RECORD-SIZE", help="bytes of each value")
    payload.add_argument("--payload-file", metavar="PAYLOAD-FILE", help="a text file to pick values from")
    payload.add_argument("--payload-monotonic", action="store_true", help="values are increasing numbers")
    made.add_argument("--payload-delimiter", default="\\n", metavar="PAYLOAD-DELIMITER", help="between payloads")
    made.add_argument(
        "--throughput", required=True, type=double, metavar="THROUGHPUT", help="records/sec, -1: no limit"
    )
    for name in ("--producer-props", "--command-property"):
        made.add_argument(name, nargs="+", metavar="PROP-NAME=PROP-VALUE", help="settings of the producer")
    for name in ("--producer.config", "--command-config"):
        made.add_argument(name, metavar="CONFIG-FILE", help="properties file of the producer")
    made.add_argument("--print-metrics", action="store_true", help="print the client's metrics at the end")
    made.add_argument("--transactional-id", metavar="TRANSACTIONAL-ID", help="the transactional id")
    made.add_argument("--transaction-duration-ms", type=long, metavar="TRANSACTION-DURATION", help="of each one")
    made.add_argument(
        "--warmup-records", type=long, default=0, metavar="WARMUP-RECORDS", help="left out of a second sum"
    )
    made.add_argument("--reporting-interval", type=long, default=5000, metavar="INTERVAL-MS", help="of progress lines")
    return made


def main(arguments: Sequence[str]) -> int:
    made = parser()
    if not arguments:
        made.print_help()
        return 0
    try:
        given = made.read(arguments)
        check(made, given)
    except ArgumentsRefused:
        return 1
    payloads = payload_source(given)
    properties = producer_properties(given)
    metrics = Metrics(given.print_metrics)
    producer = connect_with(properties).producer(
        **{"error_cb": lambda error: None, "queue.buffering.max.messages": 100_000, **metrics.settings()}
    )
    run(producer, given, payloads, "transactional.id" in properties)
    metrics.show()
    return 0


def check(made: ArgumentParser, given: Namespace) -> None:
    given.warmup_records = max(0, given.warmup_records)
    old_file = getattr(given, "producer.config")
    for wrong, message in (
        (given.num_records <= 0, "--num-records should be greater than zero."),
        (
            given.warmup_records >= given.num_records,
            (
                "The value for --warmup-records must be strictly fewer than the number of records in the test, "
                "--num-records."
            ),
        ),
        (given.record_size is not None and given.record_size <= 0, "--record-size should be greater than zero."),
        (
            not (given.bootstrap_server or given.command_property or given.producer_props)
            and not (old_file or given.command_config),
            (
                "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
                "--command-config must be specified."
            ),
        ),
        (
            bool(given.command_property and given.producer_props),
            "--command-property and --producer-props cannot be specified together.",
        ),
        (
            bool(given.command_config and old_file),
            "--command-config and --producer.config cannot be specified together.",
        ),
        (
            given.transaction_duration_ms is not None and given.transaction_duration_ms <= 0,
            "--transaction-duration-ms should be greater than zero.",
        ),
        (given.reporting_interval <= 0, "--reporting-interval should be greater than zero."),
    ):
        if wrong:
            made.error(message)


def producer_properties(given: Namespace) -> dict[str, str]:
    from moldau.cli.connection import read_properties

    old_file = getattr(given, "producer.config")
    for used, old, new in (
        (given.producer_props, "--producer-props", "--command-property"),
        (old_file, "--producer.config", "--command-config"),
    ):
        if used:
            print(f"Option {old} has been deprecated and will be removed in a future version. Use {new} instead.")
    path = given.command_config or old_file
    properties = read_properties(Path(path)) if path else {}
    for text in given.command_property or given.producer_props or ():
        key, equals, value = text.partition("=")
        if not equals or not value or "=" in value:
            raise ToolError(f"Invalid property: {shown_pairs(text)}")
        properties[key] = value
    if given.bootstrap_server:
        properties[SERVERS] = given.bootstrap_server
    if SERVERS not in properties:
        raise ToolError("No bootstrap.servers were given: add --bootstrap-server host:port")
    if given.transactional_id or given.transaction_duration_ms is not None:
        properties.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    if given.transactional_id:
        properties["transactional.id"] = given.transactional_id
    return {"client.id": "perf-producer-client"} | properties


def payload_source(given: Namespace) -> Callable[[int], bytes]:
    chosen = random.Random(0)
    if given.payload_file:
        payloads = read_payloads(Path(given.payload_file), given.payload_delimiter)
        return lambda number: chosen.choice(payloads)
    if given.payload_monotonic:
        return lambda number: str(number).encode()
    # Random letters are dear in Python: a window moves over a longer text of them.
    size = given.record_size
    text = bytes(chosen.choices(LETTERS, k=size + 4096))
    return lambda number: text[number % 4096 : number % 4096 + size]


def read_payloads(path: Path, delimiter: str) -> list[bytes]:
    print(f"Reading payloads from: {path.absolute()}")
    if not path.is_file() or path.stat().st_size == 0:
        raise ToolError("File does not exist or empty file provided.")
    text = path.read_text(encoding="utf-8")
    parts = text.split("\n" if delimiter == "\\n" else delimiter)
    found = [part.encode() for part in (parts[:-1] if parts[-1] == "" else parts)]
    print(f"Number of records read: {len(found)}")
    return found


class Run:
    """The records under way, with their statistics."""

    def __init__(self, producer: Producer, given: Namespace) -> None:
        self._producer = producer
        self._given = given
        self.all = Latencies(given.num_records, given.reporting_interval, steady=False)
        self.steady: Latencies | None = None

    def begin_steady_state(self) -> None:
        left = self._given.num_records - self._given.warmup_records
        self.steady = Latencies(left, self._given.reporting_interval, steady=True)
        self.all.quiet = True

    def send(self, payload: bytes) -> None:
        started = now_ms()
        steady = self.steady
        size = len(payload)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                from confluent_kafka import KafkaException

                print(message_of(KafkaException(error)), file=sys.stderr)
                return
            now = now_ms()
            self.all.record(now - started, size, now)
            if steady is not None:
                steady.record(now - started, size, now)

        while True:
            try:
                self._producer.produce(self._given.topic, payload, on_delivery=delivered)
                return
            except BufferError:
                self._producer.poll(PAUSE_SECONDS)


def run(producer: Producer, given: Namespace, payloads: Callable[[int], bytes], transactional: bool) -> None:
    if transactional:
        producer.init_transactions()
    if given.warmup_records > 0:
        print(
            f"Warmup first {given.warmup_records} records. Steady state results will print after the complete test "
            "summary."
        )
    state = Run(producer, given)
    throttler = Throttler(given.throughput)
    ending = transactions(producer, given) if transactional else None
    for number in range(given.num_records):
        if ending is not None:
            next(ending)
        if given.warmup_records > 0 and number == given.warmup_records:
            state.begin_steady_state()
        state.send(payloads(number))
        wait = throttler.wait(number + 1)
        producer.poll(wait)
    if ending is not None:
        producer.commit_transaction()
    producer.flush()
    state.all.print_total()
    if state.steady is not None:
        state.steady.print_total()


def transactions(producer: Producer, given: Namespace) -> Iterator[None]:
    """Before each record: a transaction is open, and one that is old enough was committed first."""
    longest = given.transaction_duration_ms or DEFAULT_TRANSACTION_MS
    while True:
        producer.begin_transaction()
        started = now_ms()
        yield
        while now_ms() - started < longest:
            yield
        producer.commit_transaction()

"""kafka-consumer-perf-test: consume records and print rates.

The figures are those of librdkafka in this Python process, not of Java's consumer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import place_of
from moldau.cli.kafka.connecting import (
    BOOTSTRAP,
    BROKER_LIST,
    COMMAND_CONFIG,
    SERVERS,
    connect_with,
    file_properties,
    names_cluster,
    pairs,
    servers_of,
)
from moldau.cli.kafka.measuring import MEGABYTE, Metrics, date_text, now_ms
from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, optional_value, value
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

BATCH: Final = 1000
POLL_SECONDS: Final = 0.1
COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
    "fetch.nMsg.sec"
)

PARSER: Final = Parser(
    "This tool is used to verify the consumer performance.",
    BOOTSTRAP,
    BROKER_LIST,
    value("topic", "topic", "The topic to consume."),
    value("include", "Java regex (String)", "A regular expression for the topics to consume."),
    value("group", "gid", "The group to consume as; a new one without it."),
    value("fetch-size", "size", "Most bytes of a partition in one fetch.", kind=int, default="1048576"),
    value("command-property", "prop1=val1", "A setting of the consumer, key=value."),
    flag("from-latest", "Begin at the end where the group has no position."),
    value("socket-buffer-size", "size", "Bytes of the socket's buffer.", kind=int, default="2097152"),
    value("consumer.config", "config file", "Old name of --command-config."),
    COMMAND_CONFIG,
    flag("print-metrics", "Print the client's metrics at the end."),
    flag("show-detailed-stats", "A line for every reporting interval."),
    optional_value("timeout", "milliseconds", "Most time between two records."),
    value("messages", "count", "Old name of --num-records.", kind=int),
    value("num-records", "count", "REQUIRED: how many records to consume.", kind=int),
    value("threads", "count", hidden=True),
    value("reporting-interval", "interval_ms", "Milliseconds between two lines.", kind=int, default="5000"),
    value("date-format", "date format", "How times are shown.", default="yyyy-MM-dd HH:mm:ss:SSS"),
    flag("hide-header", "Leave out the header."),
)
DEFAULT_TIMEOUT_MS: Final = 10_000


def main(arguments: Sequence[str]) -> int:
    try:
        options = PARSER.parse(arguments)
    except OptionError as error:
        raise PARSER.wrong(str(error)) from None
    check(options)
    detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        print(f"{'time, threadId' if detailed else 'start.time, end.time'}, {COLUMNS}")
    if options.number("reporting-interval") <= 0:
        raise ToolError("Reporting interval must be greater than 0.")
    metrics = Metrics(options.has("print-metrics"))
    consumer = connect_with(properties_of(options)).consumer(
        **{"error_cb": lambda error: None, "allow.auto.create.topics": True, **metrics.settings()}
    )
    start = now_ms()
    reading = Reading(options, start)
    try:
        reading.run(consumer)
    finally:
        consumer.close()
    if not detailed:
        print_total(reading, start, now_ms(), options.given("date-format"))
    metrics.show()
    return 0


def check(options: Options) -> None:
    if not names_cluster(options):
        raise PARSER.missing("bootstrap-server")
    PARSER.require_one_of(options, "topic", "include")
    PARSER.require_one_of(options, "messages", "num-records")
    PARSER.refuse_together(options, "consumer.config", ("command-config",))
    if options.has("messages"):
        print("Warning: --messages is deprecated. Use --num-records instead.")
    if options.has("consumer.config"):
        print("Warning: --consumer.config is deprecated. Use --command-config instead.")


def properties_of(options: Options) -> dict[str, str]:
    given = file_properties(options, "consumer.config", "command-config") | pairs(options.texts("command-property"))
    return {
        "client.id": "perf-consumer-client",
        **given,
        SERVERS: servers_of(options),
        "group.id": options.text("group") or f"perf-consumer-{random.randrange(100_000)}",
        "receive.buffer.bytes": options.given("socket-buffer-size"),
        "max.partition.fetch.bytes": options.given("fetch-size"),
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
    }


class Reading:
    """Consumes, counts, and prints a line for every interval."""

    def __init__(self, options: Options, start: int) -> None:
        self._wanted = options.number("messages" if options.has("messages") else "num-records")
        self._patience_ms = options.integer("timeout") or DEFAULT_TIMEOUT_MS
        self._interval_ms = options.number("reporting-interval")
        self._detailed = options.has("show-detailed-stats")
        self._dates = options.given("date-format")
        self._topics = [options.given("topic")] if options.has("topic") else [f"^({options.given('include')})$"]
        self.records = self.bytes = self.join_ms = 0
        self._join_start = start
        self._round_join_ms = 0
        self._assigned: set[TopicPartition] = set()
        self._last = (start, 0, 0)

    def run(self, consumer: Consumer) -> None:
        consumer.subscribe(self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke)
        seen = now_ms()
        self._last = (seen, 0, 0)
        now = seen
        while self.records < self._wanted and now - seen <= self._patience_ms:
            messages = consumer.consume(min(BATCH, self._wanted - self.records), POLL_SECONDS)
            now = now_ms()
            good = [message for message in messages if message.error() is None]
            if good:
                seen = now
                self.records += len(good)
                self.bytes += sum(len(message.key() or b"") + len(message.value() or b"") for message in good)
                self._report(now)
        if self.records < self._wanted:
            print(
                "WARNING: Exiting before consuming the expected number of records: "
                f"timeout ({self._patience_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )

    def _report(self, now: int) -> None:
        since, records, size = self._last
        if now - since < self._interval_ms:
            return
        if self._detailed:
            elapsed = now - since
            fetching = elapsed - self._round_join_ms
            megabytes, count = (self.bytes - size) / MEGABYTE, self.records - records
            per_fetch = (0.0, 0.0) if fetching <= 0 else (1000 * megabytes / fetching, 1000 * count / fetching)
            print(
                f"{date_text(now, self._dates)}, 0, {self.bytes / MEGABYTE:.4f}, {1000 * megabytes / elapsed:.4f}, "
                f"{self.records}, {1000 * count / elapsed:.4f}, {self._round_join_ms}, {fetching}, "
                f"{per_fetch[0]:.4f}, {per_fetch[1]:.4f}",
                flush=True,
            )
        self._round_join_ms = 0
        self._last = (now, self.records, self.bytes)

    def _on_assign(self, consumer: Any, partitions: Any) -> None:
        if not self._assigned:
            elapsed = now_ms() - self._join_start
            self.join_ms += elapsed
            self._round_join_ms += elapsed
        self._assigned |= set(map(place_of, partitions))

    def _on_revoke(self, consumer: Any, partitions: Any) -> None:
        self._assigned -= set(map(place_of, partitions))
        if not self._assigned:
            self._join_start = now_ms()


def print_total(reading: Reading, start: int, end: int, dates: str) -> None:
    seconds = max(0.001, (end - start) / 1000)
    fetching = end - start - reading.join_ms
    fetch_seconds = max(0.001, fetching / 1000)
    megabytes = reading.bytes / MEGABYTE
    print(
        f"{date_text(start, dates)}, {date_text(end, dates)}, {megabytes:.4f}, {megabytes / seconds:.4f}, "
        f"{reading.records}, {reading.records / seconds:.4f}, {reading.join_ms}, {fetching}, "
        f"{megabytes / fetch_seconds:.4f}, {reading.records / fetch_seconds:.4f}"
    )

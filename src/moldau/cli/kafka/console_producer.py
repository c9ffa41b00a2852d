"""kafka-console-producer: every line of standard input becomes a record.

Differences to Apache Kafka's: the exit code is 1 when a record could not be delivered (there it is 0 without --sync),
and only the line reader exists, since `--line-reader` names a Java class.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.kafka.connecting import (
    BOOTSTRAP,
    BROKER_LIST,
    COMMAND_CONFIG,
    SERVERS,
    ZOOKEEPER,
    connect_with,
    file_properties,
    pairs,
    servers_of,
)
from moldau.cli.kafka.failures import message_of
from moldau.cli.kafka.line_reader import Line, LineReader
from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, optional_value, value

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

LINE_READER: Final = "org.apache.kafka.tools.LineMessageReader"
DELIVERY_SECONDS: Final = 120
FULL_QUEUE_SECONDS: Final = 0.5
BY_OPTION: Final = {
    "linger.ms": "timeout",
    "acks": "request-required-acks",
    "request.timeout.ms": "request-timeout-ms",
    "retries": "message-send-max-retries",
    "retry.backoff.ms": "retry-backoff-ms",
    "send.buffer.bytes": "socket-buffer-size",
    "buffer.memory": "max-memory-bytes",
    "batch.size": "batch-size",
    "metadata.max.age.ms": "metadata-expiry-ms",
}
RENAMED: Final = (
    ("producer-property", "command-property"),
    ("producer.config", "command-config"),
    ("property", "reader-property"),
)

PARSER: Final = Parser(
    "This tool helps to read data from standard input and publish it to Kafka.",
    value("topic", "topic", "REQUIRED: the topic to write to."),
    BOOTSTRAP,
    BROKER_LIST,
    ZOOKEEPER,
    flag("sync", "Wait for each record's answer before the next line is read."),
    optional_value("compression-codec", "compression-codec", "none, gzip, snappy, lz4 or zstd; gzip without a value."),
    value("batch-size", "size", "Bytes of one batch (batch.size).", kind=int, default="16384"),
    value("message-send-max-retries", "number", "How often to try again (retries).", kind=int, default="3"),
    value("retry-backoff-ms", "ms", "Pause before trying again (retry.backoff.ms).", kind=int, default="100"),
    value("timeout", "ms", "How long a record waits for its batch to fill (linger.ms).", kind=int, default="1000"),
    value("request-required-acks", "acks", "Who must have the record before it is answered (acks).", default="-1"),
    value("request-timeout-ms", "ms", "How long to wait for an answer (request.timeout.ms).", kind=int, default="1500"),
    value("metadata-expiry-ms", "ms", "Age at which metadata is asked anew.", kind=int, default="300000"),
    value("max-block-ms", "ms", "Accepted; lines wait as long as the buffer is full.", kind=int, default="60000"),
    value("max-memory-bytes", "bytes", "Bytes that may wait to be sent (buffer.memory).", kind=int, default="33554432"),
    value("max-partition-memory-bytes", "bytes", "Old name of --batch-size.", kind=int, default="16384"),
    value("line-reader", "class", "Only the line reader exists.", default=LINE_READER),
    value("socket-buffer-size", "size", "Bytes of the socket's buffer.", kind=int, default="102400"),
    value("property", "prop", "Old name of --reader-property."),
    value(
        "reader-property",
        "prop",
        "key=value for the line reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, null.marker, ignore.error.",
    ),
    value("reader-config", "config file", "A properties file for the line reader."),
    value("producer-property", "producer_prop", "Old name of --command-property."),
    value("command-property", "producer_prop", "A setting of the producer, key=value."),
    value("producer.config", "config file", "Old name of --command-config."),
    COMMAND_CONFIG,
)


def main(arguments: Sequence[str]) -> int:
    try:
        options = PARSER.parse(arguments)
    except OptionError as error:
        raise PARSER.wrong(str(error)) from None
    check(options)
    reader = LineReader(reader_properties(options))
    topic = options.given("topic")
    producer = connect_with(producer_properties(options)).producer(**overrides(options))
    sender = Sender(producer, topic, sync=options.has("sync"))
    try:
        for line in reader.lines(sys.stdin.buffer, prompt=sys.stdin.isatty() and sys.stdout.isatty()):
            sender.send(line)
    finally:
        producer.flush()
    return 1 if sender.failed else 0


def check(options: Options) -> None:
    PARSER.require(options, "topic")
    for old, new in RENAMED:
        if options.has(old) and options.has(new):
            raise PARSER.wrong(f"Options --{new} and --{old} cannot be specified together.")
    for old, new in RENAMED:
        if options.has(old):
            print(
                f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.",
            )
    servers_of(options)
    for option in (*BY_OPTION.values(), "max-partition-memory-bytes"):
        if PARSER.option(option).kind is int:
            options.integer(option)
    reader = options.given("line-reader")
    if reader.rpartition(".")[2] != "LineMessageReader":
        raise ToolError(f"--line-reader {reader}: Java classes cannot be loaded here; only the line reader exists")


def either(options: Options, old: str, new: str) -> str:
    return old if options.has(old) else new


def reader_properties(options: Options) -> dict[str, str]:
    given = options.texts(either(options, "property", "reader-property"))
    return file_properties(options, "reader-config") | pairs(given)


def producer_properties(options: Options) -> dict[str, str]:
    given = options.texts(either(options, "producer-property", "command-property"))
    properties = file_properties(options, either(options, "producer.config", "command-config")) | pairs(given)
    for key, option in BY_OPTION.items():
        if options.has(option) or key not in properties:
            properties[key] = options.given(option)
    if options.has("max-partition-memory-bytes"):
        properties["batch.size"] = options.given("max-partition-memory-bytes")
    properties["compression.type"] = compression(options)
    properties[SERVERS] = servers_of(options)
    return {"client.id": "console-producer"} | properties


def compression(options: Options) -> str:
    if not options.has("compression-codec"):
        return "none"
    return options.text("compression-codec") or "gzip"


def overrides(options: Options) -> dict[str, Any]:
    """Java's defaults where librdkafka has others: where keys go, and that nothing is written twice."""
    properties = producer_properties(options)
    found: dict[str, Any] = {"error_cb": lambda error: None}
    if "partitioner" not in properties:
        found["partitioner"] = "murmur2_random"
    if "delivery.timeout.ms" not in properties and "message.timeout.ms" not in properties:
        found["message.timeout.ms"] = DELIVERY_SECONDS * 1000
    safe = properties["acks"] in ("-1", "all") and int(properties["retries"]) > 0
    if "enable.idempotence" not in properties and safe:
        found["enable.idempotence"] = True
    return found


class Sender:
    def __init__(self, producer: Producer, topic: str, sync: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._sync = sync
        self.failed = 0

    def send(self, line: Line) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value=line.value, key=line.key, headers=line.headers, on_delivery=self._delivered
                )
                break
            except BufferError:
                self._producer.poll(FULL_QUEUE_SECONDS)
        if self._sync:
            self._producer.flush()
            if self.failed:
                raise ToolError("the record was not delivered")
        else:
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        from confluent_kafka import KafkaException

        self.failed += 1
        print(
            f"Error when sending message to topic {self._topic} with key: {size_of(message.key())}, "
            f"value: {size_of(message.value())} with error: {message_of(KafkaException(error))}",
            file=sys.stderr,
        )


def size_of(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"

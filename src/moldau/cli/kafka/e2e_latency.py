"""kafka-e2e-latency: send a record, wait until it was read, again and again, and print how long that took."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls import topics
from moldau.cli.calls.answers import demanded
from moldau.cli.kafka.connecting import BOOTSTRAP, SERVERS, connect_with, file_properties
from moldau.cli.kafka.formatters import java_double
from moldau.cli.kafka.options import Option, OptionError, Options, Parser, ToolError, optional_value, value

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

    from moldau.cli.connection import Connection

POLL_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0
REQUIRED: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
Headers = list[tuple[str, str | bytes | None]]


def number(name: str, argument: str, help: str) -> Option:
    return Option(name, help, argument, int, "0", argument_needed=False)


PARSER: Final = Parser(
    "This tool measures end-to-end latency in Kafka by sending messages and timing their reception.",
    BOOTSTRAP,
    value("topic", "topic-name", "REQUIRED: the topic."),
    value("num-records", "count", "REQUIRED: how many records to send.", kind=int),
    value("producer-acks", "producer-acks", "REQUIRED: 1 or all."),
    value("record-size", "bytes", "REQUIRED: the size of each value.", kind=int),
    number("record-key-size", "bytes", "The size of each key; no key without it."),
    number("record-header-key-size", "bytes", "The size of a header's key."),
    number("record-header-size", "bytes", "The size of a header's value, -1 for null."),
    number("num-headers", "count", "Headers of each record."),
    optional_value("command-config", "config-file", "A properties file for the clients."),
)


def main(arguments: Sequence[str]) -> int:
    try:
        options = PARSER.parse(named(arguments))
    except OptionError as error:
        raise PARSER.wrong(str(error)) from None
    check(options)
    properties = file_properties(options, "command-config") | {SERVERS: options.given("bootstrap-server")}
    connection = connect_with(properties)
    producer = connection.producer(
        **{"linger.ms": 0, "acks": options.given("producer-acks"), "error_cb": lambda error: None}
    )
    consumer = connection.consumer(
        **{
            "group.id": f"test-group-{time.time_ns() // 1_000_000}",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": 0,
            "error_cb": lambda error: None,
        }
    )
    try:
        begin_at_end(connection, consumer, options.given("topic"))
        measure(producer, consumer, options)
    finally:
        consumer.close()
    return 0


def named(arguments: Sequence[str]) -> list[str]:
    """Positional arguments, as releases before 4.2 took them, with their names."""
    if not arguments or any(f"--{name}" in arguments for name in REQUIRED) or arguments[0] in ("--help", "--version"):
        return list(arguments)
    if len(arguments) not in (5, 6):
        raise ToolError(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(arguments)}. "
            "Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config"
        )
    names = (*REQUIRED, "command-config")
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
        f"arguments instead: {', '.join(f'--{name}' for name in names)}"
    )
    return [part for name, given in zip(names, arguments, strict=False) for part in (f"--{name}", given)]


def check(options: Options) -> None:
    PARSER.require(options, *REQUIRED)
    if options.given("producer-acks") not in ("1", "all"):
        raise PARSER.wrong(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    if options.number("num-records") <= 0:
        raise PARSER.wrong("Value for --num-records must be a positive integer.")
    for name in ("record-size", "record-key-size", "record-header-key-size", "num-headers"):
        if options.number(name) < 0:
            raise PARSER.wrong(f"Value for --{name} must be a non-negative integer.")
    if options.number("record-header-size") < -1:
        raise PARSER.wrong("Value for --record-header-size must be a non-negative integer or -1 for null header value.")


def begin_at_end(connection: Connection, consumer: Consumer, topic: str) -> None:
    from confluent_kafka import TopicPartition

    if topic not in topics.names(connection):
        create_topic(connection, topic)
    partitions = consumer.list_topics(topic).topics[topic].partitions
    ends = []
    for index in partitions:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=POLL_SECONDS)
        ends.append(TopicPartition(topic, index, end))
    consumer.assign(ends)


def create_topic(connection: Connection, topic: str) -> None:
    print(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
    try:
        demanded(topics.create(connection, [topics.NewTopic(topic, 1, 1)])[topic])
    except Exception:
        print(f"Creation of topic {topic} failed")
        raise


def measure(producer: Producer, consumer: Consumer, options: Options) -> None:
    chosen = random.Random(0)
    latencies = []
    total = 0
    for sent in range(options.number("num-records")):
        key_size = options.number("record-key-size")
        key = letters(chosen, key_size)
        content = letters(chosen, options.number("record-size"))
        headers = made_headers(chosen, options)
        begin = time.perf_counter_ns()
        send(producer, options.given("topic"), key, content, headers)
        message = receive(consumer)
        elapsed = time.perf_counter_ns() - begin
        compare(message, key, content, headers)
        if sent % 1000 == 0:
            print(f"{sent}\t{java_double(elapsed / 1000.0 / 1000.0)}", flush=True)
        total += elapsed
        latencies.append(elapsed // 1_000_000)
    print(f"Avg latency: {total / len(latencies) / 1e6:.4f} ms")
    ordered = sorted(latencies)
    median, p99, p999 = (ordered[int(len(ordered) * part)] for part in (0.5, 0.99, 0.999))
    print(f"Percentiles: 50th = {median}, 99th = {p99}, 99.9th = {p999}")


def letters(chosen: random.Random, size: int) -> bytes:
    return bytes([chosen.randrange(26) + 65]) * size


def made_headers(chosen: random.Random, options: Options) -> Headers:
    key_size, size = options.number("record-header-key-size"), options.number("record-header-size")
    return [
        (letters(chosen, key_size).decode(), None if size < 0 else letters(chosen, size))
        for _ in range(options.number("num-headers"))
    ]


def send(producer: Producer, topic: str, key: bytes, content: bytes, headers: Headers) -> None:
    failures: list[Any] = []

    def delivered(error: Any, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer.produce(topic, content, key=key, headers=headers, on_delivery=delivered)
    producer.flush()
    if failures:
        from confluent_kafka import KafkaException

        raise KafkaException(failures[0])


def receive(consumer: Consumer) -> Message:
    deadline = time.monotonic() + POLL_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(LOOK_SECONDS)
        if message is not None and message.error() is None:
            return message
    raise ToolError(f"poll() timed out before finding a result (timeout:[{POLL_SECONDS * 1000:.0f}ms])")


def compare(message: Message, key: bytes, content: bytes, headers: Headers) -> None:
    for what, sent, read in (("value", content, message.value()), ("key", key, message.key() or b"")):
        if sent != read:
            raise ToolError(f"The message {what} read [{read!r}] did not match the message {what} sent [{sent!r}]")
    if list(message.headers() or []) != headers:
        raise ToolError("The message headers read did not match the message headers sent")

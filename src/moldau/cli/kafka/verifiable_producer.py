"""kafka-verifiable-producer: produce increasing numbers and report the fate of each as a line of JSON."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka.argument_parser import ArgumentParser, long
from moldau.cli.kafka.connecting import SERVERS, connect_with
from moldau.cli.kafka.failures import code_and_message, java_class, java_message
from moldau.cli.kafka.measuring import Throttler, now_ms
from moldau.cli.kafka.verifiable import add_servers, print_event, properties_in_file, read

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

OLD_FILE_OPTION: Final = "producer.config"
FULL_QUEUE_SECONDS: Final = 0.1


def parser() -> ArgumentParser:
    made = ArgumentParser(
        "verifiable-producer",
        "This tool produces increasing integers to the specified topic and prints JSON metadata to stdout on each "
        '"send" request, making externally visible which messages have been acked and which have not.',
    )
    made.add_argument("--topic", required=True, metavar="TOPIC", help="produce to this topic")
    add_servers(made)
    made.add_argument("--max-messages", type=int, default=-1, metavar="MAX-MESSAGES", help="-1: until it is stopped")
    made.add_argument("--throughput", type=int, default=-1, metavar="THROUGHPUT", help="messages/sec, -1: no limit")
    made.add_argument("--acks", type=int, default=-1, choices=(0, 1, -1), metavar="ACKS", help="0, 1 or -1")
    made.add_argument(f"--{OLD_FILE_OPTION}", metavar="CONFIG-FILE", help="old name of --command-config")
    made.add_argument("--message-create-time", type=long, default=-1, metavar="CREATE-TIME", help="first timestamp")
    made.add_argument("--value-prefix", type=int, metavar="VALUE-PREFIX", help="stands before each value, with a dot")
    made.add_argument(
        "--repeating-keys", type=int, metavar="REPEATING-KEYS", help="keys from 0 to this, again and again"
    )
    made.add_argument("--command-config", metavar="CONFIG-FILE", help="properties file of the producer")
    return made


def main(arguments: Sequence[str]) -> int:
    given = read(parser(), arguments, OLD_FILE_OPTION)
    if isinstance(given, int):
        return given
    producer = connect_with(properties_of(given)).producer(error_cb=lambda error: None, partitioner="murmur2_random")
    return Run(producer, given).produce()


def properties_of(given: Namespace) -> dict[str, str]:
    from_file = properties_in_file(given, OLD_FILE_OPTION)
    return {SERVERS: given.bootstrap_server, "acks": str(given.acks), "retries": "0"} | from_file


class Run:
    def __init__(self, producer: Producer, given: Namespace) -> None:
        self._producer = producer
        self._given = given
        self._sent = self._acked = 0
        self._stop = False
        self._start = now_ms()

    def produce(self) -> int:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        print_event("startup_complete")
        throttler = Throttler(self._given.throughput)
        limit = self._given.max_messages if self._given.max_messages >= 0 else sys.maxsize
        while self._sent < limit and not self._stop:
            self._send(self._sent)
            self._producer.poll(throttler.wait(self._sent))
        self._producer.flush()
        print_event("shutdown_complete")
        rate = 1000 * self._acked / max(1, now_ms() - self._start)
        print_event(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._given.throughput,
            avg_throughput=rate,
        )
        return 0

    def _on_signal(self, number: int, frame: object) -> None:
        self._stop = True

    def _send(self, number: int) -> None:
        prefix, keys = self._given.value_prefix, self._given.repeating_keys
        content = str(number) if prefix is None else f"{prefix}.{number}"
        key = None if keys is None else str(number % keys)
        more = {}
        if self._given.message_create_time != -1:
            more["timestamp"] = self._given.message_create_time + now_ms() - self._start
        self._sent += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._report(key, content, error, message)

        while True:
            try:
                self._producer.produce(self._given.topic, content, key=key, on_delivery=delivered, **more)
                return
            except BufferError:
                self._producer.poll(FULL_QUEUE_SECONDS)

    def _report(self, key: str | None, content: str, error: KafkaError | None, message: Message) -> None:
        topic = self._given.topic
        if error is None:
            self._acked += 1
            place = {"offset": message.offset(), "topic": topic, "partition": message.partition()}
            print_event("producer_send_success", key=key, value=content, **place)
            return
        from confluent_kafka import KafkaException

        code, text = code_and_message(KafkaException(error))
        print_event(
            "producer_send_error",
            key=key,
            value=content,
            exception=f"class {java_class(code or -1)}",
            message=java_message(code or -1, text),
            topic=topic,
        )

"""kafka-console-consumer: print the records of topics.

Formatters and deserializers are those that come with Kafka, by the names of their Java classes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.kafka.connecting import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    NEW_CONSUMER,
    SERVERS,
    ZOOKEEPER,
    connect_with,
    file_properties,
    names_cluster,
    pairs,
    servers_of,
)
from moldau.cli.kafka.failures import code_and_message, message_of
from moldau.cli.kafka.formatters import DEFAULT_FORMATTER, Formatter, make_formatter
from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, value

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH: Final = 500
LOOK_SECONDS: Final = 0.2
"""Short waits, so that Ctrl-C is heard."""
INTERRUPTED: Final = 130
UNKNOWN_TOPIC: Final = 3

PARSER: Final = Parser(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    value("topic", "topic", "The topic to read."),
    value("include", "regex", "A regular expression for the topics to read."),
    value("whitelist", "regex", hidden=True),
    value("partition", "partition", "The partition to read, from its end unless --offset says otherwise.", kind=int),
    value("offset", "consume offset", "Where to begin: a number, earliest or latest.", default="latest"),
    value("consumer-property", "consumer_prop", "Old name of --command-property."),
    value("command-property", "consumer_prop", "A setting of the consumer, key=value."),
    value("consumer.config", "config file", "Old name of --command-config."),
    COMMAND_CONFIG,
    value("formatter", "class", "The class that formats records.", default=DEFAULT_FORMATTER),
    value("property", "prop", "Old name of --formatter-property."),
    value(
        "formatter-property",
        "prop",
        "key=value for the formatter: print.timestamp, print.key, print.offset, print.epoch, print.partition, "
        "print.headers, print.value, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
        "value.deserializer, headers.deserializer.",
    ),
    value("formatter-config", "config file", "A properties file for the formatter."),
    flag("from-beginning", "Begin with the oldest record where the group has no position."),
    value("max-messages", "num_messages", "End after so many records.", kind=int),
    value("timeout-ms", "timeout_ms", "End when no record came for so long.", kind=int),
    flag("skip-message-on-error", "Go on after a record that could not be printed."),
    BOOTSTRAP,
    value("key-deserializer", "deserializer for keys", "The class that reads keys."),
    value("value-deserializer", "deserializer for values", "The class that reads values."),
    flag("enable-systest-events", "Tell when the consumer has ended."),
    value("isolation-level", "level", "read_committed or read_uncommitted.", default="read_uncommitted"),
    value("group", "consumer group id", "The group to read as."),
    ZOOKEEPER,
    NEW_CONSUMER,
)


def main(arguments: Sequence[str]) -> int:
    try:
        options = PARSER.parse(arguments)
    except OptionError as error:
        raise PARSER.wrong(str(error)) from None
    check(options)
    formatter = build_formatter(options)
    properties = consumer_properties(options)
    consumer = connect_with(properties).consumer(error_cb=lambda error: None, **settings(options))
    count = 0
    code = 0
    try:
        # Records go to the bytes below, past what is still held of the lines above.
        sys.stdout.flush()
        start(consumer, options)
        for message in received(consumer, options):
            count += 1
            write(formatter, message, options.has("skip-message-on-error"))
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        sys.stdout.flush()
        consumer.close()
        print(f"Processed a total of {count} messages", file=sys.stderr)
    if options.has("enable-systest-events"):
        print("shutdown_complete")
    return code


# -- options -------------------------------------------------------------------------------------------------------


def check(options: Options) -> None:
    if not options.has("whitelist"):
        PARSER.require_one_of(options, "topic", "include")
    if options.has("partition"):
        if not options.has("topic"):
            raise PARSER.wrong("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise PARSER.wrong("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise PARSER.wrong("The partition is required when offset is specified.")
    if not names_cluster(options):
        raise PARSER.missing("bootstrap-server")
    for number in ("partition", "max-messages", "timeout-ms"):
        options.integer(number)
    check_offset(options)
    for old, new in (("consumer-property", "command-property"), ("consumer.config", "command-config")):
        if options.has(old) and options.has(new):
            raise PARSER.wrong(f"Options --{old} and --{new} cannot be specified together.")
    for old, new in (("consumer-property", "command-property"), ("consumer.config", "command-config")):
        if options.has(old):
            tell_old(old, new)
    if options.has("property") and options.has("formatter-property"):
        raise PARSER.wrong("Options --property and --formatter-property cannot be specified together.")
    if options.has("property"):
        tell_old("property", "formatter-property")


def tell_old(old: str, new: str) -> None:
    print(f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.")


def consumer_properties(options: Options) -> dict[str, str]:
    config = "consumer.config" if options.has("consumer.config") else "command-config"
    extra = "consumer-property" if options.has("consumer-property") else "command-property"
    from_file, given = file_properties(options, config), pairs(options.texts(extra))
    groups = {each for each in (options.text("group"), from_file.get("group.id"), given.get("group.id")) if each}
    if len(groups) > 1:
        listed = ", ".join(f"'{group}'" for group in sorted(groups))
        raise PARSER.wrong(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {listed}"
        )
    if groups and options.has("partition"):
        raise PARSER.wrong("Options group and partition cannot be specified together.")
    properties = {"client.id": "console-consumer"} | from_file | given
    set_reset(options, properties)
    properties[SERVERS] = servers_of(options)
    if options.has("isolation-level") or "isolation.level" not in properties:
        properties["isolation.level"] = options.given("isolation-level")
    if groups:
        properties["group.id"] = groups.pop()
    else:
        properties["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        properties.setdefault("enable.auto.commit", "false")
    return properties


def set_reset(options: Options, properties: dict[str, str]) -> None:
    wanted = properties.get("auto.offset.reset")
    if wanted is None:
        properties["auto.offset.reset"] = "earliest" if options.has("from-beginning") else "latest"
    elif options.has("from-beginning") and wanted != "earliest":
        raise ToolError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={wanted}', please remove one option"
        )


def settings(options: Options) -> dict[str, Any]:
    # Positions are stored when records were printed; Java's consumer creates the topic it is asked for.
    return {"enable.auto.offset.store": False, "allow.auto.create.topics": True, "enable.partition.eof": False}


def build_formatter(options: Options) -> Formatter:
    given = "property" if options.has("property") else "formatter-property"
    properties = file_properties(options, "formatter-config")
    for option, key in (("key-deserializer", "key.deserializer"), ("value-deserializer", "value.deserializer")):
        name = options.text(option)
        if name:
            properties[key] = name
    properties |= pairs(options.texts(given))
    try:
        return make_formatter(options.given("formatter"), properties)
    except ValueError as error:
        raise PARSER.wrong(str(error)) from None


def check_offset(options: Options) -> None:
    text = options.given("offset")
    if text.lower() not in ("earliest", "latest") and not text.isdigit():
        raise PARSER.wrong(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long."
        )


def first_offset(options: Options) -> int:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

    if not options.has("offset"):
        return int(OFFSET_BEGINNING if options.has("from-beginning") else OFFSET_END)
    text = options.given("offset").lower()
    named = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
    return int(named.get(text, text))


# -- reading -------------------------------------------------------------------------------------------------------


def start(consumer: Consumer, options: Options) -> None:
    from confluent_kafka import TopicPartition

    partition, topic = options.integer("partition"), options.text("topic")
    if topic is not None and partition is not None:
        consumer.assign([TopicPartition(topic, partition, first_offset(options))])
    elif topic is not None:
        consumer.subscribe([topic])
    else:
        pattern = options.text("include") or options.given("whitelist").replace(",", "|")
        consumer.subscribe([f"^({pattern})$"])


def received(consumer: Consumer, options: Options) -> Any:
    """Records until enough have come, or none came for too long."""
    limit = options.integer("max-messages")
    wait = options.integer("timeout-ms")
    patience = wait / 1000 if wait is not None and wait >= 0 else None
    seen = 0
    last = time.monotonic()
    warned: set[str] = set()
    while limit is None or limit < 0 or seen < limit:
        wanted = BATCH if limit is None or limit < 0 else min(BATCH, limit - seen)
        looked = LOOK_SECONDS if patience is None else min(LOOK_SECONDS, max(0.001, patience))
        messages = consumer.consume(wanted, looked)
        for message in messages:
            if message.error() is not None:
                report(message, warned)
                continue
            seen += 1
            yield message
            consumer.store_offsets(message)
            last = time.monotonic()
        if messages:
            sys.stdout.flush()
        elif patience is not None and time.monotonic() - last > patience:
            return


def report(message: Message, warned: set[str]) -> None:
    """A topic may come later, and a broker come back; other errors end the tool."""
    from confluent_kafka import KafkaException

    error: Any = message.error()
    problem = KafkaException(error)
    code, _ = code_and_message(problem)
    if not error.retriable() and code != UNKNOWN_TOPIC and not error.name().startswith("_"):
        raise problem
    text = f"WARN {message.topic() or ''}: {message_of(problem)}"
    if text not in warned:
        warned.add(text)
        print(text, file=sys.stderr)


def write(formatter: Formatter, message: Message, skip: bool) -> None:
    try:
        formatter.write(message, sys.stdout.buffer)
    except ValueError as error:
        if not skip:
            raise ToolError(str(error)) from None
        print(f"Error processing message, skipping this message: {error}", file=sys.stderr)

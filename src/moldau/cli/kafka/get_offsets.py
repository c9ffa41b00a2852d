"""kafka-get-offsets: offsets of partitions at the start, the end, or a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import offsets
from moldau.cli.calls.cluster import metadata
from moldau.cli.kafka.connecting import BOOTSTRAP, BROKER_LIST, COMMAND_CONFIG, connect, names_cluster, servers_of
from moldau.cli.kafka.failures import is_failure, message_of
from moldau.cli.kafka.group_errors import class_and_message
from moldau.cli.kafka.options import Options, Parser, ToolError, UsageError, flag, value
from moldau.cli.kafka.topics import include_list
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

PURPOSE: Final = "An interactive shell for getting topic-partition offsets."
RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
TIMES: Final = {
    "latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5,
    "earliest-pending-upload": -6,
}  # fmt: skip
TIME_HELP: Final = (
    "Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / "
    "-6 or earliest-pending-upload, or a specified long format timestamp"
)
FIRST_OF_TIERED: Final = -4
ALL: Final = 2**31 - 1

PARSER: Final = Parser(
    PURPOSE,
    BOOTSTRAP,
    BROKER_LIST,
    value("topic-partitions", "topic1:1,topic2:0-3,topic3", "Patterns of topics with partitions or ranges of them."),
    value("topic", "topic", "The topic; a regular expression."),
    value("partitions", "partition ids", "Partitions, separated by commas."),
    value("time", "timestamp", "A timestamp, latest, earliest or max-timestamp.", default="latest"),
    COMMAND_CONFIG,
    flag("exclude-internal-topics", "Leave out internal topics."),
)

Wanted = Callable[[str, int], bool]


def main(arguments: Sequence[str]) -> int:
    try:
        options = PARSER.parse(arguments)
        if not names_cluster(options):
            raise PARSER.missing("bootstrap-server")
        check_servers(options)
        show_offsets(options)
    except UsageError:
        raise
    except Exception as error:
        if not is_failure(error):
            raise
        raise ToolError(f"Error occurred: {message_of(error)}") from None
    return 0


def check_servers(options: Options) -> None:
    if not all(re.fullmatch(r".*:\d+", each.strip()) for each in servers_of(options).split(",")):
        raise PARSER.wrong("Please provide valid host:port like host1:9091,host2:9092\n")


def show_offsets(options: Options) -> None:
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise ToolError("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = parse_time(options.given("time"))
    wanted = filter_of(options)
    connection = connect(options)
    hidden = INTERNAL_TOPICS if options.has("exclude-internal-topics") else ()
    topics = metadata(connection).topics
    partitions = sorted(
        f"{name}-{index}"
        for name, topic in topics.items()
        if name not in hidden
        for index in topic.partitions
        if wanted(name, index)
    )
    if not partitions:
        raise ToolError("Could not match any topic-partitions with the specified filters")
    places = [TopicPartition(text.rpartition("-")[0], int(text.rpartition("-")[2])) for text in partitions]
    for (topic_name, index), offset in offsets_at(connection, places, timestamp):
        print(f"{topic_name}:{index}:{offset}")


def offsets_at(
    connection: Connection, places: list[TopicPartition], timestamp: int
) -> Iterator[tuple[TopicPartition, int]]:
    if timestamp <= FIRST_OF_TIERED:
        raise ToolError("this offset belongs to tiered storage, which librdkafka cannot ask for")
    answers = offsets.listed(connection, places, timestamp)
    for place in places:
        answer = answers[place]
        if not isinstance(answer, int):
            print(
                f"Skip getting offsets for topic-partition {place} due to error: {class_and_message(answer)}",
                file=sys.stderr,
            )
        elif answer >= 0:
            yield place, answer


def parse_time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise ToolError(f"Malformed time argument {text}. {TIME_HELP}") from None


def filter_of(options: Options) -> Wanted:
    if options.has("topic-partitions"):
        rules = [rule_of(text) for text in options.given("topic-partitions").split(",")]
        return lambda name, index: any(rule(name, index) for rule in rules)
    matches = include_list(options.text("topic") or ".*")
    text = options.text("partitions")
    if not text:
        return lambda name, index: bool(matches(name))
    try:
        indexes = {int(each) for each in text.split(",")}
    except ValueError:
        raise ToolError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None
    return lambda name, index: index in indexes and bool(matches(name))


def rule_of(text: str) -> Wanted:
    """`topic`, `topic:3`, `topic:0-3` (without 3), `topic:2-`, `topic:-3`, each without the topic as well."""
    found = RULE.fullmatch(text)
    if found is None:
        raise ToolError(f"Invalid rule specification: {text}")
    topic, only, lower, upper = found.groups()
    matches = include_list(topic or ".*")
    if only:
        return lambda name, index: index == int(only) and bool(matches(name))
    first, end = int(lower or 0), int(upper or ALL)
    return lambda name, index: first <= index < end and bool(matches(name))

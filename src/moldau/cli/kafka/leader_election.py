"""kafka-leader-election: elect preferred or unclean leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.cli.calls.elections import Election, elect
from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, ZOOKEEPER, connect, names_cluster
from moldau.cli.kafka.failures import java_text
from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, value
from moldau.cli.kafka.partition_files import field, partitions_in
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

TYPES: Final = {"preferred": Election.PREFERRED, "unclean": Election.UNCLEAN}
ONE_OF: Final = ("topic", "all-topic-partitions", "path-to-json-file")

PARSER: Final = Parser(
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas.",
    BOOTSTRAP,
    ZOOKEEPER,
    value("admin.config", "config file", "Old name of --command-config."),
    COMMAND_CONFIG,
    value(
        "path-to-json-file",
        "Path to JSON file",
        'The partitions, in a file like {"partitions": [{"topic": "foo", "partition": 1}]}.',
    ),
    value("topic", "topic name", "The topic, with --partition."),
    value("partition", "partition id", "The partition of --topic.", kind=int),
    flag("all-topic-partitions", "All partitions for which such an election is possible."),
    value("election-type", "election type", "preferred, or unclean for partitions without a leader."),
)


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    check(options)
    kind = options.given("election-type")
    if kind.lower() not in TYPES:
        raise OptionError(f"Cannot parse argument '{kind}' of option election-type")
    wanted = partitions_of(options)
    if options.has("admin.config"):
        print(
            "Option --admin.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    tell(kind.upper(), elect(connect(options, "admin.config", "command-config"), TYPES[kind.lower()], wanted))
    return 0


def check(options: Options) -> None:
    missing = [] if names_cluster(options) else ["bootstrap-server"]
    missing += [] if options.has("election-type") else ["election-type"]
    if missing:
        raise ToolError(f"Missing required option(s): {', '.join(missing)}")
    PARSER.refuse_together(options, "admin.config", ("command-config",))
    if sum(map(options.has, ONE_OF)) != 1:
        raise ToolError(f"One and only one of the following options is required: {', '.join(ONE_OF)}")
    if options.has("topic") and not options.has("partition"):
        raise ToolError("Missing required option(s): partition")
    if not options.has("topic") and options.has("partition"):
        raise ToolError("Option partition is only allowed if topic is used")


def partitions_of(options: Options) -> list[TopicPartition] | None:
    if options.has("topic"):
        return [TopicPartition(options.given("topic"), options.number("partition"))]
    if not options.has("path-to-json-file"):
        return None
    entries = partitions_in(
        options.given("path-to-json-file"),
        "Replica election data is empty",
        'Replica election data is missing "partitions" field',
    )
    found = [TopicPartition(field(entry, "topic", str), field(entry, "partition", int)) for entry in entries]
    twice = sorted({str(place) for place in found if found.count(place) > 1})
    if twice:
        raise ToolError(f"Replica election data contains duplicate partitions: [{', '.join(twice)}]")
    return found


def tell(kind: str, answers: Mapping[TopicPartition, KafkaError | None]) -> None:
    elected, valid, failed = [], [], {}
    for place, refused in answers.items():
        if refused is None:
            elected.append(str(place))
        elif refused.code == ErrorCode.ELECTION_NOT_NEEDED:
            valid.append(str(place))
        else:
            failed[place] = java_text(refused.code, refused.message)
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if valid:
        print(f"Valid replica already elected for partitions {', '.join(valid)}")
    for place, problem in failed.items():
        print(f"Error completing leader election ({kind}) for partition: {place}: {problem}")
    if failed:
        raise ToolError(f"{len(failed)} replica(s) could not be elected")

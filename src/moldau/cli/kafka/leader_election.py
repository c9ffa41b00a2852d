"""kafka-leader-election: elect preferred or unclean leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, ZOOKEEPER, connect, names_cluster
from moldau.cli.kafka.failures import java_text
from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, value
from moldau.cli.kafka.partition_files import field, partitions_in
from moldau.client.cluster import check as raise_error
from moldau.types.errors import ErrorCode
from moldau.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

TYPES: Final = {"preferred": 0, "unclean": 1}
TIMEOUT_MS: Final = 30_000
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

Partition = tuple[str, int]


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
    cluster = connect(options, "admin.config", "command-config").wire()
    request = ElectLeadersRequest(
        election_type=TYPES[kind.lower()],
        topic_partitions=None if wanted is None else grouped(wanted),
        timeout_ms=TIMEOUT_MS,
    )
    answer = cluster.any(request, ElectLeadersResponse)
    raise_error(answer.error_code, "elect leaders")
    tell(kind.upper(), answer)
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


def partitions_of(options: Options) -> list[Partition] | None:
    if options.has("topic"):
        return [(options.given("topic"), options.number("partition"))]
    if not options.has("path-to-json-file"):
        return None
    entries = partitions_in(
        options.given("path-to-json-file"),
        "Replica election data is empty",
        'Replica election data is missing "partitions" field',
    )
    found = [(field(entry, "topic", str), field(entry, "partition", int)) for entry in entries]
    twice = sorted({f"{topic}-{index}" for topic, index in found if found.count((topic, index)) > 1})
    if twice:
        raise ToolError(f"Replica election data contains duplicate partitions: [{', '.join(twice)}]")
    return found


def grouped(partitions: list[Partition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]


def tell(kind: str, answer: ElectLeadersResponse) -> None:
    elected, valid, failed = [], [], {}
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            place = f"{topic.topic}-{each.partition_id}"
            if each.error_code == ErrorCode.NONE:
                elected.append(place)
            elif each.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                valid.append(place)
            else:
                failed[place] = java_text(each.error_code, each.error_message)
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if valid:
        print(f"Valid replica already elected for partitions {', '.join(valid)}")
    for place, problem in failed.items():
        print(f"Error completing leader election ({kind}) for partition: {place}: {problem}")
    if failed:
        raise ToolError(f"{len(failed)} replica(s) could not be elected")

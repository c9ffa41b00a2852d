"""kafka-topics: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls import topics as calls
from moldau.cli.calls.answers import demanded
from moldau.cli.calls.cluster import metadata
from moldau.cli.calls.topics import BROKERS_CHOICE
from moldau.cli.kafka.connecting import CLUSTER_OPTIONS, connect, names_cluster
from moldau.cli.kafka.failures import code_and_message, is_failure, message_of
from moldau.cli.kafka.options import Options, Parser, ToolError, UsageError, flag, value
from moldau.types.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
REPORTS: Final = (
    "under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions", "at-min-isr-partitions",
)  # fmt: skip
OVERRIDES: Final = "topics-with-overrides"
MOST_REPLICAS: Final = 2**15 - 1
TOPIC_EXISTS: Final = 36
CONFIGS_TOOL: Final = " (To alter topic configurations, the kafka-configs tool can be used.)"
COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)

PARSER: Final = Parser(
    "This tool helps to create, delete, describe, or change a topic.",
    *CLUSTER_OPTIONS,
    flag("list", "List all topics."),
    flag("create", "Create a topic."),
    flag("delete", "Delete topics."),
    flag("alter", "Raise the number of partitions." + CONFIGS_TOOL),
    flag("describe", "Show details of topics."),
    value("topic", "topic", "The topic; a regular expression, except for --create."),
    value("topic-id", "topic-id", "The id of the topic to describe."),
    value("config", "name=value", "A setting of the topic to create; repeat it for more." + CONFIGS_TOOL),
    value("delete-config", "name", "No longer supported since Kafka 4.0."),
    value("partitions", "# of partitions", "How many partitions to create, or to have after --alter.", kind=int),
    value("replication-factor", "replication factor", "Copies of each partition to create.", kind=int),
    value("replica-assignment", "broker:broker,broker:broker", "Which brokers hold each partition."),
    flag("under-replicated-partitions", "With --describe: only partitions that lack replicas in sync."),
    flag("unavailable-partitions", "With --describe: only partitions without a living leader."),
    flag("under-min-isr-partitions", "With --describe: only partitions below their min.insync.replicas."),
    flag("at-min-isr-partitions", "With --describe: only partitions at their min.insync.replicas."),
    flag(OVERRIDES, "With --describe: only topics with settings of their own."),
    flag("if-exists", "With --alter, --delete and --describe: no error where the topic does not exist."),
    flag("if-not-exists", "With --create: no error where the topic exists."),
    flag("exclude-internal", "Leave out internal topics."),
    value("partition-size-limit-per-response", "number", "Most partitions in one answer of a broker.", kind=int),
)


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        raise PARSER.wrong("Create, delete, describe, or change a topic.")
    options = PARSER.parse(arguments)
    check(options)
    try:
        connection = connect(options)
        action = next(name for name in ACTIONS if options.has(name))
        {"create": create, "list": list_topics, "alter": alter, "describe": describe, "delete": delete}[action](
            connection, options
        )
    except UsageError:
        raise
    except Exception as error:
        if not is_failure(error):
            raise
        print(f"Error while executing topic command : {message_of(error)}")
        return 1
    return 0


def check(options: Options) -> None:
    if sum(map(options.has, ACTIONS)) != 1:
        raise PARSER.wrong("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if not names_cluster(options):
        raise ToolError("--bootstrap-server must be specified")
    if options.has("describe") and options.has("if-exists") and not (options.has("topic") or options.has("topic-id")):
        raise PARSER.wrong("--topic or --topic-id is required to describe a topic")
    if not options.has("list") and not options.has("describe"):
        PARSER.require(options, "topic")
    if options.has("alter"):
        if options.has("config"):
            raise PARSER.wrong(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]"'
                + CONFIGS_TOOL
            )
        PARSER.require(options, "partitions")
    for option, allowed in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("alter", "create")),
    ):
        refuse_outside(options, option, allowed)
    if options.has("create"):
        PARSER.refuse_together(options, "replica-assignment", ("partitions", "replication-factor"))
    for report in REPORTS:
        refuse_outside(options, report, ("describe",), OVERRIDES)
    refuse_outside(options, OVERRIDES, ("describe",), *REPORTS)
    refuse_outside(options, "if-exists", ("alter", "delete", "describe"))
    refuse_outside(options, "if-not-exists", ("create",))
    refuse_outside(options, "exclude-internal", ("list", "describe"))


def refuse_outside(options: Options, option: str, allowed: Sequence[str], *also: str) -> None:
    PARSER.refuse_together(options, option, [*(name for name in ACTIONS if name not in allowed), *also])


# -- actions -------------------------------------------------------------------------------------------------------


def create(connection: Connection, options: Options) -> None:

    name = options.given("topic")
    settings = topic_settings(options)
    partitions, factor = options.integer("partitions"), options.integer("replication-factor")
    assignment = replica_assignment(options.text("replica-assignment") or "")
    if "." in name or "_" in name:
        print(COLLISION)
    if factor is not None and not 1 <= factor <= MOST_REPLICAS:
        raise ToolError(f"The replication factor must be between 1 and {MOST_REPLICAS} inclusive")
    if partitions is not None and partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    if assignment:
        wanted = calls.NewTopic(name, config=settings, assignment=assignment)
    else:
        wanted = calls.NewTopic(name, partitions or BROKERS_CHOICE, factor or BROKERS_CHOICE, settings)
    try:
        demanded(calls.create(connection, [wanted])[name])
    except Exception as error:
        if options.has("if-not-exists") and code_and_message(error)[0] == TOPIC_EXISTS:
            return
        raise
    print(f"Created topic {name}.")


def topic_settings(options: Options) -> dict[str, str]:
    found = {}
    for text in options.texts("config"):
        parts = re.split(r"\s*=\s*", text)
        if len(parts) != 2 or not parts[1]:
            raise ToolError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        found[parts[0].strip()] = parts[1].strip()
    return found


def replica_assignment(text: str) -> list[list[int]]:
    found: list[list[int]] = []
    for index, part in enumerate(text.split(",") if text else []):
        try:
            brokers = [int(each.strip()) for each in part.split(":")]
        except ValueError as error:
            raise ToolError(f"Invalid replica assignment '{part}': expected broker ids, broker:broker") from error
        twice = sorted({each for each in brokers if brokers.count(each) > 1})
        if twice:
            raise ToolError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        if found and len(brokers) != len(found[0]):
            raise ToolError(f"Partition {index} has different replication factor: {brokers}")
        found.append(brokers)
    return found


def list_topics(connection: Connection, options: Options) -> None:
    print("\n".join(matching_topics(connection, options)))


def alter(connection: Connection, options: Options) -> None:
    assignment = replica_assignment(options.text("replica-assignment") or "")
    names = existing_topics(connection, options)
    if not names:
        return
    total = options.number("partitions")
    topics = metadata(connection).topics
    added = {name: assignment[len(topics[name].partitions) :] for name in names}
    for answer in calls.add_partitions(connection, dict.fromkeys(names, total), added).values():
        demanded(answer)


def delete(connection: Connection, options: Options) -> None:
    names = existing_topics(connection, options)
    if names:
        for answer in calls.delete(connection, names).values():
            demanded(answer)


def describe(connection: Connection, options: Options) -> None:
    from moldau.cli.kafka.topic_descriptions import describe_topics, print_topic, topic_of_id

    wanted_id = options.text("topic-id")
    if wanted_id is not None:
        name = topic_of_id(connection, wanted_id)
        if name is None and not options.has("if-exists"):
            raise ToolError(f"TopicId '{wanted_id}' does not exist as expected")
        names = [name] if name else []
    else:
        names = existing_topics(connection, options)
    if not names:
        return
    reports = [report for report in REPORTS if options.has(report)]
    limit = options.integer("partition-size-limit-per-response") or 2000
    described = describe_topics(connection, names, limit)
    for topic in described.topics:
        print_topic(topic, described.live_brokers, reports, overrides_only=options.has(OVERRIDES))


# -- which topics --------------------------------------------------------------------------------------------------


def matching_topics(connection: Connection, options: Options) -> list[str]:
    pattern = options.text("topic")
    matches = include_list(pattern) if pattern is not None else (lambda name: True)
    names = calls.names(connection)
    hidden = INTERNAL_TOPICS if options.has("exclude-internal") else ()
    return [name for name in names if name not in hidden and matches(name)]


def existing_topics(connection: Connection, options: Options) -> list[str]:
    names = matching_topics(connection, options)
    pattern = options.text("topic")
    if not names and pattern and not options.has("if-exists"):
        raise ToolError(f"Topic '{pattern}' does not exist as expected")
    return names


def include_list(text: str) -> Any:
    """Kafka's topic filter: a regular expression for the whole name, in which a comma separates alternatives."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(pattern)
    except re.error:
        raise ToolError(f"{pattern} is an invalid regex.") from None
    return compiled.fullmatch

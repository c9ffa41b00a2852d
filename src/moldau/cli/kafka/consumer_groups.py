"""kafka-consumer-groups: list and describe groups, reset and delete their offsets, delete groups.

As in Apache Kafka's tool, what the cluster refuses is told on standard output and the exit code stays 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka.connecting import (
    CLUSTER_OPTIONS,
    NEW_CONSUMER,
    SERVERS,
    connect_with,
    file_properties,
    names_cluster,
    servers_of,
)
from moldau.cli.kafka.failures import is_failure
from moldau.cli.kafka.group_errors import IllegalArgument, print_error, reason
from moldau.cli.kafka.options import Options, Parser, ToolError, UsageError, flag, optional_value, value

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS: Final = (
    "to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file",
)  # fmt: skip
LEVELS: Final = ("list", "describe", "delete", "reset-offsets")
STATES: Final = (
    "Reconciling", "Assigning", "CompletingRebalance", "Stable", "Dead", "Empty", "PreparingRebalance",
)  # fmt: skip
TYPES: Final = ("Classic", "Consumer")
NOT_EXECUTED: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)

PARSER: Final = Parser(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets.",
    *CLUSTER_OPTIONS,
    NEW_CONSUMER,
    value("group", "consumer group", "The group to work on; may be repeated."),
    value("topic", "topic", "A topic to reset or delete offsets of, or topic:0,1,2; may be repeated."),
    flag("all-topics", "With --reset-offsets: all topics the group has offsets for."),
    flag("list", "List all groups."),
    flag("describe", "Show a group's offsets and lag, its members or its state."),
    flag("all-groups", "All groups."),
    flag("delete", "Delete groups with their offsets."),
    value("timeout", "timeout (ms)", "How long to wait for the cluster.", kind=int, default="30000"),
    flag("reset-offsets", "Move the offsets of a group without members; --dry-run or --execute."),
    flag("delete-offsets", "Delete a group's offsets of topics."),
    flag("dry-run", "Show what --reset-offsets would do."),
    flag("execute", "Do what --reset-offsets says."),
    flag("export", "Print the result of --reset-offsets as CSV."),
    value("to-offset", "offset", "Reset to an offset.", kind=int),
    value("from-file", "path to CSV file", "Reset to the offsets of a CSV file."),
    value("to-datetime", "datetime", "Reset to a time: 'YYYY-MM-DDThh:mm:ss.sss'."),
    value("by-duration", "duration", "Reset to a time before now: 'PnDTnHnMnS'."),
    flag("to-earliest", "Reset to the first offset."),
    flag("to-latest", "Reset to the end."),
    flag("to-current", "Reset to the current offset."),
    value("shift-by", "number-of-offsets", "Move by a number of offsets, forward or back.", kind=int),
    flag("members", "With --describe: the members.", available_if=("describe",)),
    flag("verbose", "With --describe: more columns.", available_if=("describe",)),
    flag("offsets", "With --describe: offsets and lag, the default.", available_if=("describe",)),
    optional_value(
        "state", "String", "With --describe: the state; with --list: all, or those in it.",
        available_if=("describe", "list"),
    ),
    optional_value("type", "String", "With --list: the type of all, or those of it.", available_if=("list",)),
    value("validate-regex", "regex", "Check a regular expression in RE2's syntax."),
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    check(options)
    if sum(map(options.has, ACTIONS)) != 1:
        listed = ", ".join(f"--{name}" for name in ACTIONS)
        raise PARSER.wrong(f"Command must include exactly one action: {listed}")
    if options.has("validate-regex"):
        validate_regex(options.given("validate-regex"))
        return 0
    timeout = str(options.number("timeout"))
    waits = {"request.timeout.ms": timeout, "default.api.timeout.ms": timeout}
    connection = connect_with(waits | file_properties(options, "command-config") | {SERVERS: servers_of(options)})
    try:
        connection.probe()
    except Exception as error:
        if is_failure(error):
            raise ToolError(f"Executing consumer group command failed due to {error}") from None
        raise
    try:
        act(connection, options)
    except IllegalArgument as error:
        raise PARSER.wrong(str(error)) from None
    except UsageError:
        raise
    except Exception as error:
        if not is_failure(error):
            raise
        print_error(f"Executing consumer group command failed due to {reason(error)}")
    return 0


def act(connection: Connection, options: Options) -> None:
    if options.has("list"):
        from moldau.cli.kafka.group_lists import list_groups

        states = named(options, "state", "states", STATES)
        types = named(options, "type", "types", TYPES)
        list_groups(connection, states, types)
    elif options.has("describe"):
        from moldau.cli.kafka.group_descriptions import describe_groups

        describe_groups(connection, groups_of(connection, options), options)
    elif options.has("delete"):
        from moldau.cli.kafka.group_deletions import delete_groups

        delete_groups(connection, groups_of(connection, options))
    elif options.has("delete-offsets"):
        from moldau.cli.kafka.group_deletions import delete_offsets

        delete_offsets(connection, options.given("group"), options.texts("topic"))
    else:
        from moldau.cli.kafka.group_resets import reset_offsets

        reset_offsets(connection, groups_of(connection, options), options)


def check(options: Options) -> None:
    if not options.has("validate-regex") and not names_cluster(options):
        raise PARSER.missing("bootstrap-server")
    selected = options.has("group") or options.has("all-groups")
    if options.has("describe"):
        check_describe(options, selected)
    if options.has("delete"):
        if not selected:
            raise PARSER.wrong("Option [delete] takes one of these options: [all-groups], [group]")
        if options.has("topic"):
            raise PARSER.wrong("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise PARSER.wrong("Option [delete-offsets] takes the following options: [topic], [group]")
    if options.has("reset-offsets"):
        check_reset(options, selected)
    PARSER.refuse_together(options, "group", ("all-groups", "list"))
    PARSER.refuse_together(options, "topic", ("list", "describe"))


def check_describe(options: Options, selected: bool) -> None:
    if not selected:
        raise PARSER.wrong("Option [describe] takes one of these options: [all-groups], [group]")
    if sum(map(options.has, ("members", "offsets", "state"))) > 1:
        raise PARSER.wrong("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if options.text("state") is not None:
        raise PARSER.wrong("Option [describe] does not take a value for [state]")


def check_reset(options: Options, selected: bool) -> None:
    import sys

    if options.has("dry-run") and options.has("execute"):
        raise PARSER.wrong("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        print(NOT_EXECUTED, file=sys.stderr)
    if not selected:
        raise PARSER.wrong("Option [reset-offsets] takes one of these options: [all-groups], [group]")
    for scenario in SCENARIOS:
        PARSER.refuse_together(options, scenario, [each for each in SCENARIOS if each != scenario])


def groups_of(connection: Connection, options: Options) -> list[str]:
    if not options.has("all-groups"):
        return options.texts("group")
    from moldau.cli.kafka.group_lists import all_groups

    return [group.group_id for group in all_groups(connection)]


def named(options: Options, option: str, what: str, known: Sequence[str]) -> list[str] | None:
    """Names of a list option in Kafka's spelling: none wanted gives None, the bare option an empty list."""
    if not options.has(option):
        return None
    text = options.text(option)
    if not text:
        return []
    spelled = {name.lower(): name for name in known}
    wanted = [spelled.get(each.strip().lower().replace("_", "")) for each in text.split(",")]
    if None in wanted:
        raise PARSER.wrong(
            f"Invalid {option if option == 'state' else what} list '{text}'. Valid {what} are: {', '.join(known)}"
        )
    return [each for each in wanted if each]


def validate_regex(text: str) -> None:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        problem = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
        print(f"The regular expression `{text}` is invalid: {problem}.")
    else:
        print(f"The regular expression `{text}` is valid.")

"""kafka-reassign-partitions: move replicas between brokers and between log directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, ZOOKEEPER, connect_with, file_properties
from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, value

if TYPE_CHECKING:
    from moldau.cli.calls.reassignments import Layout
    from moldau.cli.connection import Connection
    from moldau.cli.replicas.reassignment_files import Plan

ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
REQUIRED: Final = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
ALWAYS: Final = ("bootstrap-server", "zookeeper", "command-config")
PERMITTED: Final = {
    "verify": ("preserve-throttles",),
    "generate": ("disable-rack-aware",),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}

PARSER: Final = Parser(
    "This tool helps to move topic partitions between replicas.",
    flag("verify", "Say whether what --reassignment-json-file asks for is done; if it is, limits are taken away."),
    flag("generate", "Propose a plan, which changes nothing: for --topics-to-move-json-file and --broker-list."),
    flag("execute", "Begin to move replicas as --reassignment-json-file says."),
    flag("cancel", "End a move that is under way; the replicas are again what they were."),
    flag("list", "List all moves that are under way."),
    BOOTSTRAP,
    ZOOKEEPER,
    COMMAND_CONFIG,
    value(
        "reassignment-json-file",
        "manual assignment json file path",
        'The plan: {"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[1,2,3],'
        '"log_dirs":["dir1","dir2","any"]}]}. log_dirs may be left out; "any" leaves the choice to the broker.',
    ),
    value(
        "topics-to-move-json-file",
        "topics to reassign json file path",
        'The topics to plan for: {"version":1,"topics":[{"topic":"foo"},{"topic":"foo1"}]}.',
    ),
    value("broker-list", "brokerlist", 'The brokers to plan for, as "0,1,2".'),
    flag("disable-rack-aware", "Plan without regard to racks."),
    value("throttle", "throttle", "Copy between brokers with at most so many bytes a second.", kind=int, default="-1"),
    value(
        "replica-alter-log-dirs-throttle",
        "replicaAlterLogDirsThrottle",
        "Copy between log directories of a broker with at most so many bytes a second.",
        kind=int,
        default="-1",
    ),
    value(
        "timeout", "timeout", "How many ms to wait for moves between directories to begin.", kind=int, default="10000"
    ),
    flag("additional", "Begin this beside other moves under way, or change their limits."),
    flag("preserve-throttles", "Leave limits as they are."),
    flag("disallow-replication-factor-change", "Refuse plans that change how many replicas a partition has."),
)


def main(arguments: Sequence[str]) -> int:
    """Refusals go to standard output with exit code 1, as in Kafka's own."""
    from moldau.cli.kafka.failures import is_failure

    options = PARSER.parse(arguments)
    action = checked_action(options)
    try:
        ACTION[action](options)
    except Terse as error:
        print(error)
    except Exception as error:
        if not is_failure(error) and not is_plan_error(error):
            raise
        print(f"Error: {told(error)}")
    else:
        return 0
    return 1


class Terse(ToolError):
    """Said without `Error:` before it."""


def is_plan_error(error: Exception) -> bool:
    from moldau.cli.replicas.reassignment_files import PlanError

    return isinstance(error, PlanError | OptionError)


def told(error: Exception) -> str:
    from moldau.cli.kafka.failures import code_and_message, java_text, message_of
    from moldau.types.errors import ErrorCode, KafkaError

    if is_plan_error(error):
        return str(error)
    code, message = code_and_message(error)
    if isinstance(error, KafkaError) and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return java_text(code, message)
    return message_of(error)


def checked_action(options: Options) -> str:
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        names = ", ".join(f"--{each}" for each in ACTIONS)
        raise PARSER.wrong(f"Command must include exactly one action: {names}")
    (action,) = actions
    if not options.has("bootstrap-server") and not options.has("zookeeper"):
        raise PARSER.wrong("Please specify either --bootstrap-server or --bootstrap-controller")
    PARSER.require(options, *REQUIRED[action])
    for name in options.values:
        if name not in (action, *REQUIRED[action], *PERMITTED[action], *ALWAYS):
            raise PARSER.wrong(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def opened(options: Options) -> Connection:
    """`--broker-list` means ids here, not addresses."""
    from moldau.cli.kafka.zookeeper import brokers_behind

    if options.has("bootstrap-server"):
        servers = options.given("bootstrap-server")
    else:
        servers = brokers_behind(options.given("zookeeper"))
    return connect_with(file_properties(options, "command-config") | {"bootstrap.servers": servers})


def generate(options: Options) -> None:
    from moldau.cli.calls.reassignments import Replica, layout, replica_directories
    from moldau.cli.kafka.partition_files import read_text
    from moldau.cli.replicas.reassignment_files import parse_brokers, parse_topics, plan_text

    text = read_text(options.given("topics-to-move-json-file"))
    wanted = parse_brokers(options.given("broker-list"))
    topics = parse_topics(text)
    cluster = opened(options)
    present = layout(cluster, topics)
    proposed = proposal(cluster, present, wanted, use_racks=not options.has("disable-rack-aware"))
    replicas = [Replica(broker, *place) for place, brokers in present.items() for broker in brokers]
    directories = replica_directories(cluster, replicas)
    print(f"Current partition replica assignment\n{plan_text(present, directories)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_text(proposed)}")


def proposal(cluster: Connection, present: Layout, wanted: Sequence[int], *, use_racks: bool) -> Layout:
    from moldau.cli.calls import reassignments
    from moldau.cli.replicas.reassignment_plans import RackError, scattered

    found = [broker for broker in reassignments.brokers(cluster) if broker.id in wanted]
    try:
        return scattered(present, found, use_racks=use_racks)
    except RackError:
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        ) from None


def execute(options: Options) -> None:
    from moldau.cli.kafka.reassigning import Wanted
    from moldau.cli.kafka.reassigning import execute as begin

    begin(
        lambda: opened(options),
        Wanted(
            plan_of(options),
            additional=options.has("additional"),
            throttle=options.number("throttle"),
            directory_throttle=options.number("replica-alter-log-dirs-throttle"),
            timeout_ms=options.number("timeout"),
            allow_factor_change=not options.has("disallow-replication-factor-change"),
        ),
    )


def verify(options: Options) -> None:
    from moldau.cli.kafka.reassigning import verify as look

    plan = plan_of(options)
    look(opened(options), plan, preserve=options.has("preserve-throttles"))


def cancel(options: Options) -> None:
    from moldau.cli.kafka.reassigning import cancel as end

    plan = plan_of(options)
    end(opened(options), plan, options.number("timeout"), preserve=options.has("preserve-throttles"))


def list_moves(options: Options) -> None:
    from moldau.cli.calls.reassignments import under_way

    moving = under_way(opened(options))
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place, move in sorted(moving.items()):
        parts = [f"{place}: replicas: {joined(move.replicas)}."]
        parts += [f"adding: {joined(move.adding)}."] if move.adding else []
        parts += [f"removing: {joined(move.removing)}."] if move.removing else []
        print(" ".join(parts))


def plan_of(options: Options) -> Plan:
    from moldau.cli.kafka.partition_files import read_text
    from moldau.cli.replicas.reassignment_files import parse_plan

    return parse_plan(read_text(options.given("reassignment-json-file")))


def joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


ACTION: Final[dict[str, Callable[[Options], None]]] = {
    "generate": generate,
    "execute": execute,
    "verify": verify,
    "cancel": cancel,
    "list": list_moves,
}

"""kafka-acls: adds, lists and removes access rules.

`--authorizer-properties zookeeper.connect=…`, which the tool took before Kafka 3, leads to the brokers behind that
ZooKeeper, as `--zookeeper` does in other tools: the rules are kept by the brokers here, not in ZooKeeper's own nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.cli.calls import acls as calls
from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, SERVERS, connect_with, file_properties, pairs
from moldau.cli.kafka.failures import java_refusals
from moldau.cli.kafka.options import Options, Parser, ToolError, flag, optional_value, value
from moldau.security.authorizer import SUPPORTED
from moldau.types.acls import ANY, CLUSTER_NAME, Acl, AclFilter, Operation, Pattern, Permission, Resource

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

ZOOKEEPER_CONNECT: Final = "zookeeper.connect"
PATTERNS: Final = {"any": ANY, "match": Pattern.MATCH, "literal": Pattern.LITERAL, "prefixed": Pattern.PREFIXED}
RESOURCES: Final = {
    "topic": Resource.TOPIC, "group": Resource.GROUP, "transactional-id": Resource.TRANSACTIONAL_ID,
    "delegation-token": Resource.DELEGATION_TOKEN, "user-principal": Resource.USER,
}  # fmt: skip
NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token "
    "<Delegation Token ID>"
)


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


OPERATIONS: Final = {camel(each.name).lower(): each for each in Operation}
PARSER: Final = Parser(
    "This tool helps to manage acls on kafka.",
    BOOTSTRAP,
    value("bootstrap-controller", "controller to connect to", "Controllers are brokers here: as --bootstrap-server."),
    COMMAND_CONFIG,
    value("authorizer", "class", hidden=True),
    value("authorizer-properties", "properties", hidden=True),
    flag("add", "Indicates you are trying to add ACLs."),
    flag("remove", "Indicates you are trying to remove ACLs."),
    flag("list", "List ACLs for the specified resource; all of them without one."),
    value("topic", "topic", "Topic to which ACLs belong; '*' means all topics."),
    flag("cluster", "Add/Remove cluster ACLs."),
    value("group", "group", "Consumer group to which ACLs belong; '*' means all groups."),
    value("transactional-id", "transactional-id", "Transactional id to which ACLs belong; '*' means all."),
    flag("idempotent", "Enable idempotence for the producer; in combination with --producer."),
    value("delegation-token", "delegation-token", "Delegation token to which ACLs belong; '*' means all."),
    value("user-principal", "user-principal", "A user as a resource, for CreateTokens and DescribeTokens."),
    value("resource-pattern-type", "ANY|MATCH|LITERAL|PREFIXED", "How the name of a resource is meant.",
          default="LITERAL"),
    value("operation", "String", "Operation that is being allowed or denied.", default="All"),
    value("allow-principal", "allow-principal", "Principal, as principalType:name; User:'*' means all users."),
    value("deny-principal", "deny-principal", "Principal that is denied; denials are stronger than permissions."),
    optional_value("principal", "principal", "With --list: only ACLs of this principal."),
    value("allow-host", "allow-host", "Host from which --allow-principal may come; all without it."),
    value("deny-host", "deny-host", "Host from which --deny-principal is denied; all without it."),
    flag("producer", "WRITE, DESCRIBE and CREATE on topics."),
    flag("consumer", "READ and DESCRIBE on topics, READ on groups."),
    flag("force", "Assume Yes to all queries and do not prompt."),
)  # fmt: skip


class Target(NamedTuple):
    resource: Resource
    name: str
    pattern: int

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.resource.name}, name={self.name}, patternType={self.pattern_name})"

    @property
    def as_filter(self) -> str:
        return f"ResourcePattern(resourceType={self.resource.name}, name={self.name}, patternType={self.pattern_name})"

    @property
    def pattern_name(self) -> str:
        return "ANY" if self.pattern == ANY else Pattern(self.pattern).name


class Entry(NamedTuple):
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


Wanted = dict[Target, list[Entry]]


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    check(options)
    if options.has("add"):
        add(options)
    elif options.has("remove"):
        remove(options)
    else:
        show(options)
    return 0


def check(options: Options) -> None:
    servers = [name for name in ("bootstrap-server", "bootstrap-controller") if options.has(name)]
    if len(servers) > 1:
        raise PARSER.wrong("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not servers and ZOOKEEPER_CONNECT not in authorizer_properties(options):
        raise PARSER.wrong("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(map(options.has, ("list", "add", "remove"))) != 1:
        raise PARSER.wrong("Command must include exactly one action: --list, --add, --remove. ")
    denied = ("deny-host", "deny-principal")
    PARSER.refuse_together(options, "list", ("producer", "consumer", "allow-host", "allow-principal", *denied))
    PARSER.refuse_together(options, "producer", ("operation", "deny-principal", "deny-host"))
    PARSER.refuse_together(options, "consumer", ("operation", "deny-principal", "deny-host"))
    if options.has("principal") and not options.has("list"):
        raise PARSER.wrong("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise PARSER.wrong("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise PARSER.wrong("The --idempotent option is only available if --producer is set")
    alone = not options.has("producer") and (options.has("cluster") or options.has("transactional-id"))
    if options.has("consumer") and (not options.has("topic") or not options.has("group") or alone):
        raise PARSER.wrong(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


def authorizer_properties(options: Options) -> dict[str, str]:
    return pairs(options.texts("authorizer-properties"))


def connect(options: Options) -> Connection:
    properties = file_properties(options, "command-config")
    for name in ("bootstrap-server", "bootstrap-controller"):
        if options.has(name):
            return connect_with(properties | {SERVERS: options.given(name)})
    from moldau.cli.kafka.zookeeper import brokers_behind

    return connect_with(properties | {SERVERS: brokers_behind(authorizer_properties(options)[ZOOKEEPER_CONNECT])})


# -- what is done ----------------------------------------------------------------------------------------------------


def add(options: Options) -> None:
    pattern = pattern_of(options)
    if pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        shown = options.given("resource-pattern-type").upper()
        raise PARSER.wrong(f"A '--resource-pattern-type' value of '{shown}' is not valid when adding acls.")
    wanted = rules(options)
    if not all(wanted.values()):
        raise PARSER.wrong("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    cluster = connect(options)
    for target, entries in wanted.items():
        print(f"Adding ACLs for resource `{target}`: \n {listed(entries)}\n")
        with java_refusals():
            calls.create(cluster, [as_acl(target, entry) for entry in entries])


def remove(options: Options) -> None:
    wanted = rules(options)
    cluster = connect(options)
    for target, entries in wanted.items():
        question = f"Are you sure you want to delete all ACLs for resource filter `{target.as_filter}`? (y/n)"
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {listed(entries)} \n from resource filter "
                f"`{target.as_filter}`? (y/n)"
            )
        if not confirmed(options, question):
            continue
        filters = [AclFilter(target.resource, target.pattern, target.name, *entry) for entry in entries] or [
            AclFilter(target.resource, target.pattern, target.name)
        ]
        with java_refusals():
            calls.delete(cluster, filters)


def show(options: Options) -> None:
    filters = [AclFilter(target.resource, target.pattern, target.name) for target in targets(options, needed=False)]
    cluster = connect(options)
    found: dict[Target, list[Entry]] = {}
    with java_refusals():
        for wanted in filters or [AclFilter()]:
            for acl in calls.find(cluster, wanted):
                entry = Entry(acl.principal, acl.host, acl.operation, acl.permission)
                entries = found.setdefault(Target(acl.resource, acl.name, acl.pattern), [])
                if entry not in entries:
                    entries.append(entry)
    principals = [principal(text) for text in options.texts("principal")]
    if not principals:
        print_rules(found)
    for whose in principals:
        print(f"ACLs for principal `{whose}`")
        print_rules(
            {target: [each for each in entries if each.principal == whose] for target, entries in found.items()}
        )


def print_rules(found: Wanted) -> None:
    for target, entries in found.items():
        if entries:
            print(f"Current ACLs for resource `{target}`:\n{listed(entries)}\n")


def listed(entries: Sequence[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def confirmed(options: Options, question: str) -> bool:
    if options.has("force"):
        return True
    print(question)
    return sys.stdin.readline().strip().lower() == "y"


def as_acl(target: Target, entry: Entry) -> Acl:
    return Acl(target.resource, Pattern(target.pattern), target.name, *entry)


# -- what the options mean -------------------------------------------------------------------------------------------


def rules(options: Options) -> Wanted:
    found: Wanted = {}
    if not options.has("producer") and not options.has("consumer"):
        asked = [operation(text) for text in options.texts("operation")]
        found = {target: entries(options, asked) for target in targets(options)}
    if options.has("producer"):
        for target in targets(options):
            if target.resource is Resource.TOPIC:
                found[target] = entries(options, [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE])
            elif target.resource is Resource.TRANSACTIONAL_ID:
                found[target] = entries(options, [Operation.WRITE, Operation.DESCRIBE])
        if options.has("idempotent"):
            cluster = Target(Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL)
            found[cluster] = entries(options, [Operation.IDEMPOTENT_WRITE])
    if options.has("consumer"):
        for target in targets(options):
            if target.resource in (Resource.TOPIC, Resource.GROUP):
                more = [Operation.READ, *([Operation.DESCRIBE] if target.resource is Resource.TOPIC else [])]
                found[target] = list(dict.fromkeys((*entries(options, more), *found.get(target, []))))
    for target, wanted in found.items():
        check_operations(target.resource, wanted)
    return found


def check_operations(resource: Resource, wanted: Sequence[Entry]) -> None:
    valid = {*SUPPORTED[resource], Operation.ALL}
    if any(entry.operation not in valid for entry in wanted):
        names = ", ".join(each.name for each in (Operation.ALL, *SUPPORTED[resource]))
        raise PARSER.wrong(f"ResourceType {resource.name} only supports operations [{names}]")


def entries(options: Options, operations: Sequence[Operation]) -> list[Entry]:
    found = []
    for side, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        principals = [principal(text) for text in options.texts(f"{side}-principal")]
        hosts = [text.strip() for text in options.texts(f"{side}-host")] or ["*"]
        found += [Entry(who, host, what, permission) for who, what, host in product(principals, operations, hosts)]
    return list(dict.fromkeys(found))


def targets(options: Options, needed: bool = True) -> list[Target]:
    pattern = pattern_of(options)
    found = [
        Target(resource, text.strip(), pattern) for name, resource in RESOURCES.items() for text in options.texts(name)
    ]
    if pattern == Pattern.LITERAL and (options.has("cluster") or options.has("idempotent")):
        found.append(Target(Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL))
    if not found and needed:
        raise PARSER.wrong(NO_RESOURCE)
    return list(dict.fromkeys(found))


def pattern_of(options: Options) -> int:
    text = options.given("resource-pattern-type")
    if text.lower() not in PATTERNS:
        raise ToolError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return PATTERNS[text.lower()]


def operation(text: str) -> Operation:
    found = OPERATIONS.get(text.strip().lower())
    if found is None:
        raise ToolError(f"Unknown operation {text}; known are {', '.join(camel(each.name) for each in Operation)}")
    return found


def principal(text: str) -> str:
    name = text.strip()
    kind, colon, rest = name.partition(":")
    if not (kind and colon and rest):
        raise ToolError(f"expected a string in format principalType:principalName but got {name}")
    return name

"""kafka-configs: show and change the settings of topics, brokers, groups, client metrics; quotas and credentials."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import configs
from moldau.cli.calls.configs import Change, ConfigKind, Setting, Source
from moldau.cli.kafka.connecting import CLUSTER_OPTIONS, connect, file_properties, names_cluster
from moldau.cli.kafka.failures import Refused, is_failure, java_refusals, message_of
from moldau.cli.kafka.options import Options, Parser, ToolError, UsageError, flag, value
from moldau.cli.passwords import shown_pairs

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
NAME_FLAGS: Final = (
    ("topic", "topics"), ("client", "clients"), ("user", "users"), ("broker", "brokers"),
    ("broker-logger", "broker-loggers"), ("ip", "ips"), ("client-metrics", "client-metrics"), ("group", "groups"),
)  # fmt: skip
DEFAULT_FLAGS: Final = (
    ("client-defaults", "clients"), ("user-defaults", "users"), ("broker-defaults", "brokers"), ("ip-defaults", "ips"),
)  # fmt: skip
RESOURCES: Final = {
    "topics": ConfigKind.TOPIC,
    "brokers": ConfigKind.BROKER,
    "broker-loggers": ConfigKind.BROKER_LOGGER,
    "client-metrics": ConfigKind.CLIENT_METRICS,
    "groups": ConfigKind.GROUP,
}
OWN_SOURCE: Final = {
    "topics": Source.DYNAMIC_TOPIC_CONFIG,
    "brokers": Source.DYNAMIC_BROKER_CONFIG,
    "client-metrics": Source.DYNAMIC_CLIENT_METRICS_CONFIG,
    "groups": Source.DYNAMIC_GROUP_CONFIG,
}
WITH_DEFAULTS: Final = ("users", "clients", "brokers", "ips")
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS: Final = ("connection_creation_rate",)
OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"

PARSER: Final = Parser(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics or "
    "group",
    *CLUSTER_OPTIONS,
    value("bootstrap-controller", "controller to connect to", "A controller to connect to.", hidden=True),
    flag("alter", "Change settings."),
    flag("describe", "Show settings."),
    flag("all", "With --describe: all settings, not only those that were set."),
    value("entity-type", "String", f"{'/'.join(TYPES)}."),
    value("entity-name", "String", "Name of the topic, group, …, or id of the broker."),
    flag("entity-default", "The common settings of clients, users, brokers or ips."),
    value("add-config", "String", "Settings to change: 'k1=v1,k2=[v1,v2],k3=v3'."),
    value("add-config-file", "String", "A properties file with settings to change."),
    value("delete-config", "String", "Settings to reset: 'k1,k2'.", separator=","),
    value("topic", "String", "A topic's name."),
    value("client", "String", "A client id."),
    flag("client-defaults", "The common settings of all clients."),
    value("user", "String", "A user's name."),
    flag("user-defaults", "The common settings of all users."),
    value("broker", "String", "A broker's id."),
    flag("broker-defaults", "The common settings of all brokers."),
    value("broker-logger", "String", "A broker's id, for its loggers."),
    flag("ip-defaults", "The common settings of all addresses."),
    value("ip", "String", "An address."),
    value("group", "String", "A group's id."),
    value("client-metrics", "String", "A name of client metrics."),
)


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    check(options, entity_types(options), entity_names(options))
    try:
        connection = connect(options)
        if options.has("alter"):
            alter_settings(connection, options)
        else:
            describe_settings(connection, options)
    except UsageError:
        raise
    except Exception as error:
        if not is_failure(error):
            raise
        if isinstance(error, ToolError) and not isinstance(error, Refused):
            raise
        shown = shown_arguments(arguments, options)
        print(f"Error while executing config command with args '{shown}': {message_of(error)}", file=sys.stderr)
        return 1
    return 0


def shown_arguments(arguments: Sequence[str], options: Options) -> str:
    """Kafka's tool would print the passwords, too."""
    found = " ".join(arguments)
    for given in options.texts("add-config"):
        found = found.replace(given, shown_pairs(given)) if given else found
    return found


# -- options -------------------------------------------------------------------------------------------------------


def entity_types(options: Options) -> list[str]:
    flags = [kind for name, kind in (*NAME_FLAGS, *DEFAULT_FLAGS) if options.has(name)]
    return options.texts("entity-type") + flags


def entity_names(options: Options) -> list[str]:
    """A name for each type, empty for the common settings."""
    names = options.texts("entity-name") + ([""] if options.has("entity-default") else [])
    names += [options.given(name) for name, _ in NAME_FLAGS if options.has(name)]
    return names + ["" for name, _ in DEFAULT_FLAGS if options.has(name)]


def check(options: Options, types: list[str], names: list[str]) -> None:
    if options.has("alter") == options.has("describe"):
        raise PARSER.wrong("Command must include exactly one action: --describe, --alter")
    PARSER.refuse_together(options, "describe", ("add-config", "delete-config"))
    twice = [kind for kind in dict.fromkeys(types) if types.count(kind) > 1]
    if twice:
        raise ToolError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if not names_cluster(options):
        raise ToolError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in types:
        if kind not in TYPES:
            raise ToolError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise ToolError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise ToolError("Only 'users' and 'clients' entity types may be specified together")
    long_form = any(map(options.has, ("entity-name", "entity-type", "entity-default")))
    if long_form and any(options.has(name) for name, _ in (*NAME_FLAGS, *DEFAULT_FLAGS)):
        raise ToolError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if {"brokers", "broker-loggers"} & set(types):
        for name in filter(None, names):
            check_broker_id(types[0], name)
    if options.has("describe"):
        check_describe(options, types, names)
    else:
        check_alter(options, types, names)


def check_broker_id(kind: str, name: str) -> None:
    if not re.fullmatch(r"[+-]?\d+", name):
        raise ToolError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")


def check_describe(options: Options, types: list[str], names: list[str]) -> None:
    if options.has("entity-default") and not set(WITH_DEFAULTS) & set(types):
        raise ToolError(f"--entity-default must not be specified with --describe of {','.join(types)}")
    if "broker-loggers" in types and not any(names):
        raise ToolError(f"An entity name must be specified with --describe of {','.join(types)}")


def check_alter(options: Options, types: list[str], names: list[str]) -> None:
    if set(WITH_DEFAULTS) & set(types):
        if not names:
            raise ToolError(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not any(names):
        raise ToolError(f"An entity name must be specified with --alter of {','.join(types)}")
    if options.has("add-config") and options.has("add-config-file"):
        raise ToolError("Only one of --add-config or --add-config-file must be specified")
    if not any(map(options.has, ("add-config", "add-config-file", "delete-config"))):
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if len(types) != len(names):
        raise ToolError("An entity name must be specified for every entity type")


def added_settings(options: Options) -> dict[str, str]:
    found = file_properties(options, "add-config-file")
    text = options.text("add-config")
    if text is not None:
        for pair in re.split(f",{OUTSIDE_BRACKETS}", text):
            parts = re.split(rf"\s*=\s*{OUTSIDE_BRACKETS}", pair)
            if len(parts) != 2:
                raise ToolError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format "
                    '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            found[parts[0].strip()] = re.sub(r"\[?\]?", "", parts[1]).strip()
    for key in found:
        if not re.fullmatch(r"[$a-zA-Z0-9._-]*", key):
            raise ToolError(f"Invalid character found for config key: {key}")
    return found


# -- alter ---------------------------------------------------------------------------------------------------------


def alter_settings(connection: Connection, options: Options) -> None:
    types, names = entity_types(options), entity_names(options)
    kind, name = types[0], names[0]
    added = added_settings(options)
    deleted = [key.strip() for key in options.texts("delete-config")]
    if kind in RESOURCES:
        if kind == "broker-loggers":
            check_loggers(connection, name, [*deleted, *added])
        changes: list[tuple[Change, str, str | None]] = [(Change.DELETE, key, None) for key in deleted]
        changes += [(Change.SET, key, value) for key, value in added.items()]
        with java_refusals():
            configs.alter(connection, RESOURCES[kind], name, changes)
    else:
        alter_quotas_or_credentials(connection, types, names, added, deleted)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def check_loggers(connection: Connection, broker: str, wanted: Sequence[str]) -> None:
    known = {entry.name for entry in described(connection, ConfigKind.BROKER_LOGGER, broker)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ToolError(f"Invalid broker logger(s): {','.join(unknown)}")


def alter_quotas_or_credentials(
    connection: Connection, types: list[str], names: list[str], added: dict[str, str], deleted: list[str]
) -> None:
    from moldau.cli.calls.quotas import MECHANISMS
    from moldau.cli.kafka.quotas import alter_credentials, alter_quotas

    kind = types[0]
    with_credentials = types == ["users"]
    allowed = IP_QUOTAS if kind == "ips" else (*QUOTAS, *(MECHANISMS if with_credentials else ()))
    what = "connection quota" if kind == "ips" else "quota and SCRAM credential" if with_credentials else "quota"
    shown_kind = "clients" if kind != "ips" and not with_credentials else kind
    for verb, keys in (("added", list(added)), ("deleted", deleted)):
        unknown = [key for key in keys if key not in allowed]
        if unknown:
            raise ToolError(
                f"Only {what} configs can be {verb} for '{shown_kind}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
    if not any(key in MECHANISMS for key in [*added, *deleted]):
        alter_quotas(connection, types, names, added, deleted)
        return
    if "" in names:
        raise ToolError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if any(key in QUOTAS for key in [*added, *deleted]):
        raise ToolError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    alter_credentials(connection, names[0], added, deleted)


# -- describe ------------------------------------------------------------------------------------------------------


def describe_settings(connection: Connection, options: Options) -> None:
    types, names = entity_types(options), entity_names(options)
    kind = types[0]
    if kind in RESOURCES:
        describe_resources(connection, kind, names, options.has("all"))
        return
    from moldau.cli.kafka.quotas import print_credentials, print_quotas

    print_quotas(connection, types, names)
    if types == ["users"] and "" not in names:
        print_credentials(connection, names)


def describe_resources(connection: Connection, kind: str, names: list[str], everything: bool) -> None:
    if names and not everything and names[0] and names[0] not in configs.names(connection, RESOURCES[kind]):
        print(f"The {kind[:-1]} '{names[0]}' doesn't exist and doesn't have dynamic config.")
        return
    for name in names[:1] or [*configs.names(connection, RESOURCES[kind]), *([""] if kind == "brokers" else [])]:
        if name:
            print(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {name} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        wanted = OWN_SOURCE.get(kind) if name else Source.DYNAMIC_DEFAULT_BROKER_CONFIG
        for entry in described(connection, RESOURCES[kind], name):
            if everything or wanted is None or entry.source is wanted:
                synonyms = ", ".join(f"{each.source.name}:{each.name}={text(each.value)}" for each in entry.synonyms)
                sensitive = "true" if entry.sensitive else "false"
                print(f"  {entry.name}={text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def described(connection: Connection, kind: ConfigKind, name: str) -> list[Setting]:
    with java_refusals():
        return configs.describe(connection, kind, name)


def text(content: str | None) -> str:
    return "null" if content is None else content

"""kafka-features: the features of the cluster with their levels, and changes to them.

Left out: `version-mapping` and `feature-dependencies`, which print tables of Apache Kafka's own releases.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from moldau.cli.calls import quorum
from moldau.cli.calls.quorum import Upgrade
from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused, java_words
from moldau.cli.kafka.cluster import connected
from moldau.cli.kafka.failures import java_message
from moldau.cli.kafka.options import ToolError

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

METADATA: Final = "metadata.version"
METADATA_RELEASES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0",
)  # fmt: skip
FIRST_METADATA_LEVEL: Final = 7
VERBS: Final = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}


class Arguments(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"Command line error: {java_words(message)}. Type --help for help.", file=sys.stderr)
        raise ArgumentsRefused


def parser() -> ArgumentParser:
    made = Arguments("kafka-features", "This tool manages feature flags in Kafka.")
    made.add_argument("--bootstrap-server", dest="servers", help="the brokers to begin with")
    made.add_argument("--bootstrap-controller", dest="servers", help="the controllers to begin with")
    made.add_argument("--command-config", metavar="FILE", help="properties file with settings of the client")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("describe", help="Describe one or more feature flags.", prog="kafka-features")
    for name in VERBS:
        below = commands.add_parser(name, help=f"{name.capitalize()} one or more feature flags.", prog="kafka-features")
        below.add_argument("--feature", action="append", default=[], help="feature=level, or the name to disable")
        below.add_argument("--dry-run", action="store_true", help="only check it")
        if name == "upgrade":
            below.add_argument("--metadata", help="the metadata.version, as a release")
        else:
            below.add_argument("--unsafe", action="store_true", help="even if something would be lost")
    return made


def main(arguments: Sequence[str]) -> int:
    try:
        given = parser().read(arguments)
        if given.servers is None:
            parser().error("You must specify either --bootstrap-controller or --bootstrap-server.")
    except ArgumentsRefused:
        return 1
    if given.command == "describe":
        describe(connected(given.servers, given.command_config))
        return 0
    levels = wanted_levels(given)
    return update(connected(given.servers, given.command_config), given, levels)


def describe(cluster: Connection) -> None:
    found = quorum.describe_features(cluster)
    for each in found.known:
        first, last, level = (level_text(each.name, number) for number in (each.first, each.last, each.finalized))
        print(
            f"Feature: {each.name:<42}SupportedMinVersion: {first:<17}SupportedMaxVersion: {last:<17}"
            f"FinalizedVersionLevel: {level:<17}Epoch: {found.epoch if found.epoch >= 0 else '-'}"
        )


def level_text(feature: str, level: int) -> str:
    release = level - FIRST_METADATA_LEVEL
    if feature == METADATA and 0 <= release < len(METADATA_RELEASES):
        return METADATA_RELEASES[release]
    return str(level)


def wanted_levels(given: Namespace) -> dict[str, int]:
    found = {}
    if getattr(given, "metadata", None):
        if given.metadata not in METADATA_RELEASES:
            known = ", ".join(METADATA_RELEASES)
            raise ToolError(f"Unknown metadata.version '{given.metadata}'. Supported metadata.version are: {known}")
        found[METADATA] = METADATA_RELEASES.index(given.metadata) + FIRST_METADATA_LEVEL
    for text in given.feature:
        name, equals, level = text.partition("=")
        if given.command == "disable":
            found[text] = 0
            continue
        if not equals:
            raise ToolError(f"Can't parse feature=level string {text}: equals sign not found.")
        if not level.strip().isdigit():
            raise ToolError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
        found[name.strip()] = int(level)
    if not found:
        raise ToolError(f"You must specify at least one feature to {given.command}")
    return found


def update(cluster: Connection, given: Namespace, levels: Mapping[str, int]) -> int:
    unsafe = getattr(given, "unsafe", False)
    how = (
        Upgrade.UPGRADE
        if given.command == "upgrade"
        else Upgrade.UNSAFE_DOWNGRADE
        if unsafe
        else Upgrade.SAFE_DOWNGRADE
    )
    answers = quorum.update_features(cluster, levels, how, given.dry_run)
    failed = 0
    for name, (code, message) in sorted(answers.items()):
        target = "" if given.command == "disable" else f" to {level_text(name, levels[name])}"
        if code:
            failed += 1
            could = "Can not" if given.dry_run else "Could not"
            print(f"{could} {given.command} {name}{target}. {java_message(code, message)}")
        else:
            was = "can be" if given.dry_run else "was"
            print(f"{name} {was} {VERBS[given.command]}{target}.")
    if failed:
        raise ToolError(f"{failed} out of {len(answers)} operation(s) failed.")
    return 0

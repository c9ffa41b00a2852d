"""kafka-storage: forms a cluster and formats a broker's log directories before its first start; shows what is there.

A broker does so by itself when it starts for the first time. This is for an id of one's own, and for users of SCRAM
that have to be there before: those with which brokers log in at each other, and the first administrator.

Left out: `version-mapping` and `feature-dependencies`, which print tables of Apache Kafka's own releases;
`--release-version`, since this release writes its own form only. Voters of KRaft (`--standalone`,
`--initial-controllers`, `--no-initial-controllers`) are accepted and mean nothing: there are none.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused
from moldau.cli.kafka.options import ToolError
from moldau.types.uuid_text import encode_uuid

if TYPE_CHECKING:
    from moldau.config.broker import BrokerConfig
    from moldau.server.formatting import Users
    from moldau.types.credentials import ScramCredential

ADD_SCRAM = "A SCRAM_CREDENTIAL to add to the metadata e.g. 'SCRAM-SHA-256=[name=alice,password=alice-secret]'"


def parser() -> ArgumentParser:
    made = ArgumentParser("kafka-storage", "The Kafka storage tool.")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    info = commands.add_parser(
        "info", help="Get information about the Kafka log directories on this node.", prog="kafka-storage"
    )
    form = commands.add_parser("format", help="Format the Kafka log directories on this node.", prog="kafka-storage")
    commands.add_parser("random-uuid", help="Print a random UUID.", prog="kafka-storage")
    for below in (info, form):
        below.add_argument("--config", "-c", metavar="FILE", required=True, help="The Kafka configuration file to use.")
    form.add_argument("--cluster-id", "-t", metavar="ID", required=True, help="The cluster ID to use.")
    form.add_argument("--add-scram", "-S", action="append", default=[], metavar="CREDENTIAL", help=ADD_SCRAM)
    form.add_argument("--ignore-formatted", "-g", action="store_true", help="leave what is formatted alone")
    form.add_argument("--feature", "-f", action="append", default=[], help="feature=level")
    voters = form.add_mutually_exclusive_group()
    voters.add_argument("--standalone", "-s", action="store_true", help="accepted; there are no voters here")
    voters.add_argument("--no-initial-controllers", "-N", action="store_true", help="accepted likewise")
    voters.add_argument("--initial-controllers", "-I", help="accepted likewise")
    return made


def main(arguments: Sequence[str]) -> int:
    try:
        given = parser().read(arguments)
    except ArgumentsRefused:
        return 1
    if given.command == "random-uuid":
        print(encode_uuid(uuid.uuid4()))
        return 0
    config = read_config(given.config)
    if given.command == "info":
        return info(config)
    format_directories(config, given)
    return 0


def read_config(path: str) -> BrokerConfig:
    from moldau.cli.broker.starting import BadArgumentError, from_file, from_jaas_file, looked_up
    from moldau.config.broker import BrokerConfig, BrokerConfigError

    try:
        return BrokerConfig.load(unlocked(looked_up(from_jaas_file() | from_file(Path(path)))))
    except (BadArgumentError, BrokerConfigError) as error:
        raise ToolError(str(error)) from None


def unlocked(properties: Mapping[str, str]) -> dict[str, str]:
    """Keys and login modules of listeners may come after the directories are formatted, as at Apache Kafka."""
    endpoints = ",".join(properties.get(key, "") for key in ("listeners", "advertised.listeners")).split(",")
    names = {"PLAINTEXT"} | {name.strip() for name, found, _ in (each.partition("://") for each in endpoints) if found}
    return {**properties, "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in sorted(names))}


# -- format -----------------------------------------------------------------------------------------------------------


def format_directories(config: BrokerConfig, given: Namespace) -> None:
    from moldau.metadata.store import StoreError
    from moldau.server.formatting import OtherClusterError, identify, look_at_directories
    from moldau.storage.checkpoints import CorruptFileError
    from moldau.storage.files import OsFiles
    from moldau.storage.log_directory import InconsistentDirectoryError

    if config.wants_number:
        raise ToolError("broker.id: say which broker these directories are for; set broker.id or node.id in the file")
    files = OsFiles()
    features, users = wanted_features(given.feature), added_users(given.add_scram)
    try:
        found = look_at_directories(files, config, given.cluster_id)
        if found.formatted and not given.ignore_formatted:
            raise ToolError(
                f"Log directory {found.formatted[0]} is already formatted. "
                "Use --ignore-formatted to ignore this directory and format the others."
            )
        formed = asyncio.run(form_cluster(config, given.cluster_id, users, features))
        identify(files, found.empty, given.cluster_id, config.node_id, uuid.uuid4)
    except (InconsistentDirectoryError, CorruptFileError, OtherClusterError, StoreError, OSError) as error:
        raise ToolError(str(error)) from None
    tell(config, found.empty, features)
    if users and not formed:
        print("The cluster was formed before: its users are left as they are.", file=sys.stderr)


async def form_cluster(config: BrokerConfig, cluster_id: str, users: Users, features: Mapping[str, int]) -> bool:
    from moldau.server.formatting import form, open_store
    from moldau.server.node import SerialExecutor
    from moldau.storage.files import OsFiles

    if config.zookeeper is None:
        os.makedirs(config.log_dirs[0], exist_ok=True)
    store = await open_store(config, OsFiles(), SerialExecutor("metadata"))
    try:
        return await form(store, config, cluster_id, users, features)
    finally:
        await store.close()


def tell(config: BrokerConfig, formatted: Sequence[str], features: Mapping[str, int]) -> None:
    from moldau.cli.kafka.features import level_text
    from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER, METADATA_VERSION

    if not formatted:
        print("All of the log directories are already formatted.")
    level = features.get(METADATA_VERSION, FEATURES_OF_A_NEW_CLUSTER[METADATA_VERSION])
    for directory in formatted:
        holds_metadata = config.zookeeper is None and directory == config.log_dirs[0]
        kind = "metadata" if holds_metadata else "data"
        print(f"Formatting {kind} directory {directory} with metadata.version {level_text(METADATA_VERSION, level)}.")


def added_users(arguments: Sequence[str]) -> Users:
    from moldau.cli.kafka.add_scram import added_user

    found: dict[str, dict[str, ScramCredential]] = {}
    for argument in arguments:
        user = added_user(argument, os.urandom)
        found.setdefault(user.name, {})[user.mechanism] = user.credential
    return found


def wanted_features(arguments: Sequence[str]) -> dict[str, int]:
    from moldau.metadata.controller.features import SUPPORTED_FEATURES

    found = {}
    for argument in arguments:
        name, equals, level = argument.partition("=")
        if not equals or not level.strip().isdecimal():
            raise ToolError(
                f"Can't parse feature=level string {argument}: equals sign not found, or no number behind it."
            )
        supported = SUPPORTED_FEATURES.get(name.strip())
        if supported is None:
            known = ", ".join(sorted(SUPPORTED_FEATURES))
            raise ToolError(f"Unsupported feature: {name.strip()}. Supported features are: {known}")
        if not supported.lowest <= int(level) <= supported.highest:
            raise ToolError(f"No feature:{name.strip()} with feature level {int(level)}")
        found[name.strip()] = int(level)
    return found


# -- info -------------------------------------------------------------------------------------------------------------


def info(config: BrokerConfig) -> int:
    from moldau.storage import checkpoints
    from moldau.storage.checkpoints import CorruptFileError
    from moldau.storage.files import OsFiles

    files, problems, there = OsFiles(), [], []
    first = None
    for directory in sorted(config.log_dirs):
        if not os.path.isdir(directory):
            problems.append(f"{directory} {'is not a directory' if os.path.exists(directory) else 'does not exist'}")
            continue
        there.append(directory)
        try:
            found = checkpoints.read_directory(files, directory)
        except (CorruptFileError, OSError) as error:
            problems.append(f"Error loading {os.path.join(directory, checkpoints.META_PROPERTIES)}: {error}")
            continue
        if found is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = found
        elif first.cluster_id != found.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != found.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    print_list("Found log directory:", "Found log directories:", there)
    if first is not None:
        shown = {
            "cluster.id": first.cluster_id,
            "directory.id": encode_uuid(first.directory_id),
            "node.id": first.node_id,
            "version": 1,
        }
        print(f"Found metadata: {{{', '.join(f'{name}={value}' for name, value in shown.items())}}}\n")
    print_list("Found problem:", "Found problems:", problems)
    return 1 if problems else 0


def print_list(one: str, several: str, lines: Sequence[str]) -> None:
    if lines:
        print(one if len(lines) == 1 else several, *(f"  {line}" for line in lines), "", sep="\n")

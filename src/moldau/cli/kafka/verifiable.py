"""What kafka-verifiable-producer and kafka-verifiable-consumer share: servers, the client's file, events as JSON."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.cli.kafka.argument_parser import ArgumentParser, ArgumentsRefused
from moldau.cli.kafka.measuring import now_ms


def add_servers(made: ArgumentParser) -> None:
    servers = made.add_mutually_exclusive_group(required=True)
    for name in ("--bootstrap-server", "--broker-list"):
        servers.add_argument(name, dest="bootstrap_server", metavar="HOST1:PORT1[,HOST2:PORT2[...]]", help="servers")


def read(made: ArgumentParser, arguments: Sequence[str], old_file_option: str) -> Namespace | int:
    """What was given, or the exit code."""
    if not arguments:
        made.print_help()
        return 0
    try:
        given = made.read(arguments)
        if given.command_config and getattr(given, old_file_option):
            made.error(f"Options --{old_file_option} and --command-config are mutually exclusive.")
    except ArgumentsRefused:
        return 1
    return given


def properties_in_file(given: Namespace, old_file_option: str) -> dict[str, str]:
    from moldau.cli.connection import read_properties

    old_file = getattr(given, old_file_option)
    if old_file:
        print(
            f"Option --{old_file_option} has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    path = given.command_config or old_file
    return read_properties(Path(path)) if path else {}


def print_event(name: str, **fields: Any) -> None:
    print(json.dumps({"timestamp": now_ms(), "name": name, **fields}, separators=(",", ":")), flush=True)

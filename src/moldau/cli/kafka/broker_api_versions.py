"""kafka-broker-api-versions: which versions of each API every broker serves, and which a client of ours would use."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from moldau.cli.calls.cluster import api_versions, nodes
from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, connect
from moldau.cli.kafka.failures import is_failure, message_of
from moldau.cli.kafka.options import Parser
from moldau.wire.apis import BETWEEN_BROKERS, CLASSES, ApiKey

PARSER: Final = Parser("This tool helps to retrieve broker version information.", COMMAND_CONFIG, BOOTSTRAP)

FIRST_OWN_KEY: Final = 20_000


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    PARSER.require(options, "bootstrap-server")
    cluster = connect(options)
    for broker in nodes(cluster):
        name = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'} isFenced: false)"
        try:
            versions = api_versions(cluster, broker.node_id)
        except Exception as error:
            if not is_failure(error):
                raise
            print(f"{name} -> ERROR: {message_of(error)}")
            continue
        lines = ",\n".join(f"\t{line}" for line in version_lines(versions))
        print(f"{name} -> (\n{lines}\n)")
    return 0


def version_lines(served: dict[int, tuple[int, int]]) -> list[str]:
    """All that clients may ask for, and what else the broker names, but for what it names to our clients alone."""
    not_kafkas = {key for key in BETWEEN_BROKERS if key not in served or key >= FIRST_OWN_KEY}
    return [line_of(key, served.get(key)) for key in sorted({*CLASSES, *served} - not_kafkas)]


def name_of(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


def line_of(key: int, served: tuple[int, int] | None) -> str:
    name = name_of(ApiKey(key)) if key in CLASSES else "UNKNOWN"
    if served is None:
        return f"{name}({key}): UNSUPPORTED"
    first, last = served
    versions = str(first) if first == last else f"{first} to {last}"
    return f"{name}({key}): {versions}{usable(key, first, last)}"


def usable(key: int, first: int, last: int) -> str:
    if key not in CLASSES:
        return ""
    module, request, _ = CLASSES[key]
    ours = getattr(importlib.import_module(f"moldau.wire.messages.{module}"), request)
    if last < ours.FIRST_VERSION:
        return " [unusable: node too old]"
    if first > ours.LAST_VERSION:
        return " [unusable: node too new]"
    return f" [usable: {min(last, ours.LAST_VERSION)}]"

"""kafka-groups: list groups of every type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from moldau.cli.calls import groups
from moldau.cli.calls.groups import AnyGroup
from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, connect
from moldau.cli.kafka.options import Options, Parser, flag, value

TYPES: Final = ("classic", "consumer", "share", "streams")
NARROWEST: Final = 20
PARSER: Final = Parser(
    "This tool helps to list groups of all types.",
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("list", "List the groups."),
    value("group-type", "type", f"Only groups of this type: {', '.join(TYPES)}."),
    value("protocol", "protocol", "Only groups with this protocol."),
    flag("consumer", "Only consumer groups, classic ones and those without members among them."),
    flag("share", "Only share groups."),
    flag("streams", "Only groups of Kafka Streams."),
)
FILTERS: Final = ("consumer", "share", "streams", "group-type", "protocol")


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    if not options.has("list"):
        raise PARSER.wrong("Command must include exactly one action: --list.")
    if not options.has("bootstrap-server"):
        raise PARSER.wrong("Missing required option(s) [bootstrap-server]")
    for name in ("consumer", "share", "streams"):
        PARSER.refuse_together(options, name, [other for other in FILTERS if other != name])
    wanted = filter_of(options)
    found = [group for group in groups.list_all(connect(options)) if wanted(group)]
    rows = [(group.name, camel(group.kind), group.protocol) for group in found]
    width = max([NARROWEST, *(len(cell) for row in rows for cell in row)])
    print(" ".join(f"{title:<{width}}" for title in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))
    return 0


def camel(kind: str) -> str:
    return kind[:1].upper() + kind[1:]


def filter_of(options: Options) -> Callable[[AnyGroup], bool]:
    if options.has("consumer"):
        return lambda group: (
            group.kind == "consumer" or (group.kind == "classic" and group.protocol in ("consumer", ""))
        )
    kind = next((name for name in ("share", "streams") if options.has(name)), options.text("group-type"))
    if kind is not None and kind.lower() not in TYPES:
        raise PARSER.wrong("--group-type must be a valid group type.")
    protocol = options.text("protocol")
    return lambda group: (kind is None or group.kind == kind.lower()) and protocol in (None, group.protocol)

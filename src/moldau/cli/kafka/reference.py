"""The page of documentation about the `kafka-*` tools, from their tables."""

from __future__ import annotations

import importlib
import inspect

from moldau.cli.kafka.argument_parser import arguments_of
from moldau.cli.kafka.catalogue import LATER, TOOLS, Tool
from moldau.cli.kafka.options import Option, Parser

HEAD = """\
# Kafka's tools

Written by `make docs` from `src/moldau/cli/kafka`. Each command is also there with `.sh`. Flags, output and exit codes
are those of Apache Kafka 4.3; where a tool differs, its section says so.
[Coming from Apache Kafka](../howto/coming-from-kafka.md) tells how they are used."""


def markdown() -> str:
    lines = [*HEAD.splitlines(), "", "| command | what it does |", "|---|---|"]
    lines += [f"| [{tool.name}](#{tool.name}) | {tool.purpose} |" for tool in TOOLS.values()]
    lines += [
        "",
        "Not here, because the subject is missing or gone:",
        "",
        "| command | what it does | what is missing |",
        "|---|---|---|",
        *(f"| {tool.name} | {tool.purpose} | {tool.missing} |" for tool in LATER.values()),
    ]
    for tool in TOOLS.values():
        lines += ["", f"## {tool.name}", "", *section(tool)]
    return "\n".join(lines) + "\n"


def section(tool: Tool) -> list[str]:
    module = importlib.import_module(f"moldau.cli.kafka.{tool.module}")
    _, _, notes = inspect.cleandoc(module.__doc__ or "").partition(": ")
    lines = notes[:1].upper() + notes[1:]
    parser = getattr(module, "PARSER", None)
    if isinstance(parser, Parser):
        return [lines, "", "| option | |", "|---|---|", *map(row, shown_options(parser))]
    made = getattr(module, "parser", None)
    if made is None:
        return [lines]
    rows = [f"| `{option}` | {escaped(text)} |" for option, text in arguments_of(made())]
    return [lines, "", "| option | |", "|---|---|", *rows]


def shown_options(parser: Parser) -> list[Option]:
    return sorted(
        (option for option in parser.options.values() if option.name not in ("help", "version")),
        key=lambda option: (option.hidden, option.name),
    )


def row(option: Option) -> str:
    argument = f" <{option.argument}>" if option.takes_argument else ""
    default = f" Default: `{option.default}`." if option.default else ""
    text = "Old flag, accepted." if option.hidden else option.help
    return f"| `--{option.name}{argument}` | {escaped(text)}{default} |"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

"""The reference page of the `moldau` commands, written from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer.main

from moldau.cli.broker.starting import parser
from moldau.cli.main import build
from moldau.cli.options import CONNECTION_OPTIONS
from moldau.cli.output import EXIT_CODES

HEAD = """# Commands

Written by `make docs` from the commands themselves. `moldau COMMAND --help` says the same; the
[how-to](../howto/command-line.md) shows them at work.

## Options of every command that talks to a cluster
"""


def markdown() -> str:
    root: Any = typer.main.get_command(build())
    commands = sorted(_verbs(root, ("moldau",)))
    lines = [HEAD, *_parameter_table(_connection_parameters(commands)), "", "## Exit codes", "", "| code | meaning |"]
    lines += ["|---|---|", *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())]
    lines += ["", "## All commands", "", "| command | |", "|---|---|"]
    lines += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_summary(command)} |" for name, command in commands]
    for name, command in commands:
        lines += ["", f"## {name}", "", _help(command), "", "```text", _usage(name, command), "```"]
        own = [each for each in command.params if each.name not in CONNECTION_OPTIONS and not _is_help(each)]
        if own:
            lines += ["", *_parameter_table(own)]
        if name == "moldau broker start":
            lines += ["", *_broker_options()]
    return "\n".join(lines) + "\n"


def _verbs(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
        return
    for name, each in below.items():
        yield from _verbs(each, (*path, name))


def _connection_parameters(commands: list[tuple[str, Any]]) -> list[Any]:
    (command,) = [command for name, command in commands if name == "moldau topic list"]
    return [each for each in command.params if each.name in CONNECTION_OPTIONS]


def _usage(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=name)
    return " ".join([name, *command.collect_usage_pieces(context)])


def _is_help(parameter: Any) -> bool:
    return "--help" in parameter.opts


def _help(command: Any) -> str:
    return inspect.cleandoc(command.help or "")


def _summary(command: Any) -> str:
    return _cell(_help(command).splitlines()[0])


def _parameter_table(parameters: list[Any]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {_names(each)} | {_description(each)} |" for each in parameters)]


def _broker_options() -> list[str]:
    """A broker starts without typer, so its options stand elsewhere."""
    found = [each for each in parser()._actions if "--help" not in each.option_strings]
    rows = (f"| `{each.option_strings[0]} {each.metavar}` | {_cell(each.help or '')} |" for each in found)
    return ["| | |", "|---|---|", *rows]


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    wants_value = not parameter.is_flag
    metavar = f" {parameter.metavar or _kind(parameter)}" if wants_value else ""
    return ", ".join(f"`{option}{metavar if option.startswith('--') else ''}`" for option in sorted(parameter.opts))


def _kind(parameter: Any) -> str:
    return str(parameter.name).upper().replace("_", "-")


def _description(parameter: Any) -> str:
    choices = getattr(parameter.type, "choices", None)
    parts = [_cell(parameter.help or "")]
    names = ", ".join(str(getattr(choice, "value", choice)) for choice in choices or ())
    if names and names not in parts[0]:
        parts.append(f"One of {names}.")
    default = parameter.default
    if default not in (None, False, ()) and not callable(default):
        parts.append(f"Default: {getattr(default, 'value', default)}.")
    if getattr(parameter, "multiple", False):
        parts.append("May be repeated.")
    return " ".join(part for part in parts if part)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

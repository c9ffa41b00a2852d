"""The parser of Kafka's measuring and testing tools (argparse4j), whose errors read differently from the others'."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from moldau.cli.kafka.options import VersionAsked

TYPES = {"int": "Integer", "long": "Long", "float": "Double", "double": "Double", "short": "Short"}


class ArgumentsRefused(Exception):
    """Usage and error were printed; the tool ends with 1."""


class ArgumentParser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str = "", **more: Any) -> None:
        super().__init__(
            prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **more
        )

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        name = self.prog.split()[0]
        print(f"{name}: error: {java_words(message)}", file=sys.stderr)
        raise ArgumentsRefused

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """After `--help`, which Kafka's tools answer with 1 as well."""
        raise ArgumentsRefused

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        if "--version" in arguments or "-v" in arguments:
            raise VersionAsked
        return self.parse_args(list(arguments))


def arguments_of(parser: argparse.ArgumentParser, command: str = "") -> list[tuple[str, str]]:
    """Every option with its help, those of subcommands behind the subcommand's name."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found += arguments_of(below, f"{name} ")
        elif action.option_strings and "--help" not in action.option_strings:
            metavar = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
            argument = "" if action.nargs == 0 else f" <{metavar or action.dest}>"
            found.append((f"{command}{action.option_strings[-1]}{argument}", action.help or ""))
    return found


def java_words(message: str) -> str:
    required = re.fullmatch(r"the following arguments are required: (.*)", message)
    if required:
        first = required[1].split(", ")[0]
        return f"argument {first} is required" if first.startswith("-") else "too few arguments"
    group = re.fullmatch(r"one of the arguments (.*) is required", message)
    if group:
        return f"one of the arguments {group[1]} is required"
    kind = re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message)
    if kind:
        name = TYPES.get(kind[2], kind[2])
        return f"argument {kind[1]}: could not convert '{kind[3]}' to {name} (For input string: \"{kind[3]}\")"
    choice = re.fullmatch(r"argument [A-Z]+: (invalid choice: .*)", message)
    if choice:
        return choice[1]
    wrong = re.fullmatch(r"argument (--\S+): invalid choice: (\S+) \(choose from (.*)\)", message)
    if wrong:
        return f"argument {wrong[1]}: invalid choice: '{wrong[2]}' (choose from {{{wrong[3].replace(' ', '')}}})"
    unknown = re.fullmatch(r"unrecognized arguments: (\S+).*", message)
    if unknown:
        return f"unrecognized arguments: '{unknown[1]}'"
    return message


def long(text: str) -> int:
    return int(text)


def double(text: str) -> float:
    return float(text)


def short(text: str) -> int:
    return int(text)

"""Kafka's option parser (joptsimple): `--name value`, `--name=value`, repeated options, optional arguments, `--`.

Values are converted when they are asked for, as there, so that errors come in the same order. Unambiguous prefixes of a
name are accepted everywhere: the tools of Kafka's early releases took them, those of 4.x do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


class ToolError(Exception):
    """Ends a tool with one line on stderr and an exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = code


class OptionError(ToolError):
    """A command line that the parser refuses."""


class UsageError(ToolError):
    """A combination of options that makes no sense: the line is followed by the tool's usage."""

    def __init__(self, message: str, parser: Parser) -> None:
        super().__init__(message)
        self.parser = parser


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    help: str = ""
    argument: str = ""
    """What stands behind the option, in the words of its usage line; empty for a flag."""
    kind: type = str
    default: str | None = None
    argument_needed: bool = True
    required: bool = False
    separator: str = ""
    available_if: tuple[str, ...] = ()
    hidden: bool = False
    """Accepted for old command lines, not shown in the usage."""

    def __str__(self) -> str:
        return f"[{self.name}]"

    @property
    def takes_argument(self) -> bool:
        return bool(self.argument)


def flag(name: str, help: str = "", *, available_if: tuple[str, ...] = (), hidden: bool = False) -> Option:
    return Option(name, help, available_if=available_if, hidden=hidden)


def value(
    name: str,
    argument: str,
    help: str = "",
    *,
    kind: type = str,
    default: str | None = None,
    required: bool = False,
    separator: str = "",
    hidden: bool = False,
) -> Option:
    return Option(name, help, argument, kind, default, required=required, separator=separator, hidden=hidden)


def optional_value(
    name: str, argument: str, help: str = "", *, kind: type = str, available_if: tuple[str, ...] = ()
) -> Option:
    return Option(name, help, argument, kind, argument_needed=False, available_if=available_if)


HELP: Final = flag("help", "Print usage information.")
VERSION: Final = flag("version", "Display Kafka version.")
TRUTHS: Final = {"true": True, "false": False}


@dataclass(slots=True)
class Options:
    """What a command line said."""

    parser: Parser
    values: dict[str, list[str]]
    rest: list[str]

    def has(self, name: str) -> bool:
        return name in self.values

    def texts(self, name: str) -> list[str]:
        found = self.values.get(name)
        if found is not None:
            return found
        default = self.parser.option(name).default
        return [] if default is None else [default]

    def text(self, name: str) -> str | None:
        found = self.texts(name)
        if len(found) > 1:
            raise OptionError(f"Found multiple arguments for option {name}, but you asked for only one")
        return found[0] if found else None

    def given(self, name: str) -> str:
        """The value of an option that was given or has a default."""
        found = self.text(name)
        if found is None:
            raise self.parser.missing(name)
        return found

    def integer(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else self._integer(name, text)

    def integers(self, name: str) -> list[int]:
        return [self._integer(name, text) for text in self.texts(name)]

    def number(self, name: str) -> int:
        """The integer of an option that was given or has a default."""
        return self._integer(name, self.given(name))

    def _integer(self, name: str, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"Cannot parse argument '{text}' of option {name}") from None

    def boolean(self, name: str) -> bool:
        text = self.given(name)
        if text.lower() not in TRUTHS:
            raise OptionError(f"Cannot parse argument '{text}' of option {name}")
        return TRUTHS[text.lower()]


class Parser:
    """The options of one tool."""

    def __init__(self, purpose: str, *options: Option) -> None:
        self.purpose = purpose
        self.options = {option.name: option for option in (HELP, VERSION, *options)}

    def option(self, name: str) -> Option:
        return self.options[name]

    def parse(self, arguments: Sequence[str]) -> Options:
        """Reads a command line. An empty one, `--help` and `--version` end the tool as Kafka's do."""
        values: dict[str, list[str]] = {}
        rest: list[str] = []
        left = list(arguments)
        while left:
            token = left.pop(0)
            if token == "--":
                rest += left
                break
            if token.startswith("-") and token != "-":
                self._read_option(token, left, values)
            else:
                rest.append(token)
        found = Options(self, values, rest)
        self._end_early(found, arguments)
        self._check(found)
        return found

    def _read_option(self, token: str, left: list[str], values: dict[str, list[str]]) -> None:
        name, equals, argument = token.lstrip("-").partition("=")
        option = self._find(name)
        found = values.setdefault(option.name, [])
        if not option.takes_argument:
            return
        if not equals:
            if option.argument_needed and not left:
                raise OptionError(f"Option {option.name} requires an argument")
            if not option.argument_needed and (not left or looks_like_option(left[0], option)):
                return
            argument = left.pop(0)
        parts = argument.split(option.separator) if option.separator else [argument]
        found += [part for part in parts if part] or [argument]

    def _find(self, name: str) -> Option:
        exact = self.options.get(name)
        if exact is not None:
            return exact
        begun = [option for option in self.options.values() if name and option.name.startswith(name)]
        shown = [option for option in begun if not option.hidden] or begun
        if len(shown) != 1:
            raise OptionError(f"{name} is not a recognized option")
        return shown[0]

    def _end_early(self, found: Options, arguments: Sequence[str]) -> None:
        if not arguments or found.has(HELP.name):
            raise UsageError(self.purpose, self)
        if found.has(VERSION.name):
            raise VersionAsked

    def _check(self, found: Options) -> None:
        missing = [name for name, option in self.options.items() if option.required and not found.has(name)]
        if missing:
            raise OptionError(f"Missing required option(s) [{', '.join(missing)}]")
        lost = [
            name
            for name in found.values
            if self.options[name].available_if and not any(map(found.has, self.options[name].available_if))
        ]
        if lost:
            raise OptionError(f"Option(s) [{', '.join(lost)}] are unavailable given other options on the command line")

    # -- what the tools check among their options ----------------------------------------------------------------

    def wrong(self, message: str) -> UsageError:
        return UsageError(message, self)

    def missing(self, name: str) -> UsageError:
        return self.wrong(f'Missing required argument "[{name}]"')

    def require(self, found: Options, *names: str) -> None:
        for name in names:
            if not found.has(name):
                raise self.missing(name)

    def refuse_together(self, found: Options, name: str, others: Sequence[str]) -> None:
        if found.has(name):
            for other in others:
                if found.has(other):
                    raise self.wrong(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def require_one_of(self, found: Options, *names: str) -> None:
        if sum(map(found.has, names)) != 1:
            listed = ", ".join(f"[{name}]" for name in names)
            raise self.wrong(f"Exactly one of the following arguments is required: {listed}")


def looks_like_option(text: str, before: Option) -> bool:
    return text.startswith("-") and not (before.kind is int and text[1:].isdigit())


class VersionAsked(Exception):
    """`--version` was given."""

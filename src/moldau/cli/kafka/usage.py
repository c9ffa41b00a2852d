"""The usage text of a tool, in two columns as Kafka's tools print it."""

from __future__ import annotations

import textwrap
from typing import Final

from moldau.cli.kafka.options import Option, Parser

WIDTH: Final = 80
GAP: Final = 2
INDENT: Final = "  "
TYPE_NAMES: Final = {str: "String", int: "Integer", float: "Double", bool: "Boolean"}


def usage(parser: Parser) -> str:
    shown = sorted((option for option in parser.options.values() if not option.hidden), key=lambda each: each.name)
    star = " (* = required)" if any(option.required for option in shown) else ""
    heading = f"Option{star}"
    rows = [(heading, "Description"), ("-" * len(heading), "-----------")]
    rows += [(left(option), right(option)) for option in shown]
    width = min((WIDTH - GAP) // 2, max(len(row[0]) for row in rows))
    return "\n".join(line for row in rows for line in fit(row[0], row[1], width))


def left(option: Option) -> str:
    text = f"{'* ' if option.required else ''}--{option.name}"
    if not option.takes_argument:
        return text
    opening, closing = "<>" if option.argument_needed else "[]"
    return f"{text} {opening}{TYPE_NAMES[option.kind]}: {option.argument}{closing}"


def right(option: Option) -> str:
    default = "" if option.default is None else f" (default: {option.default})"
    return f"{option.help}{default}".strip()


def fit(option: str, description: str, width: int) -> list[str]:
    """One row, broken into as many lines as its columns need."""
    options = wrap(option, width)
    descriptions = wrap(description, WIDTH - width - GAP)
    lines = max(len(options), len(descriptions))
    options += [""] * (lines - len(options))
    descriptions += [""] * (lines - len(descriptions))
    return [f"{a.ljust(width)}{' ' * GAP}{b}".rstrip() for a, b in zip(options, descriptions, strict=True)]


def wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=INDENT, break_long_words=False) or [""]

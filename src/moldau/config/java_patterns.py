"""Java's regular expressions, as `subscribePattern` and lists of topics have them, matched against whole topic names.

Python's own syntax is nearly the same. What differs is translated: quoting with \\Q…\\E, groups named `(?<name>…)`, and
the POSIX and Java classes `\\p{…}` of ASCII letters. Other `\\p{…}` classes and intersections `[a&&b]` are refused:
topic names are ASCII letters, digits, dots, underscores and hyphens, so nothing is lost.
"""

from __future__ import annotations

import re
from typing import Final

CLASSES: Final = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~", "ASCII": r"\x00-\x7f", "L": "a-zA-Z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9",
    "IsAlphabetic": "a-zA-Z", "IsDigit": "0-9",
}  # fmt: skip
TOKEN: Final = re.compile(
    r"\\Q(.*?)(?:\\E|$)|\\([pP])(?:\{(\w+)\}|(\w))|(\\.)|\(\?<(?=[A-Za-z])|(&&)|(\[)|(\])", re.DOTALL
)


def compile_pattern(text: str) -> re.Pattern[str]:
    """Raises ValueError where it is none, or none that is known here."""
    try:
        return re.compile(translate(text))
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None


def translate(text: str) -> str:
    parts: list[str] = []
    position = 0
    depth = 0
    for token in TOKEN.finditer(text):
        parts.append(text[position : token.start()])
        position = token.end()
        quoted, sign, long_class, short_class, escaped, intersection, opening, closing = token.groups()
        depth += (opening is not None) - (closing is not None and depth > 0)
        if quoted is not None:
            parts.append(re.escape(quoted))
        elif sign is not None:
            parts.append(class_of(sign, long_class or short_class, depth > 0))
        elif intersection is not None and depth > 0:
            raise ValueError("an intersection of classes [a&&b] is not supported")
        else:
            parts.append("(?P<" if token.group().startswith("(?<") else escaped or token.group())
    parts.append(text[position:])
    return "".join(parts)


def class_of(sign: str, name: str, inside_class: bool) -> str:
    if name not in CLASSES:
        raise ValueError(f"the class \\{sign}{{{name}}} is not supported; known: {', '.join(sorted(CLASSES))}")
    if sign == "p":
        return CLASSES[name] if inside_class else f"[{CLASSES[name]}]"
    if inside_class:
        raise ValueError(f"\\P{{{name}}} inside a class is not supported")
    return f"[^{CLASSES[name]}]"

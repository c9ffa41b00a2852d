"""Reader of Java's .properties files, the format of `server.properties`.

    # or ! as the first character   a comment
    key=value  key:value  key value  blanks around the separator do not count
    a backslash at the line's end     goes on in the next line, whose leading blanks do not count
    \\t \\n \\r \\f \\uXXXX               these characters; before any other character the backslash is dropped

A repeated key has its last value. Java reads these files as Latin-1; a file that is valid UTF-8 is read as that here,
since editors write it and both agree on ASCII.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_END = re.compile(r"(?:[^\\=: \t\f]|\\.|\\$)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


class PropertiesError(ValueError):
    """The text is not a properties file."""


def read(path: Path) -> dict[str, str]:
    """The properties in a file."""
    content = path.read_bytes()
    try:
        return parse(content.decode("utf-8"))
    except UnicodeDecodeError:
        return parse(content.decode("latin-1"))


def parse(text: str) -> dict[str, str]:
    """The properties in a text."""
    properties = {}
    for number, line in _logical_lines(text):
        key_match = _KEY_END.match(line)
        key_end = key_match.end() if key_match else 0
        separator = _SEPARATOR.match(line, key_end)
        value_start = separator.end() if separator else key_end
        try:
            properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except PropertiesError as error:
            raise PropertiesError(f"line {number}: {error}") from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blanks, continued ones joined, each with the number of its first line."""
    joined, begun_at = "", 0
    for number, line in enumerate(_LINE_END.split(text), start=1):
        content = line.lstrip(_BLANKS)
        if not joined:
            if not content or content[0] in "#!":
                continue
            begun_at = number
        continued = (len(content) - len(content.rstrip("\\"))) % 2 == 1
        joined += content[:-1] if continued else content
        if not continued:
            yield begun_at, joined
            joined = ""
    if joined:
        yield begun_at, joined


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: re.Match[str]) -> str:
    digits, character = escape.groups()
    if digits is None:
        return _CONTROL.get(character, character)
    if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
        raise PropertiesError("Malformed \\uxxxx encoding.")
    return chr(int(digits, 16))

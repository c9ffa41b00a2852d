r"""How a record is printed: by a template in the manner of kcat and rpk, or as a line of JSON. Pure.

    %v %s   value              %V %S   its length in bytes (-1 for null)
    %k      key                %K      its length in bytes (-1 for null)
    %t      topic              %p      partition             %o   offset
    %T      timestamp in ms    %d      timestamp, ISO 8601   %d{…}  with a strftime pattern, UTC
    %h      headers, name=value joined by commas             %H   their number
    %h{name}  the value of one header                        %%   a percent sign

Keys, values and headers may be followed by {hex}, {base64} or {json} (a JSON string). Without one they are printed as
they are, byte for byte; null is printed as what --null says. \n \t \r \0 \\ and \xHH are what they are in C.

A line of JSON has topic, partition, offset, timestamp, timestamp_type, key, value, headers (a list of key and value);
bytes that are no UTF-8 stand as key_base64 or value_base64 instead, and what was decoded with its schema as JSON.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from moldau.cli.times import instant_text

ESCAPES: Final = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
ESCAPED: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}
PART: Final = re.compile(rb"%([a-zA-Z%])(?:\{([^}]*)\})?")
TIMESTAMP_TYPES: Final = ("none", "create", "append")
ENCODINGS: Final = ("hex", "base64", "json")
DIRECTIVES: Final = "vskVSKtpoTdhH%"


class FormatError(ValueError):
    """The template or the line of JSON cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a consumer got, or what a producer is given."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    timestamp: int = -1
    timestamp_type: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default=())


Printer = Callable[[Record], bytes]


def unescape(text: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if len(code) == 3:
            return bytes.fromhex(code[1:].decode())
        return ESCAPED.get(code, match[0])

    return ESCAPES.sub(one, text.encode())


def template(text: str, null: bytes = b"") -> Printer:
    """A function that prints a record as the template says."""
    source = unescape(text)
    parts: list[bytes | Printer] = []
    position = 0
    for found in PART.finditer(source):
        parts += [source[position : found.start()], _directive(found[1].decode(), found[2], null)]
        position = found.end()
    parts.append(source[position:])
    if any(isinstance(part, bytes) and b"%" in part for part in parts):
        raise FormatError(f"a lonely % in {text!r}: write %% for a percent sign")
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


def _directive(letter: str, inside: bytes | None, null: bytes) -> Printer:
    argument = None if inside is None else inside.decode()
    match letter:
        case "v" | "s":
            return _field(lambda record: record.value, argument, null)
        case "k":
            return _field(lambda record: record.key, argument, null)
        case "h":
            return _headers(argument, null)
        case "d":
            return _time(argument)
    if argument is not None:
        raise FormatError(f"%{letter} takes nothing in braces")
    simple = SIMPLE.get(letter)
    if simple is None:
        raise FormatError(f"%{letter} is not known; there are {', '.join('%' + each for each in DIRECTIVES)}")
    return lambda record: str(simple(record)).encode()


SIMPLE: Final[Mapping[str, Callable[[Record], object]]] = {
    "V": lambda record: -1 if record.value is None else len(record.value),
    "S": lambda record: -1 if record.value is None else len(record.value),
    "K": lambda record: -1 if record.key is None else len(record.key),
    "t": lambda record: record.topic,
    "p": lambda record: record.partition,
    "o": lambda record: record.offset,
    "T": lambda record: record.timestamp,
    "H": lambda record: len(record.headers),
    "%": lambda record: "%",
}


def _field(of: Callable[[Record], bytes | None], encoding: str | None, null: bytes) -> Printer:
    encode = _encoder(encoding)

    def print_it(record: Record) -> bytes:
        found = of(record)
        return null if found is None else encode(found)

    return print_it


def _encoder(encoding: str | None) -> Callable[[bytes], bytes]:
    match encoding:
        case None | "":
            return bytes
        case "hex":
            return lambda data: data.hex().encode()
        case "base64":
            return base64.b64encode
        case "json":
            return lambda data: json.dumps(data.decode(errors="replace"), ensure_ascii=False).encode()
    raise FormatError(f"{{{encoding}}} is not known; there are {', '.join(ENCODINGS)}")


def _headers(argument: str | None, null: bytes) -> Printer:
    if argument is not None and argument not in ENCODINGS:
        return lambda record: next((value or null for name, value in record.headers if name == argument), null)
    encode = _encoder(argument)
    return lambda record: b",".join(
        name.encode() + b"=" + (null if value is None else encode(value)) for name, value in record.headers
    )


def _time(pattern: str | None) -> Printer:
    if pattern is None:
        return lambda record: instant_text(record.timestamp).encode()
    return lambda record: datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime(pattern).encode()


# -- JSON ----------------------------------------------------------------------------------------------------------


def json_line(record: Record, decoded: Sequence[str] = ()) -> bytes:
    """`decoded` names what is JSON itself, key or value, and stands in the line as such."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[record.timestamp_type],
        **_content("key", record.key, decoded),
        **_content("value", record.value, decoded),
        "headers": [{"key": name, **_bytes("value", value)} for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _content(name: str, data: bytes | None, decoded: Sequence[str]) -> dict[str, Any]:
    return _bytes(name, data) if data is None or name not in decoded else {name: json.loads(data)}


def _bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def from_json(line: bytes, encoded: Sequence[str] = ()) -> Record:
    """Reads back what `json_line` wrote. `key` and `value` may also be any JSON, which is then sent as JSON text; what
    `encoded` names is always taken as JSON, texts too."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise FormatError(f"no JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError("a JSON object is expected, with a value and perhaps a key, headers, partition, timestamp")
    headers = document.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"key": name, "value": value} for name, value in headers.items()]
    try:
        return Record(
            topic=str(document.get("topic") or ""),
            partition=int(document.get("partition", -1)),
            timestamp=int(document.get("timestamp", -1)),
            key=_from_document(document, "key", "key" in encoded),
            value=_from_document(document, "value", "value" in encoded),
            headers=[(str(header["key"]), _from_document(header, "value")) for header in headers],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"cannot make a record of it: {error}") from None


def _from_document(document: Mapping[str, Any], name: str, as_json: bool = False) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    value = document.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) and not as_json else json.dumps(value, ensure_ascii=False).encode()

"""How a record is printed: Kafka's formatters and deserializers, by the names of their classes."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from moldau.cli.kafka.line_reader import truth

if TYPE_CHECKING:
    from confluent_kafka import Message

DEFAULT_FORMATTER: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}
FIELDS: Final = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")


class Formatter(Protocol):
    def write(self, message: Message, out: BinaryIO) -> None: ...


class DefaultFormatter:
    """Columns with a separator: timestamp, partition, offset, delivery, epoch, headers, key, value."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._shown = [
            name for name in FIELDS if truth(properties.get(f"print.{name}", "true" if name == "value" else "false"))
        ]
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key = deserializer(properties.get("key.deserializer"))
        self._value = deserializer(properties.get("value.deserializer"))
        self._header = deserializer(properties.get("headers.deserializer"))

    def write(self, message: Message, out: BinaryIO) -> None:
        if self._shown:
            out.write(self._separator.join(self._column(name, message) for name in self._shown) + self._line_end)

    def _column(self, name: str, message: Message) -> bytes:
        match name:
            case "timestamp":
                kind, milliseconds = message.timestamp()
                known = TIMESTAMP_TYPES.get(kind)
                return f"{known}:{milliseconds}".encode() if known else b"NO_TIMESTAMP"
            case "partition":
                return f"Partition:{message.partition()}".encode()
            case "offset":
                return f"Offset:{message.offset()}".encode()
            case "delivery":
                return b"Delivery:NOT_PRESENT"
            case "epoch":
                return b"Epoch:NOT_PRESENT"
            case "headers":
                return self._headers(message)
            case "key":
                return self._read(self._key, message.key())
            case _:
                return self._read(self._value, message.value())

    def _headers(self, message: Message) -> bytes:
        headers: Any = message.headers()
        if not headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            key.encode() + b":" + self._read(self._header, content) for key, content in headers
        )

    def _read(self, read: Callable[[bytes], str] | None, data: bytes | None) -> bytes:
        if data is None:
            return self._null
        return data if read is None else read(data).encode()


class NoOpFormatter:
    def write(self, message: Message, out: BinaryIO) -> None:
        """Prints nothing."""


class CoordinatorFormatter:
    """The records of an internal topic as JSON, one after the other without line ends, as Kafka prints them."""

    def __init__(self, read: Callable[[bytes, bytes | None], dict[str, Any] | None], kinds: frozenset[int]) -> None:
        self._read = read
        self._kinds = kinds

    def write(self, message: Message, out: BinaryIO) -> None:
        key = message.key()
        if key is None:
            return
        try:
            found = self._read(key, message.value())
        except ValueError as error:
            raise ValueError(f"Could not read record at offset {message.offset()} due to: {error}") from None
        if found is not None and found["key"]["type"] in self._kinds:
            out.write(json.dumps(found, separators=(",", ":")).encode())


def make_formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    short = name.rpartition(".")[2]
    if short in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        return DefaultFormatter(properties)
    if short == "NoOpMessageFormatter":
        return NoOpFormatter()
    from moldau.cli.kafka.coordinator_json import group_record_json, transaction_record_json

    if short in ("OffsetsMessageFormatter", "OffsetsManager$OffsetsMessageFormatter"):
        return CoordinatorFormatter(group_record_json, frozenset({0, 1}))
    if short == "GroupMetadataMessageFormatter":
        return CoordinatorFormatter(group_record_json, frozenset({2}))
    if short == "TransactionLogMessageFormatter":
        return CoordinatorFormatter(transaction_record_json, frozenset({0}))
    raise ValueError(f"{name}: Java classes cannot be loaded here; known are Kafka's own formatters")


# -- deserializers -------------------------------------------------------------------------------------------------


def deserializer(name: str | None) -> Callable[[bytes], str] | None:
    """A reader for the class, or nothing for the bytes as they are."""
    if not name:
        return None
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short in ("ByteArray", "ByteBuffer"):
        return None
    if short not in READERS:
        raise ValueError(f"{name}: Java classes cannot be loaded here; known are {', '.join(READERS)}Deserializer")
    return READERS[short]


def fixed(kind: str, name: str, show: Callable[[Any], str] = str) -> Callable[[bytes], str]:
    size = struct.calcsize(f">{kind}")

    def read(data: bytes) -> str:
        if len(data) != size:
            raise ValueError(f"Size of data received by {name}Deserializer is not {size}")
        return show(struct.unpack(f">{kind}", data)[0])

    return read


def java_float(number: float, digits: str) -> str:
    """A floating-point number as Java prints it."""
    if number != number or number in (float("inf"), float("-inf")):
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        plain = f"{float(digits):f}" if "e" in digits else digits
        return plain if "." in plain else f"{plain}.0"
    mantissa, _, exponent = f"{float(digits):e}".partition("e")
    precise = repr(float(digits))
    figures = precise.partition("e")[0].replace(".", "").replace("-", "").strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{int(exponent)}"


def java_double(number: float) -> str:
    return java_float(number, repr(number))


def java_single(number: float) -> str:
    """The shortest digits that mean the same 32-bit number."""
    for precision in range(1, 10):
        text = f"{number:.{precision}g}"
        if struct.pack(">f", float(text)) == struct.pack(">f", number):
            return java_float(number, repr(float(text)))
    return java_float(number, repr(number))


def read_boolean(data: bytes) -> str:
    if len(data) != 1 or data[0] > 1:
        raise ValueError("Unexpected byte received by BooleanDeserializer")
    return "true" if data[0] else "false"


READERS: Final[dict[str, Callable[[bytes], str]]] = {
    "String": lambda data: data.decode("utf-8", "replace"),
    "Long": fixed("q", "Long"),
    "Integer": fixed("i", "Integer"),
    "Short": fixed("h", "Short"),
    "Double": fixed("d", "Double", java_double),
    "Float": fixed("f", "Float", java_single),
    "Boolean": read_boolean,
    "UUID": lambda data: str(uuid.UUID(data.decode())),
    "Bytes": lambda data: "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02X}" for b in data),
}

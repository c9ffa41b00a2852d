"""Keys and values to bytes and back: Java's built-in kinds with Java's layouts, JSON, and whatever a program brings.

A serializer is given by name ("string", or Java's class name), as an object or class with `serialize(topic, value)`
(and, if it likes, `configure(properties, is_key)` and `close()`), by the path of such a class
("package.module:Class"), or as a plain function of the value. Deserializers are the same with `deserialize(topic,
data)`; one object may be both (a serde). Those that ask a schema registry are in `registered`."""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from uuid import UUID

from moldau.client.errors import SettingError

Properties: TypeAlias = Mapping[str, object]
Encode: TypeAlias = Callable[[str, Any], bytes | None]
Decode: TypeAlias = Callable[[str, bytes | None], Any]
Headed: TypeAlias = Callable[[Any, Any], bytes | None]
"""Of data and the headers beside it."""
HeaderList: TypeAlias = list[tuple[str, bytes | str | None]]
EncodeWithHeaders: TypeAlias = Callable[[str, HeaderList, Any], bytes | None]


@runtime_checkable
class Serializer(Protocol):
    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The bytes of a value, or None for no value. Anything it raises is told with topic and record."""


@runtime_checkable
class Deserializer(Protocol):
    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """The value in these bytes; None stands for no value."""


class Bytes:
    """Bytes as they are."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise TypeError(f"{type(value).__name__} is not bytes: name a serializer for it")

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return data


class String:
    """Text, in UTF-8 unless `serializer.encoding` (`deserializer.encoding`) says something else."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def configure(self, properties: Properties, is_key: bool) -> None:
        part = "key" if is_key else "value"
        for name in ("serializer.encoding", "deserializer.encoding"):
            found = properties.get(f"{part}.{name}", properties.get(name))
            if found is not None:
                self.encoding = str(found)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"{type(value).__name__} is not a string")
        return value.encode(self.encoding)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else data.decode(self.encoding)


class Number:
    """A number of a fixed length, the highest byte first, as Java's serializers write it."""

    def __init__(self, layout: str, kind: type[int] | type[float]) -> None:
        self._struct = struct.Struct(layout)
        self._kind = kind

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{type(value).__name__} is not a number")
        try:
            return self._struct.pack(value)
        except struct.error as error:
            raise ValueError(f"{value!r} does not fit into {self._struct.size} bytes: {error}") from None

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) != self._struct.size:
            raise ValueError(f"expected {self._struct.size} bytes, found {len(data)}")
        return self._kind(self._struct.unpack(data)[0])


class Uuid:
    """A UUID as its text, which is Java's form."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return None if value is None else str(value if isinstance(value, UUID) else UUID(value)).encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else UUID(data.decode())


class Json:
    """JSON in UTF-8, without blanks. None is no value, not `null`."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None:
            return None
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else json.loads(data)


class Void:
    """No value at all."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is not None:
            raise TypeError(f"{value!r} is not None")
        return None

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is not None:
            raise ValueError("expected no value")


BUILT_IN: Final[dict[str, Callable[[], Any]]] = {
    "bytes": Bytes,
    "string": String,
    "short": lambda: Number(">h", int),
    "integer": lambda: Number(">i", int),
    "long": lambda: Number(">q", int),
    "float": lambda: Number(">f", float),
    "double": lambda: Number(">d", float),
    "uuid": Uuid,
    "json": Json,
    "void": Void,
}
OTHER_NAMES: Final = {"bytearray": "bytes", "bytebuffer": "bytes", "int": "integer", "str": "string"}
REGISTERED: Final = {
    "avro": "moldau.clients.registered:Avro",
    "jsonschema": "moldau.clients.registered:JsonSchema",
    "protobuf": "moldau.clients.protobuf:Protobuf",
}
JAVA_PACKAGES: Final = ("org.apache.kafka.", "io.confluent.kafka.")


def encoder(given: object, properties: Properties, is_key: bool) -> Encode:
    """What turns a value into bytes."""
    setting = f"{'key' if is_key else 'value'}.serializer"
    made = resolve(given, setting, properties, is_key)
    if isinstance(made, Serializer):
        return made.serialize
    if callable(made):
        return lambda _topic, value: None if value is None else made(value)
    raise SettingError(setting, f"{given!r} has no method serialize(topic, value), and is no function")


def decoder(given: object, properties: Properties, is_key: bool) -> Decode:
    setting = f"{'key' if is_key else 'value'}.deserializer"
    made = resolve(given, setting, properties, is_key)
    if isinstance(made, Deserializer):
        return made.deserialize
    if callable(made):
        return lambda _topic, data: None if data is None else made(data)
    raise SettingError(setting, f"{given!r} has no method deserialize(topic, data), and is no function")


def with_headers(encode: Encode) -> EncodeWithHeaders | None:
    """For a serializer that writes into the headers of a record: `serialize_with_headers(topic, headers, value)`, if
    it says `writes_headers`."""
    made = getattr(encode, "__self__", None)
    found: EncodeWithHeaders | None = getattr(made, "serialize_with_headers", None)
    return found if getattr(made, "writes_headers", False) else None


def headed(*decoders: Decode) -> tuple[Headed, ...]:
    """For deserializers whose schema may stand in a header: how it comes to the data. Empty if there are none."""
    found = [getattr(getattr(each, "__self__", None), "with_header", None) for each in decoders]
    return tuple(each or as_it_is for each in found) if any(found) else ()


def as_it_is(data: bytes | None, headers: object) -> bytes | None:
    return data


def resolve(given: object, setting: str, properties: Properties, is_key: bool) -> Any:
    made = named(given, setting) if isinstance(given, str) else given
    if isinstance(made, type) and (hasattr(made, "serialize") or hasattr(made, "deserialize")):
        made = made()
    configure = getattr(made, "configure", None)
    if configure is not None:
        configure(properties, is_key)
    return made


def named(name: str, setting: str) -> Any:
    short = name
    if name.startswith(JAVA_PACKAGES):
        short = name.rpartition(".")[2].removesuffix("Deserializer").removesuffix("Serializer").removeprefix("Kafka")
    short = short.lower()
    short = OTHER_NAMES.get(short, short)
    if short in BUILT_IN:
        return BUILT_IN[short]()
    if short in REGISTERED:
        return imported(REGISTERED[short], setting)()
    if "." in name and not name.startswith(JAVA_PACKAGES):
        return imported(name, setting)
    raise SettingError(
        setting, f"{name!r} is not known; expected {', '.join([*BUILT_IN, *REGISTERED])}, or package.module:Class"
    )


def imported(path: str, setting: str) -> Any:
    """A class by its path, `package.module:Class` or `package.module.Class`."""
    module, colon, name = path.partition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(setting, f"{path!r} cannot be imported: {error}") from None

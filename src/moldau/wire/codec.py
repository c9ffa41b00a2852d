"""Reads and writes any Kafka message at any version.

For each message class and version a reader and a writer are compiled once, as straight-line Python, from the class's
field table: runs of fixed-size fields become one `struct` call. Measured against kio's encoder this is several times
faster, and one class serves all versions (kio stays the judge in the tests).

Each comes in two forms. The plain one does all at once. The one "in turns" is a generator that yields every so many
array elements, for messages about thousands of partitions: whoever runs it can do something else in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import cycle
from struct import Struct as Packer
from struct import error as StructError
from typing import Any, TypeVar, cast

from moldau.wire import primitives
from moldau.wire.primitives import DecodeError, EncodeError
from moldau.wire.schema import ZERO_UUID, Buffer, Field, Message, Struct

__all__ = (
    "DecodeError", "EncodeError", "Encoded", "decode", "decode_in_turns", "encode", "encode_in_turns", "encode_part",
    "encode_part_in_turns",
)  # fmt: skip

#: Array elements that are read or written between two yields.
ELEMENTS_PER_TURN = 64
_PATTERN = (False,) * (ELEMENTS_PER_TURN - 1) + (True,)

FIXED = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "bool": "?",
    "float64": "d",
}
READERS = {"string": "string", "bytes": "bytes", "records": "bytes", "uuid": "uuid"}
WRITERS = {"string": "string", "bytes": "data", "records": "data"}

M = TypeVar("M", bound=Message)
F = TypeVar("F", bound=Callable[..., Any])


def remembered(function: F) -> F:
    """`functools.cache` with the function's own type: mypy takes a class for unhashable if its instances are."""
    return cast(F, cache(function))


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    """Gives the message and the position behind it. `bytes` fields are slices of the buffer, not copies, if it is a
    view.
    """
    try:
        return cast("tuple[M, int]", reader(cls, version)(buffer, position))
    except (StructError, IndexError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: the data ends too early") from error


def encode(message: Message, version: int) -> bytes:
    out: list[bytes] = []
    try:
        writer(type(message), version)(message, out)
    except StructError as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error
    return b"".join(out)


def decode_in_turns(
    cls: type[M], version: int, buffer: Buffer, position: int = 0
) -> Generator[None, None, tuple[M, int]]:
    """`decode`, with yields between array elements."""
    try:
        read = reader(cls, version, in_turns=True)
        if not has_structs(cls):
            return cast("tuple[M, int]", read(buffer, position))
        return cast("tuple[M, int]", (yield from read(buffer, position, pauses())))
    except (StructError, IndexError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: the data ends too early") from error


def encode_in_turns(message: Message, version: int) -> Generator[None, None, bytes]:
    """`encode`, with yields between array elements."""
    out: list[bytes] = []
    try:
        write = writer(type(message), version, in_turns=True)
        if has_structs(type(message)):
            yield from write(message, out, pauses())
        else:
            write(message, out)
    except StructError as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error
    return b"".join(out)


def pauses() -> Iterator[bool]:
    """Whether to yield now, once for each array element."""
    return cycle(_PATTERN)


@remembered
def has_structs(cls: type[Struct]) -> bool:
    """Whether a struct holds others in arrays, so that there may be many of them."""
    return any(isinstance(field.kind, type) and (field.array or has_structs(field.kind)) for field in cls.FIELDS)


class Encoded(bytes):
    """A struct that was written before: it may stand in a message's array for the struct itself."""


def encode_part(cls: type[Message], part: Struct, version: int) -> Encoded:
    """Writes one struct as it stands inside messages of this class, to be kept and used in many of them."""
    out: list[bytes] = []
    part_writer(cls, type(part), version)(part, out)
    return Encoded(b"".join(out))


def encode_part_in_turns(cls: type[Message], part: Struct, version: int) -> Generator[None, None, Encoded]:
    """`encode_part` of a struct that holds others, with yields between them."""
    out: list[bytes] = []
    yield from part_writer(cls, type(part), version, in_turns=True)(part, out, pauses())
    return Encoded(b"".join(out))


@remembered
def reader(cls: type[Message], version: int, in_turns: bool = False) -> Callable[..., Any]:
    """A function of a buffer and a position; in turns, if there is something to pause between, also of `pauses`."""
    source = Source()
    name = ReaderCompiler(source, version, version >= cls.FLEXIBLE_FROM, in_turns).struct(cls)
    return cast("Callable[..., Any]", source.compile(name, f"<read {cls.__name__} v{version}>"))


@remembered
def writer(cls: type[Message], version: int, in_turns: bool = False) -> Callable[..., Any]:
    """A function of a message and a list for the pieces; in turns likewise."""
    source = Source()
    name = WriterCompiler(source, version, version >= cls.FLEXIBLE_FROM, in_turns).struct(cls)
    return cast("Callable[..., Any]", source.compile(name, f"<write {cls.__name__} v{version}>"))


@remembered
def part_writer(cls: type[Message], part: type[Struct], version: int, in_turns: bool = False) -> Callable[..., Any]:
    source = Source()
    name = WriterCompiler(source, version, version >= cls.FLEXIBLE_FROM, in_turns).struct(part)
    return cast("Callable[..., Any]", source.compile(name, f"<write {part.__name__} v{version}>"))


class Source:
    """Python source under construction, with the objects that it refers to."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[str, object] = {
            name: getattr(primitives, name) for name in dir(primitives) if not name.startswith("_")
        }
        self.names["Encoded"] = Encoded
        self.done: dict[type[Struct], str] = {}

    def packer(self, layout: str) -> str:
        name = "pack_" + layout.replace("?", "o")
        self.names.setdefault(name, Packer(">" + layout))
        return name

    def add(self, head: str, body: list[str]) -> None:
        self.functions.append("\n".join([head, *("    " + line for line in body)]))

    def compile(self, name: str, where: str) -> object:
        exec(compile("\n\n".join(self.functions), where, "exec"), self.names)
        return self.names[name]


def present(cls: type[Struct], version: int, flexible: bool) -> tuple[list[Field], list[Field]]:
    fields = [field for field in cls.FIELDS if field.exists(version)]
    tagged = [field for field in fields if flexible and field.tagged(version)]
    return [field for field in fields if field not in tagged], sorted(tagged, key=lambda field: field.tag)


def fixed_run(fields: list[Field], start: int) -> list[Field]:
    """The longest run of fixed-size scalars from here on."""
    end = start
    while end < len(fields) and not fields[end].array and fields[end].kind in FIXED:
        end += 1
    return fields[start:end]


class Compiler:
    def __init__(self, source: Source, version: int, flexible: bool, in_turns: bool = False) -> None:
        self.source, self.version, self.flexible, self.in_turns = source, version, flexible, in_turns
        self.compact = "compact_" if flexible else ""

    def pauses_in(self, cls: type[Struct]) -> bool:
        return self.in_turns and has_structs(cls)

    def arguments(self, cls: type[Struct], arguments: str) -> str:
        return f"({arguments}, turns)" if self.pauses_in(cls) else f"({arguments})"

    def call(self, cls: type[Struct], name: str, arguments: str) -> str:
        called = name + self.arguments(cls, arguments)
        return f"yield from {called}" if self.pauses_in(cls) else called

    def as_generator(self, cls: type[Struct]) -> list[str]:
        """Also at a version that has none of its arrays."""
        return ["if False:", "    yield"] if self.pauses_in(cls) else []

    def pause(self, field: Field) -> list[str]:
        """At the end of each round of an array's loop."""
        return ["if next(turns):", "    yield"] if self.in_turns and isinstance(field.kind, type) else []


class ReaderCompiler(Compiler):
    def struct(self, cls: type[Struct]) -> str:
        if cls in self.source.done:
            return self.source.done[cls]
        name = self.source.done[cls] = f"read_{cls.__name__}"
        self.source.names[f"new_{cls.__name__}"] = cls
        body = [*self.as_generator(cls), f"o = new_{cls.__name__}()"]
        fields, tagged = present(cls, self.version, self.flexible)
        index = 0
        while index < len(fields):
            run = fixed_run(fields, index)
            if run:
                body += self.run(run)
                index += len(run)
            else:
                body += self.field(fields[index])
                index += 1
        if self.flexible:
            body += self.tags(tagged)
        self.source.add(f"def {name}{self.arguments(cls, 'b, p')}:", [*body, "return o, p"])
        return name

    def run(self, run: list[Field]) -> list[str]:
        packer = self.source.packer("".join(FIXED[cast(str, field.kind)] for field in run))
        size = cast(Packer, self.source.names[packer]).size
        targets = ", ".join(f"o.{field.name}" for field in run) + ("," if len(run) == 1 else "")
        return [f"{targets} = {packer}.unpack_from(b, p)", f"p += {size}"]

    def field(self, field: Field) -> list[str]:
        if field.array:
            return self.array(field)
        lines = self.scalar(field, f"o.{field.name}")
        if field.kind in ("string", "bytes", "records") and not field.nullable(self.version):
            lines += [
                f"if o.{field.name} is None:",
                f"    raise DecodeError('non-nullable field {field.name} is null')",
            ]
        return lines

    def scalar(self, field: Field, target: str) -> list[str]:
        if isinstance(field.kind, type):
            call = f"{target}, p = {self.call(field.kind, self.struct(field.kind), 'b, p')}"
            if not field.nullable(self.version) or field.array:
                return [call]
            is_there = "b[p - 1]" if self.flexible and field.tagged(self.version) else "b[p - 1] < 128"
            return [f"{target} = None", "p += 1", f"if {is_there}:", f"    {call}"]
        if field.kind in FIXED:
            packer = self.source.packer(FIXED[field.kind])
            return [f"({target},) = {packer}.unpack_from(b, p)", f"p += {cast(Packer, self.source.names[packer]).size}"]
        kind = READERS[field.kind]
        prefix = "" if kind == "uuid" else self.compact
        return [f"{target}, p = read_{prefix}{kind}(b, p, '{field.name}')"]

    def array(self, field: Field) -> list[str]:
        lines = [f"n, p = read_{self.compact}count(b, p, '{field.name}')", "if n < 0:"]
        if field.nullable(self.version):
            lines.append(f"    o.{field.name} = None")
        else:
            lines.append(f"    raise DecodeError('non-nullable field {field.name} is null')")
        if field.kind in FIXED:
            packer = f"Packer(f'>{{n}}{FIXED[field.kind]}')"
            size = Packer(">" + FIXED[field.kind]).size
            return [*lines, "else:", f"    o.{field.name} = list({packer}.unpack_from(b, p))", f"    p += n * {size}"]
        lines += ["else:", f"    o.{field.name} = a = []", "    for _ in range(n):"]
        lines += ["        " + line for line in self.scalar(field, "v")]
        if field.kind in ("string", "bytes"):
            lines += ["        if v is None:", f"            raise DecodeError('null inside {field.name}')"]
        return [*lines, "        a.append(v)", *("        " + line for line in self.pause(field))]

    def tags(self, tagged: list[Field]) -> list[str]:
        if not tagged:
            return ["if b[p] == 0:", "    p += 1", "else:", "    p = skip_tagged(b, p)"]
        lines = [
            "t, p = read_uvarint(b, p)",
            "for _ in range(t):",
            "    k, p = read_uvarint(b, p)",
            "    z, p = read_uvarint(b, p)",
            "    e = p + z",
        ]
        lines += ["    if e > len(b):", "        raise DecodeError('tagged field ends behind the data')"]
        for number, field in enumerate(tagged):
            lines.append(f"    {'el' if number else ''}if k == {field.tag}:")
            lines += ["        " + line for line in self.field(field)]
        return [*lines, "    p = e"]


class WriterCompiler(Compiler):
    def struct(self, cls: type[Struct]) -> str:
        if cls in self.source.done:
            return self.source.done[cls]
        name = self.source.done[cls] = f"write_{cls.__name__}"
        self.source.names[f"new_{cls.__name__}"] = cls
        body: list[str] = [*self.as_generator(cls), "w = out.append"]
        fields, tagged = present(cls, self.version, self.flexible)
        index = 0
        while index < len(fields):
            run = fixed_run(fields, index)
            if run:
                packer = self.source.packer("".join(FIXED[cast(str, field.kind)] for field in run))
                body.append(f"w({packer}.pack({', '.join(f'o.{field.name}' for field in run)}))")
                index += len(run)
            else:
                body += self.field(fields[index], f"o.{fields[index].name}")
                index += 1
        if self.flexible:
            body += self.tags(tagged)
        self.source.add(f"def {name}{self.arguments(cls, 'o, out')}:", body)
        return name

    def field(self, field: Field, value: str) -> list[str]:
        if field.array:
            return self.array(field, value)
        lines = []
        if field.kind in ("string", "bytes", "records") and not field.nullable(self.version):
            lines = [
                f"if {value} is None:",
                f"    raise EncodeError('{field.name} may not be null at version {self.version}')",
            ]
        return lines + self.scalar(field, value)

    def scalar(self, field: Field, value: str) -> list[str]:
        if isinstance(field.kind, type):
            name = self.struct(field.kind)
            if field.array:
                return [self.call(field.kind, name, f"{value}, out")]
            if not field.nullable(self.version):
                return [self.call(field.kind, name, f"{value} or new_{field.kind.__name__}(), out")]
            # A null structure is the byte -1; in a tagged field it is the number 0.
            null = "b'\\x00'" if self.flexible and field.tagged(self.version) else "b'\\xff'"
            call = self.call(field.kind, name, f"{value}, out")
            return [f"if {value} is None:", f"    w({null})", "else:", "    w(b'\\x01')", f"    {call}"]
        if field.kind in FIXED:
            return [f"w({self.source.packer(FIXED[field.kind])}.pack({value}))"]
        if field.kind == "uuid":
            return [f"w({value}.bytes)"]
        return [f"w({self.compact}{WRITERS[field.kind]}({value}))"]

    def array(self, field: Field, value: str) -> list[str]:
        head = [f"a = {value}", "if a is None:"]
        if field.nullable(self.version):
            head.append(f"    w({self.compact}count(-1))")
        else:
            head.append(f"    raise EncodeError('{field.name} may not be null at version {self.version}')")
        head += ["else:", f"    w({self.compact}count(len(a)))"]
        if field.kind == "int32":
            return [*head, "    w(Packer(f'>{len(a)}i').pack(*a))"]
        lines = self.scalar(field, "v")
        if isinstance(field.kind, type):
            lines = ["if v.__class__ is Encoded:", "    w(v)", "else:", *("    " + line for line in lines)]
        return [*head, "    for v in a:", *("        " + line for line in [*lines, *self.pause(field)])]

    def tags(self, tagged: list[Field]) -> list[str]:
        if not tagged:
            return ["w(b'\\x00')"]
        lines = ["tagged = []"]
        for field in tagged:
            self.source.names[f"default_{field.name}"] = (
                field.default if field.default is not None else self.plain_default(field)
            )
            lines += [f"if {self.differs(field)}:", "    outer, out = out, []", "    w = out.append"]
            lines += ["    " + line for line in self.field(field, f"o.{field.name}")]
            lines += ["    raw, out = b''.join(out), outer", "    w = out.append"]
            lines.append(f"    tagged.append(uvarint({field.tag}) + uvarint(len(raw)) + raw)")
        return [*lines, "w(uvarint(len(tagged)))", "out.extend(tagged)"]

    def differs(self, field: Field) -> str:
        if field.array:
            return f"o.{field.name}" if not field.nullable(self.version) else f"o.{field.name} != default_{field.name}"
        if isinstance(field.kind, type) and field.default is not None:
            return f"o.{field.name} != default_{field.name}"
        if isinstance(field.kind, type):
            return (
                f"o.{field.name} is not None and o.{field.name} != new_{field.kind.__name__}()"
                if self.struct(field.kind)
                else ""
            )
        return f"o.{field.name} != default_{field.name}"

    def plain_default(self, field: Field) -> object:
        """The table leaves out defaults that follow from the kind."""
        if field.nullable(self.version) or isinstance(field.kind, type):
            return None
        by_kind = {
            "string": "",
            "bytes": b"",
            "records": b"",
            "uuid": ZERO_UUID,
            "bool": False,
            "float64": 0.0,
        }
        return by_kind.get(field.kind, 0)

"""A file descriptor as the text of a .proto file: one text for one meaning; protoc reads the same descriptor back.

    syntax, package, imports, options, messages and enums as they stand, extensions, services

Types are named from their package where no other name could be meant, else in full with a leading dot. Comments are not
part of a descriptor, so they are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

DESCRIPTOR: Final = "google/protobuf/descriptor.proto"
Kind = FieldDescriptorProto.Type
LABELS: Final = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional",
    FieldDescriptorProto.LABEL_REQUIRED: "required",
    FieldDescriptorProto.LABEL_REPEATED: "repeated",
}
LAST_FIELD: Final = 536870911
LAST_ENUM: Final = 2147483647
EDITIONS: Final = {998: "PROTO2", 999: "PROTO3", 1000: "2023", 1001: "2024"}


class Printer:
    def __init__(
        self,
        file: FileDescriptorProto,
        others: Iterable[FileDescriptorProto],
        *,
        normalize: bool = False,
        extensions: bool = True,
    ) -> None:
        self._file = file
        self._normalize = normalize
        self._extensions = extensions
        self._pool = pool_of([*others, file])
        self._names = Counter(names_of(file))
        self._names.update(part for each in [file, *others] for part in each.package.split(".")[:1])
        for each in others:
            if each.package == file.package:
                self._names.update(names_of(each))

    def text(self) -> str:
        return "\n".join(self._lines()).rstrip("\n") + "\n"

    def _lines(self) -> Iterator[str]:
        file = self._file
        if file.syntax == "editions":
            yield f'edition = "{EDITIONS.get(file.edition, file.edition)}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        yield ""
        if file.dependency:
            yield from self._imports()
            yield ""
        options = [f"option {each};" for each in self._options(file.options, "FileOptions")]
        if options:
            yield from options
            yield ""
        for message in file.message_type:
            yield from self._message(message, "")
        for enum in file.enum_type:
            yield from self._enum(enum, "")
        if self._extensions:
            yield from self._extended(file.extension, "")
        for service in file.service:
            yield from self._service(service)

    def _imports(self) -> Iterator[str]:
        file = self._file
        places = range(len(file.dependency))
        for i in sorted(places, key=lambda i: file.dependency[i]) if self._normalize else places:
            how = "public " if i in file.public_dependency else "weak " if i in file.weak_dependency else ""
            yield f"import {how}{quoted(file.dependency[i])};"

    # -- messages ----------------------------------------------------------------------------------------------------

    def _message(self, message: DescriptorProto, indent: str, head: str | None = None) -> Iterator[str]:
        yield f"{indent}{head or f'message {message.name}'} {{"
        inner = indent + "  "
        for option in self._options(message.options, "MessageOptions", skip=("map_entry",)):
            yield f"{inner}option {option};"
        if message.reserved_range:
            yield f"{inner}reserved {ranges((each.start, each.end - 1) for each in message.reserved_range)};"
        if message.reserved_name:
            yield f"{inner}reserved {self._reserved_names(message.reserved_name)};"
        for each in message.extension_range:
            tail = bracketed(self._options(each.options, "ExtensionRangeOptions"))
            yield f"{inner}extensions {ranges([(each.start, each.end - 1)])}{tail};"
        maps = {each.name: each for each in message.nested_type if each.options.map_entry}
        groups = group_names(message.field)
        yield from self._fields(message, maps, inner)
        for nested in message.nested_type:
            if nested.name not in maps and nested.name not in groups:
                yield from self._message(nested, inner)
        for enum in message.enum_type:
            yield from self._enum(enum, inner)
        if self._extensions:
            yield from self._extended(message.extension, inner)
        yield f"{indent}}}"

    def _fields(self, message: DescriptorProto, maps: dict[str, DescriptorProto], indent: str) -> Iterator[str]:
        done = set()
        for field in self._sorted(message.field):
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message, maps, indent)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"{indent}oneof {oneof.name} {{"
                for option in self._options(oneof.options, "OneofOptions"):
                    yield f"{indent}  option {option};"
                for member in self._sorted(message.field):
                    if member.HasField("oneof_index") and member.oneof_index == field.oneof_index:
                        yield from self._field(member, message, maps, indent + "  ", labelled=False)
                yield f"{indent}}}"

    def _sorted(self, fields: Iterable[FieldDescriptorProto]) -> list[FieldDescriptorProto]:
        return sorted(fields, key=lambda field: field.number) if self._normalize else list(fields)

    def _field(
        self,
        field: FieldDescriptorProto,
        message: DescriptorProto | None,
        maps: dict[str, DescriptorProto],
        indent: str,
        *,
        labelled: bool = True,
    ) -> Iterator[str]:
        tail = bracketed(self._field_options(field))
        entry = maps.get(field.type_name.rpartition(".")[2]) if field.type == Kind.TYPE_MESSAGE else None
        if entry is not None:
            key, value = (self._type(each) for each in sorted(entry.field, key=lambda each: each.number))
            yield f"{indent}map<{key}, {value}> {field.name} = {field.number}{tail};"
            return
        label = f"{self._label(field)} " if labelled and self._label(field) else ""
        if field.type == Kind.TYPE_GROUP and message is not None and self._file.syntax != "editions":
            name = field.type_name.rpartition(".")[2]
            nested = next(each for each in message.nested_type if each.name == name)
            yield from self._message(nested, indent, f"{label}group {name} = {field.number}{tail}")
            return
        yield f"{indent}{label}{self._type(field)} {field.name} = {field.number}{tail};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == FieldDescriptorProto.LABEL_OPTIONAL and self._file.syntax in ("proto3", "editions"):
            return "optional" if field.proto3_optional else ""
        return str(LABELS[field.label])

    def _type(self, field: FieldDescriptorProto) -> str:
        if field.type in (Kind.TYPE_MESSAGE, Kind.TYPE_ENUM, Kind.TYPE_GROUP) or field.type_name:
            return self._named(field.type_name)
        return str(Kind.Name(field.type)).removeprefix("TYPE_").lower()

    def _named(self, name: str) -> str:
        package = f".{self._file.package}." if self._file.package else "."
        short = name.removeprefix(package) if name.startswith(package) else ""
        first = short.split(".")[0]
        return short if short and self._names[first] == 1 else name

    def _reserved_names(self, names: Iterable[str]) -> str:
        return ", ".join(name if self._file.syntax == "editions" else quoted(name) for name in names)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}enum {enum.name} {{"
        for option in self._options(enum.options, "EnumOptions"):
            yield f"{indent}  option {option};"
        if enum.reserved_range:
            told = ranges(((each.start, each.end) for each in enum.reserved_range), LAST_ENUM)
            yield f"{indent}  reserved {told};"
        if enum.reserved_name:
            yield f"{indent}  reserved {self._reserved_names(enum.reserved_name)};"
        for value in enum.value:
            tail = bracketed(self._options(value.options, "EnumValueOptions"))
            yield f"{indent}  {value.name} = {value.number}{tail};"
        yield f"{indent}}}"

    def _extended(self, fields: Iterable[FieldDescriptorProto], indent: str) -> Iterator[str]:
        by_extendee: dict[str, list[FieldDescriptorProto]] = {}
        for field in fields:
            by_extendee.setdefault(field.extendee, []).append(field)
        for extendee, members in by_extendee.items():
            yield f"{indent}extend {self._named(extendee)} {{"
            for field in members:
                yield from self._field(field, None, {}, indent + "  ")
            yield f"{indent}}}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        for option in self._options(service.options, "ServiceOptions"):
            yield f"  option {option};"
        for method in service.method:
            taken = ("stream " if method.client_streaming else "") + self._named(method.input_type)
            given = ("stream " if method.server_streaming else "") + self._named(method.output_type)
            head = f"  rpc {method.name} ({taken}) returns ({given})"
            options = list(self._options(method.options, "MethodOptions"))
            if not options:
                yield f"{head};"
                continue
            yield f"{head} {{"
            yield from (f"    option {each};" for each in options)
            yield "  }"
        yield "}"

    def _field_options(self, field: FieldDescriptorProto) -> Iterator[str]:
        if field.HasField("default_value"):
            textual = field.type in (Kind.TYPE_STRING, Kind.TYPE_BYTES)
            as_is = field.type == Kind.TYPE_BYTES
            value = field.default_value
            yield f"default = {(chr(34) + value + chr(34) if as_is else quoted(value)) if textual else value}"
        if field.json_name:
            yield f"json_name = {quoted(field.json_name)}"
        yield from self._options(field.options, "FieldOptions")

    def _options(self, options: Any, name: str, skip: tuple[str, ...] = ()) -> Iterator[str]:
        content = options.SerializeToString(deterministic=True)
        if not content:
            return
        known = self._pool.FindMessageTypeByName(f"google.protobuf.{name}") if self._pool else options.DESCRIPTOR
        found = GetMessageClass(known).FromString(content)
        for field, value in found.ListFields():
            if field.name in skip or (field.is_extension and not self._extensions):
                continue
            key = f"({field.full_name})" if field.is_extension else field.name
            for each in value if field.is_repeated else [value]:
                yield f"{key} = {option_value(field, each)}"


def pool_of(files: list[FileDescriptorProto]) -> DescriptorPool | None:
    """One that knows the options that the files define; None where they define none."""
    if not any(file.name == DESCRIPTOR for file in files):
        return None
    pool = DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    for file in files:
        pool.FindFileByName(file.name)
    return pool


def names_of(file: FileDescriptorProto) -> Iterator[str]:
    yield from (each.name for each in file.enum_type)
    yield from (each.name for each in file.service)
    yield from (each.name for each in file.extension)
    yield from (value.name for each in file.enum_type for value in each.value)
    for message in file.message_type:
        yield from names_in(message)


def names_in(message: DescriptorProto) -> Iterator[str]:
    yield message.name
    yield from (field.name for field in message.field)
    yield from (each.name for each in message.oneof_decl)
    yield from (each.name for each in message.enum_type)
    yield from (each.name for each in message.extension)
    yield from (value.name for each in message.enum_type for value in each.value)
    for nested in message.nested_type:
        yield from names_in(nested)


def group_names(fields: Iterable[FieldDescriptorProto]) -> set[str]:
    return {field.type_name.rpartition(".")[2] for field in fields if field.type == Kind.TYPE_GROUP}


def ranges(pairs: Iterable[tuple[int, int]], last: int = LAST_FIELD) -> str:
    return ", ".join(
        str(start) if start == end else f"{start} to {'max' if end >= last else end}" for start, end in pairs
    )


def bracketed(options: Iterable[str]) -> str:
    told = ", ".join(options)
    return f" [{told}]" if told else ""


def quoted(text: str) -> str:
    return f'"{text_format.text_encoding.CEscape(text.encode(), as_utf8=False)}"'


def option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(known.name if known else value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f'"{text_format.text_encoding.CEscape(value, as_utf8=False)}"'
    return str(value)

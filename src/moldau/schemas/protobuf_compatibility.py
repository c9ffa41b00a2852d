"""Whether messages written with one Protobuf schema can be read with another. Fields are known by their numbers.

Rules and texts are those of Confluent's registry: what the wire format carries over is compatible.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from moldau.schemas.model import READER, WRITER, Difference
from moldau.schemas.protobuf import ProtobufSchema

Kind = FieldDescriptorProto.Type
GROUPS: Final = {
    **dict.fromkeys([Kind.TYPE_INT32, Kind.TYPE_INT64, Kind.TYPE_UINT32, Kind.TYPE_UINT64], "number"),
    **dict.fromkeys([Kind.TYPE_BOOL, Kind.TYPE_ENUM], "number"),
    **dict.fromkeys([Kind.TYPE_SINT32, Kind.TYPE_SINT64], "signed"),
    **dict.fromkeys([Kind.TYPE_STRING, Kind.TYPE_BYTES], "text"),
    **dict.fromkeys([Kind.TYPE_FIXED32, Kind.TYPE_SFIXED32], "fixed32"),
    **dict.fromkeys([Kind.TYPE_FIXED64, Kind.TYPE_SFIXED64], "fixed64"),
    Kind.TYPE_FLOAT: "float",
    Kind.TYPE_DOUBLE: "double",
}
TEXTS: Final = {
    "PACKAGE_CHANGED": "The package at '{at}' in the {new} schema does not match the package in the {old} schema",
    "MESSAGE_REMOVED": "The {new} schema is missing a MESSAGE type at path '{at}' in the {old} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{at}' in the {new} schema does not match the {old} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{at}' in the {new} schema does not match its "
    "kind in the {old} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{at}' in the {new} schema does not match its "
    "type in the {old} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{at}' in the {new} schema does not match "
    "its label in the {old} schema",
    "REQUIRED_FIELD_ADDED": "A required field at path '{at}' in the {new} schema is missing in the {old} schema",
    "REQUIRED_FIELD_REMOVED": "The {new} schema is missing a required field at path '{at}' in the {old} schema",
    "ONEOF_FIELD_REMOVED": "The {new} schema is missing a oneof field at path '{at}' in the {old} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{at}' in the {new} schema are outside a "
    "oneof in the {old} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{at}' in the {new} schema is outside an existing "
    "oneof in the {old} schema",
}


def protobuf_differences(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Difference]:
    return Comparison(Types(writer), Types(reader)).files(writer.file, reader.file)


class Types:
    """Messages of a schema and of what it imports, by full name."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self.messages: dict[str, DescriptorProto] = {}
        self.packages: dict[str, str] = {}
        self.own: set[str] = set()
        self.proto3 = schema.file.syntax in ("proto3", "editions")
        for file in [*schema.others, schema.file]:
            prefix = f".{file.package}" if file.package else ""
            for message in file.message_type:
                self._add(message, prefix, file, file is schema.file)

    def _add(self, message: DescriptorProto, prefix: str, file: FileDescriptorProto, own: bool) -> None:
        name = f"{prefix}.{message.name}"
        self.messages[name] = message
        self.packages[name] = file.package
        if own:
            self.own.add(name)
        for nested in message.nested_type:
            self._add(nested, name, file, own)

    def local(self, name: str) -> str:
        package = self.packages.get(name, "")
        return name.removeprefix(f".{package}." if package else ".")

    def label(self, field: FieldDescriptorProto) -> int | None:
        if field.label == FieldDescriptorProto.LABEL_OPTIONAL and self.proto3 and not field.proto3_optional:
            return None
        return int(field.label)

    def map_entry(self, field: FieldDescriptorProto) -> DescriptorProto | None:
        found = self.messages.get(field.type_name)
        return found if found is not None and found.options.map_entry else None


class Comparison:
    def __init__(self, old: Types, new: Types) -> None:
        self._old = old
        self._new = new
        self._under_way: set[tuple[int, int]] = set()

    def files(self, old: FileDescriptorProto, new: FileDescriptorProto) -> list[Difference]:
        found = [difference("PACKAGE_CHANGED", "#/")] if old.package != new.package else []
        return found + self._types(old.message_type, new.message_type, "#")

    def _types(self, old: Any, new: Any, at: str) -> list[Difference]:
        after = {each.name: each for each in new if not each.options.map_entry}
        found = []
        for message in old:
            if message.options.map_entry:
                continue
            path = f"{at}/{message.name}"
            if message.name not in after:
                found.append(difference("MESSAGE_REMOVED", path))
            else:
                found += self._messages(message, after[message.name], path)
        return found

    def _messages(self, old: DescriptorProto, new: DescriptorProto, at: str) -> list[Difference]:
        pair = (id(old), id(new))
        if pair in self._under_way:
            return []
        self._under_way.add(pair)
        before, after = Members(old), Members(new)
        found = moved_into_oneofs(before, after, at)
        for number in sorted({*before.fields, *after.fields}):
            found += self._numbered(before, after, number, at)
        found += self._types(old.nested_type, new.nested_type, at)
        self._under_way.discard(pair)
        return found

    def _numbered(self, before: Members, after: Members, number: int, at: str) -> list[Difference]:
        old, new = before.fields.get(number), after.fields.get(number)
        if old is not None and new is not None:
            return self._fields(old, new, after.path(at, number))
        field = old if old is not None else new
        assert field is not None
        if field.label == FieldDescriptorProto.LABEL_REQUIRED:
            return [difference(f"REQUIRED_FIELD_{'ADDED' if old is None else 'REMOVED'}", f"{at}/{number}")]
        if old is not None and number in before.oneof and before.oneof[number] not in before.lost_whole(after):
            return [difference("ONEOF_FIELD_REMOVED", before.path(at, number))]
        return []

    def _fields(self, old: FieldDescriptorProto, new: FieldDescriptorProto, at: str) -> list[Difference]:
        old_entry, new_entry = self._old.map_entry(old), self._new.map_entry(new)
        if old_entry is not None and new_entry is not None:
            pairs = zip(by_number(old_entry), by_number(new_entry), strict=False)
            return [each for before, after in pairs for each in self._values(before, after, at, labelled=False)]
        if old_entry is not None or new_entry is not None:
            return [difference("FIELD_KIND_CHANGED", at)]
        return self._values(old, new, at, labelled=True)

    def _values(
        self, old: FieldDescriptorProto, new: FieldDescriptorProto, at: str, *, labelled: bool
    ) -> list[Difference]:
        before, after = GROUPS.get(old.type), GROUPS.get(new.type)
        if (before is None) != (after is None):
            return [difference("FIELD_KIND_CHANGED", at)]
        if before is None:
            return self._named(old.type_name, new.type_name, at)
        if before != after:
            return [difference("FIELD_SCALAR_KIND_CHANGED", at)]
        labels = self._old.label(old), self._new.label(new)
        if labelled and None not in labels and labels[0] != labels[1] and before != "text":
            return [difference("FIELD_NUMERIC_LABEL_CHANGED", at)]
        return []

    def _named(self, old: str, new: str, at: str) -> list[Difference]:
        if self._old.local(old) != self._new.local(new):
            return [difference("FIELD_NAMED_TYPE_CHANGED", at)]
        if old in self._old.own and new in self._new.own:
            return []
        before, after = self._old.messages.get(old), self._new.messages.get(new)
        if before is None or after is None or before == after:
            return []
        found = self._messages(before, after, f"#/{self._old.local(old).replace('.', '/')}")
        return [*found, difference("FIELD_NAMED_TYPE_CHANGED", at)] if found else []


class Members:
    """The fields of a message by number, and the oneof that each belongs to."""

    def __init__(self, message: DescriptorProto) -> None:
        self.fields = {field.number: field for field in message.field}
        self.oneof = {
            field.number: message.oneof_decl[field.oneof_index].name
            for field in message.field
            if field.HasField("oneof_index") and not field.proto3_optional
        }

    def path(self, at: str, number: int) -> str:
        return f"{at}/{self.oneof[number]}/{number}" if number in self.oneof else f"{at}/{number}"

    def lost_whole(self, after: Members) -> set[str]:
        """Oneofs of which nothing is left: they were deleted, not narrowed."""
        left = {name for number, name in self.oneof.items() if number in after.fields}
        return set(self.oneof.values()) - set(after.oneof.values()) - left


def moved_into_oneofs(before: Members, after: Members, at: str) -> list[Difference]:
    """Fields that were independent and exclude each other now."""
    found = []
    for name in dict.fromkeys(after.oneof.values()):
        numbers = [number for number, oneof in after.oneof.items() if oneof == name and number in before.fields]
        origins = {before.oneof.get(number, number) for number in numbers}
        if len(origins) > 1:
            loose = sum(number not in before.oneof for number in numbers)
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if loose > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            found.append(difference(kind, f"{at}/{name}"))
    return found


def by_number(message: DescriptorProto) -> list[FieldDescriptorProto]:
    return sorted(message.field, key=lambda field: field.number)


def difference(kind: str, at: str) -> Difference:
    return Difference(kind, at, TEXTS[kind].format(new=READER, old=WRITER, at=at))

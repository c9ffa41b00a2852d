"""Tags inside schemas: what carries which, and schemas with tags added or taken away.

What carries tags is a record (`sr_record`) or a field of one (`sr_field`), at a path as Confluent's registry writes it:

    Avro         space.Record, space.Record.field; without its name space, it is looked for in all of them
    JSON Schema  object, object.name, object.name.object.inner, object.list.array.object.inner,
                 oneof.0.object.name, object.definitions.Part.object.name; parts of a oneof in the order of the text
    Protobuf     Message, Message.field, Outer.Inner.field

Avro and JSON Schema keep them in "confluent:tags", Protobuf in the options of confluent/meta.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from moldau.schemas.model import AVRO, JSON, SchemaError, compact, read_json

if TYPE_CHECKING:
    from moldau.schemas.protobuf import ProtobufSchema

RECORD: Final = "sr_record"
FIELD: Final = "sr_field"
TAGS: Final = "confluent:tags"
META: Final = "confluent/meta.proto"
NAMED: Final = ("record", "error", "enum", "fixed")


class Entity(NamedTuple):
    path: str
    kind: str


class Carrier(Protocol):
    """What has tags, and can get others."""

    def read(self) -> list[str]: ...

    def write(self, tags: list[str]) -> None: ...


Found = Iterator[tuple[Entity, Carrier]]
Wishes = Mapping[Entity, Sequence[str]]


def tagged(kind: str, text: str, referred: Mapping[str, str]) -> dict[Entity, list[str]]:
    """All that has tags."""
    _, carriers = opened(kind, text, referred)
    return {entity: tags for entity, carrier in carriers if (tags := carrier.read())}


def retagged(kind: str, text: str, referred: Mapping[str, str], more: Wishes, fewer: Wishes) -> str:
    """The schema with tags added, then removed."""
    document, carriers = opened(kind, text, referred, changed=True)
    known = list(carriers)
    for wanted in dict.fromkeys([*more, *fewer]):
        carrier = carrier_of(known, wanted, kind)
        tags = list(dict.fromkeys([*carrier.read(), *more.get(wanted, ())]))
        carrier.write([each for each in tags if each not in fewer.get(wanted, ())])
    return str(document())


def top_fields(kind: str, text: str, referred: Mapping[str, str]) -> list[str]:
    """Names of the fields of the first record."""
    _, carriers = opened(kind, text, referred)
    entities = [entity for entity, _ in carriers]
    first = next((each.path for each in entities if each.kind == RECORD), None)
    inner = [each.path for each in entities if each.kind == FIELD and each.path.startswith(f"{first}.")]
    return [name for name in (path.removeprefix(f"{first}.") for path in inner) if "." not in name]


def carrier_of(known: Sequence[tuple[Entity, Carrier]], wanted: Entity, kind: str) -> Carrier:
    path = wanted.path.removeprefix(".")
    for entity, carrier in known:
        if entity == (path, wanted.kind):
            return carrier
    parts = 1 if wanted.kind == RECORD else 2
    if kind == AVRO and path.count(".") == parts - 1:
        for entity, carrier in known:
            if entity.kind == wanted.kind and entity.path.split(".")[-parts:] == path.split("."):
                return carrier
    raise SchemaError(f"No matching path '{wanted.path}' found in the schema")


def opened(kind: str, text: str, referred: Mapping[str, str], *, changed: bool = False) -> tuple[Any, Found]:
    """What prints the schema, and what can carry tags in it."""
    if kind == AVRO:
        content = read_json(text)
        return lambda: compact(content), in_avro(content, "")
    if kind == JSON:
        content = read_json(text)
        return lambda: compact(content), in_json(content, "", inside=False)
    from moldau.schemas.protobuf import parse_protobuf

    schema = parse_protobuf(text, referred)
    if changed and META not in schema.file.dependency:
        schema = with_meta(schema, referred)
    return lambda: schema.canonical, in_protobuf(schema)


# -- Avro and JSON Schema -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InDocument:
    content: dict[str, Any]

    def read(self) -> list[str]:
        found = self.content.get(TAGS)
        return [str(each) for each in found] if isinstance(found, list) else []

    def write(self, tags: list[str]) -> None:
        if tags:
            self.content[TAGS] = tags
        else:
            self.content.pop(TAGS, None)


def in_avro(content: Any, space: str) -> Found:
    if isinstance(content, list):
        for branch in content:
            yield from in_avro(branch, space)
    if not isinstance(content, dict):
        return
    kind = content.get("type")
    if kind not in NAMED:
        for part in ("type", "items", "values"):
            yield from in_avro(content.get(part), space)
        return
    name = str(content.get("name"))
    around = str(content.get("namespace", space))
    full = name if "." in name or not around else f"{around}.{name}"
    if kind not in ("record", "error"):
        return
    yield Entity(full, RECORD), InDocument(content)
    for field in content.get("fields") or ():
        yield Entity(f"{full}.{field['name']}", FIELD), InDocument(field)
        yield from in_avro(field.get("type"), full.rpartition(".")[0])


def in_json(content: Any, scope: str, *, inside: bool) -> Found:
    """`inside`: it is the schema of a property, whose tags are those of the field."""
    if not isinstance(content, dict):
        return
    for word in ("allOf", "anyOf", "oneOf"):
        for number, part in enumerate(listed(content.get(word))):
            yield from in_json(part, f"{scope}{word.lower()}.{number}.", inside=False)
    for word in ("if", "then", "else"):
        yield from in_json(content.get(word), f"{scope}conditional.{word}.", inside=False)
    yield from in_json(content.get("not"), f"{scope}not.", inside=False)
    yield from in_json(content.get("items"), f"{scope}array.", inside=False)
    properties = content.get("properties")
    if not isinstance(properties, dict) and content.get("type") != "object":
        return
    here = f"{scope}object"
    if not inside:
        yield Entity(here, RECORD), InDocument(content)
    for name, part in members(properties):
        if isinstance(part, dict):
            yield Entity(f"{here}.{name}", FIELD), InDocument(part)
            yield from in_json(part, f"{here}.{name}.", inside=True)
    for word in ("definitions", "$defs"):
        for name, part in members(content.get(word)):
            yield from in_json(part, f"{here}.{word}.{name}.", inside=False)


def members(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- Protobuf -------------------------------------------------------------------------------------------------------


class InOptions:
    """In the options of a descriptor, which know an extension only through the pool that has it."""

    def __init__(self, owner: Any, name: str, extension: str, pool: Any) -> None:
        self._owner = owner
        self._name = name
        self._extension = extension
        self._pool = pool

    def _options(self) -> tuple[Any, Any]:
        from google.protobuf.message_factory import GetMessageClass

        extension = self._pool.FindExtensionByName(f"confluent.{self._extension}")
        known = GetMessageClass(self._pool.FindMessageTypeByName(f"google.protobuf.{self._name}"))
        return known.FromString(self._owner.options.SerializeToString()), extension

    def read(self) -> list[str]:
        if self._pool is None:
            return []
        options, extension = self._options()
        return list(options.Extensions[extension].tags) if options.HasExtension(extension) else []

    def write(self, tags: list[str]) -> None:
        options, extension = self._options()
        meta = options.Extensions[extension]
        del meta.tags[:]
        meta.tags.extend(tags)
        if not meta.ListFields():
            options.ClearExtension(extension)
        self._owner.options.ParseFromString(options.SerializeToString(deterministic=True))


def in_protobuf(schema: ProtobufSchema) -> Found:
    from moldau.schemas.protobuf_text import pool_of

    pool = pool_of([*schema.others, schema.file]) if META in schema.file.dependency else None
    for message in schema.file.message_type:
        yield from in_message(message, "", pool)


def in_message(message: Any, scope: str, pool: Any) -> Found:
    here = f"{scope}{message.name}"
    yield Entity(here, RECORD), InOptions(message, "MessageOptions", "message_meta", pool)
    for field in message.field:
        yield Entity(f"{here}.{field.name}", FIELD), InOptions(field, "FieldOptions", "field_meta", pool)
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from in_message(nested, f"{here}.", pool)


def with_meta(schema: ProtobufSchema, referred: Mapping[str, str]) -> ProtobufSchema:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from moldau.schemas.protobuf import ProtobufSchema, compiled

    file = FileDescriptorProto()
    file.CopyFrom(schema.file)
    file.dependency.append(META)
    return ProtobufSchema(file, compiled(referred, list(file.dependency)))

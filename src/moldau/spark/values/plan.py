"""What the options say about keys and values, settled in the planner; a value that travels to the executors.

Reading, a typed side takes the place of its column: `value` becomes a struct (or text, or whatever the schema is), or
with `flatten` its fields become columns. PERMISSIVE adds `_corrupt_key`, `_corrupt_value` (the bytes that did not
decode) and `_error` (why), for the sides that are typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType

from moldau.clients.registry_keys import of_access
from moldau.spark.option_table import OptionError, read_choice, read_flag
from moldau.spark.values.avro_types import parse_avro, spark_type
from moldau.spark.values.consistency import (
    REGISTER,
    REGISTRY,
    check_decoding,
    check_read_schemas,
    check_registry_options,
    check_written_schemas,
)
from moldau.spark.values.ddl import SchemaError, parse_type
from moldau.spark.values.options import AVRO, FORMATS, JSON_SCHEMA, MODES, PERMISSIVE, PROTOBUF, RAW, REGISTERED
from moldau.spark.values.registry import Registry, RegistryError, Whole

KEY: Final = "key"
VALUE: Final = "value"
ERROR: Final = "_error"
OFFSET: Final = "offset"
HEADERS: Final = "headers"


@dataclass(frozen=True, slots=True)
class Side:
    """The key or the value."""

    name: str
    format: str = RAW
    kind: DataType | None = None
    """Spark's type of what is decoded; None for raw, and when writing."""
    schema: str | None = None
    """Of Avro and JSON its text; of Protobuf the descriptors, in base64."""
    subject: str | None = None
    message: str | None = None
    """Of Protobuf: the full name."""

    @property
    def typed(self) -> bool:
        return self.format != RAW

    @property
    def corrupt(self) -> str:
        return f"_corrupt_{self.name}"

    def fields(self, flatten: bool) -> list[StructField]:
        assert self.kind is not None
        if flatten and isinstance(self.kind, StructType):
            return list(self.kind.fields)
        return [StructField(self.name, self.kind)]


@dataclass(frozen=True, slots=True)
class ValuePlan:
    key: Side = Side(KEY)
    value: Side = Side(VALUE)
    mode: str = PERMISSIVE
    flatten: bool = False
    registry: Registry | None = None
    register: bool = True

    @property
    def sides(self) -> tuple[Side, ...]:
        return tuple(side for side in (self.key, self.value) if side.typed)

    @property
    def typed(self) -> bool:
        return bool(self.sides)

    # -- reading -------------------------------------------------------------------------------------------------

    def offered(self, base: StructType) -> StructType:
        """The columns of a source whose records have these columns."""
        sides = {side.name: side for side in self.sides}
        found: list[StructField] = []
        for field in base:
            found += sides[field.name].fields(self.flatten) if field.name in sides else [field]
        names = [field.name for field in found]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise OptionError("flatten", f"there would be two columns {doubled[0]!r}; leave it out, and use value.*")
        return StructType(found + self._error_fields({field.name for field in base}))

    def _error_fields(self, base: set[str]) -> list[StructField]:
        sides = [side for side in self.sides if side.name in base]
        if self.mode != PERMISSIVE or not sides:
            return []
        return [*(StructField(side.corrupt, BinaryType()) for side in sides), StructField(ERROR, StringType())]

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns of the record that these columns are made of; headers where a schema may be named in one, and the
        offset, to say where a row is."""
        needed: dict[str, None] = {}
        for column in columns:
            sides = [side for side in self.sides if column in self._made_of(side)]
            needed |= dict.fromkeys([side.name for side in sides] or [column])
            if self.registry is not None and any(side.format in REGISTERED for side in sides):
                needed.setdefault(HEADERS)
        if self.typed:
            needed.setdefault(OFFSET)
        return tuple(needed)

    def _made_of(self, side: Side) -> set[str]:
        return {side.corrupt, ERROR, *(field.name for field in side.fields(self.flatten))}


AS_BYTES: Final = ValuePlan()


def read_plan(options: Mapping[str, str]) -> ValuePlan:
    """Asks the registry for the schema where none is given."""
    options = {name.lower(): text for name, text in options.items()}
    formats = read_formats(options)
    registry = read_registry(options)
    check_registry_options(options, formats)
    check_read_schemas(options, formats)
    plan = ValuePlan(
        key=read_side(KEY, formats[KEY], options, registry),
        value=read_side(VALUE, formats[VALUE], options, registry),
        mode=read_choice(options, "mode", MODES, PERMISSIVE),
        flatten=read_flag(options, "flatten", False),
        registry=registry,
    )
    check_decoding(options, [side.kind for side in plan.sides if side.kind is not None])
    return plan


def write_plan(options: Mapping[str, str]) -> ValuePlan:
    """When writing, what the columns hold says the type; a schema is needed only to have another one."""
    options = {name.lower(): text for name, text in options.items()}
    formats = read_formats(options)
    registry = read_registry(options)
    check_registry_options(options, formats)
    check_written_schemas(options, formats)
    sides = [written_side(name, form, options) for name, form in formats.items()]
    register = read_flag(options, REGISTER, True)
    return ValuePlan(key=sides[0], value=sides[1], registry=registry, register=register)


def written_side(name: str, form: str, options: Mapping[str, str]) -> Side:
    schema, message = options.get(f"{name}.schema"), options.get(f"{name}.message")
    if schema is not None and form == PROTOBUF:
        schema, message, _ = protobuf_parts(f"{name}.schema", Whole(schema), message)
    elif schema is not None and form == AVRO:
        text = schema
        checked(f"{name}.schema", lambda: spark_type(parse_avro(text)))
    elif schema is not None and form == JSON_SCHEMA:
        checked(f"{name}.schema", lambda text=schema: json_schema_type(Whole(text)))
    return Side(name, form, schema=schema, subject=subject_of(name, options), message=message)


def protobuf_parts(option: str, whole: Whole, message: str | None) -> tuple[str, str, DataType]:
    """Descriptors, the message's name, its type."""
    from moldau.schemas.descriptors import message_of
    from moldau.schemas.model import SchemaError as Refused
    from moldau.spark.values import protobuf_types, protobuf_values

    try:
        files, name = protobuf_values.settled(whole.text, whole.referred, message)
        descriptor = message_of(files, name)
    except Refused as error:
        raise OptionError(option, str(error)) from None
    return protobuf_values.packed(files), name, checked(option, lambda: protobuf_types.spark_type(descriptor))


def json_schema_type(whole: Whole) -> DataType:
    from moldau.spark.values.json_schema_types import spark_type as type_of

    return type_of(whole.text, whole.referred)


def read_formats(options: Mapping[str, str]) -> dict[str, str]:
    return {name: read_choice(options, f"{name}.format", FORMATS, RAW) for name in (KEY, VALUE)}


def read_registry(options: Mapping[str, str]) -> Registry | None:
    text = options.get(REGISTRY)
    if text is None:
        return None
    urls = tuple(part.strip() for part in text.split(",") if part.strip())
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise OptionError(REGISTRY, f"{text!r} is no address such as http://registry:8081")
    return Registry(urls, of_access(options))


def read_side(name: str, form: str, options: Mapping[str, str], registry: Registry | None) -> Side:
    schema = options.get(f"{name}.schema")
    if form == RAW:
        return Side(name)
    if form == "string":
        return Side(name, form, StringType())
    if form == "json":
        if schema is None:
            raise OptionError(
                f"{name}.schema", f"is missing: {name}.format=json needs it, such as 'id BIGINT, at DATE'"
            )
        return Side(name, form, nullable(checked(f"{name}.schema", lambda: parse_type(schema))))
    subject, option = subject_of(name, options), f"{name}.schema"
    if form == PROTOBUF:
        whole = Whole(schema) if schema is not None else latest(name, form, subject, registry)
        packed, message, kind = protobuf_parts(option, whole, options.get(f"{name}.message"))
        return Side(name, form, kind, packed, subject, message)
    if form == JSON_SCHEMA:
        if schema is not None:
            return Side(name, form, nullable(checked(option, lambda: parse_type(schema))), subject=subject)
        whole = latest(name, form, subject, registry)
        return Side(name, form, checked(option, lambda: json_schema_type(whole)), subject=subject)
    text = schema if schema is not None else latest(name, form, subject, registry).text
    return Side(name, form, checked(option, lambda: spark_type(parse_avro(text))), text, subject)


KINDS: Final = {PROTOBUF: "PROTOBUF", JSON_SCHEMA: "JSON"}


def latest(name: str, form: str, subject: str | None, registry: Registry | None) -> Whole:
    """The newest schema of the registry's subject."""
    if registry is None:
        raise OptionError(f"{name}.schema", f"is missing: {name}.format={form} needs it, or schema.registry.url")
    if subject is None:
        raise OptionError(
            f"{name}.subject", "is missing: with more than one topic it is not clear which schema to read"
        )
    try:
        return registry.latest_of(subject, KINDS[form]) if form in KINDS else Whole(registry.latest(subject))
    except RegistryError as error:
        raise OptionError(f"{name}.subject", str(error)) from None


def subject_of(name: str, options: Mapping[str, str]) -> str | None:
    """The one that is named, or that of the only topic."""
    topic = options.get("topic") or options.get("subscribe", "")
    if options.get(f"{name}.subject"):
        return options[f"{name}.subject"]
    return f"{topic.strip()}-{name}" if topic.strip() and "," not in topic else None


def checked(option: str, read: object) -> DataType:
    assert callable(read)
    try:
        found = read()
    except (SchemaError, KeyError, TypeError) as error:
        raise OptionError(option, str(error)) from None
    assert isinstance(found, DataType)
    return found


def nullable(kind: DataType) -> DataType:
    """A record may lack any field, whatever the schema says."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    return MapType(nullable(kind.keyType), nullable(kind.valueType)) if isinstance(kind, MapType) else kind

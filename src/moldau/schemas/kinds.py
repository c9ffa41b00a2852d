"""The three kinds of schemas behind one door."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.schemas.model import AVRO, JSON, PROTOBUF, Difference, Parsed, SchemaError


def parse(kind: str, text: str, referred: Mapping[str, str], *, check: bool = True) -> Parsed:
    """`check`: as a new schema is checked; what is stored already is only read.

    `referred`: the texts of all that it refers to, by name, those that need nothing first."""
    if kind == AVRO:
        from moldau.schemas.avro import parse_avro

        return parse_avro(text, referred, check_defaults=check)
    if kind == JSON:
        from moldau.schemas.json_schema import parse_json_schema

        return parse_json_schema(text, referred, check=check)
    if kind == PROTOBUF:
        from moldau.schemas.protobuf import parse_protobuf

        return parse_protobuf(text, referred)
    raise SchemaError(f"Invalid schema type {kind}")


def differences(kind: str, reader: Parsed, writer: Parsed, *, lenient: bool = False) -> list[Difference]:
    """Why what is written with one cannot be read with the other; empty if it can."""
    if kind == AVRO:
        from moldau.schemas.avro import AvroSchema
        from moldau.schemas.avro_compatibility import avro_differences

        assert isinstance(reader, AvroSchema)
        assert isinstance(writer, AvroSchema)
        return avro_differences(reader, writer)
    if kind == JSON:
        from moldau.schemas.json_compatibility import json_differences
        from moldau.schemas.json_schema import JsonSchema

        assert isinstance(reader, JsonSchema)
        assert isinstance(writer, JsonSchema)
        return json_differences(reader, writer, lenient=lenient)
    from moldau.schemas.protobuf import ProtobufSchema
    from moldau.schemas.protobuf_compatibility import protobuf_differences

    assert isinstance(reader, ProtobufSchema)
    assert isinstance(writer, ProtobufSchema)
    return protobuf_differences(reader, writer)

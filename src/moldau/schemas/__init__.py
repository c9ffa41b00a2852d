"""Schemas of Avro, JSON Schema and Protobuf: read, canonical text, compared. Registry, REST and Spark share it.

    parsed = kinds.parse("PROTOBUF", text, {"other.proto": other_text})     SchemaError says what is wrong
    parsed.canonical, parsed.normalized, parsed.formatted("serialized")
    kinds.differences("AVRO", reader, writer)                               why the one cannot read what the other wrote
    levels.problems("BACKWARD", kind, new, earlier)                         the same by compatibility level, told
    model.guid_of(parsed.canonical)                                         the fingerprint that is the same everywhere
    workshop.Workshop()                                                     the same calls in worker processes, bounded

Untrusted text belongs into a `Workshop`: protoc and protobuf are native code, and a schema can take for ever.
`framing` is what stands before a registered value, or in its headers. `avro_references` and `model` import nothing
heavy: Spark's short-lived processes use them. Imports nothing of ours; jsonschema, protobuf and grpcio-tools only
inside functions.
"""

"""The options of typed keys and values."""

from __future__ import annotations

from typing import Final

from moldau.clients.registry_keys import ACCESS_KEYS
from moldau.spark.option_table import EVERYWHERE, READ, WRITE, Option

RAW: Final = "raw"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
JSON_SCHEMA: Final = "jsonschema"
FORMATS: Final = (RAW, "string", "json", AVRO, PROTOBUF, JSON_SCHEMA)
REGISTERED: Final = (AVRO, PROTOBUF, JSON_SCHEMA)
"""Those whose schemas may be in a registry."""
PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"
FAILFAST: Final = "FAILFAST"
MODES: Final = (PERMISSIVE, DROPMALFORMED, FAILFAST)

VALUE_OPTIONS: Final = (
    Option(
        "value.format",
        EVERYWHERE,
        "raw",
        "what the bytes of the value are: `raw` leaves them alone, `string` is UTF-8; `json`, `avro`, `protobuf` and "
        "`jsonschema` are typed: the column `value` is then a struct with the fields of the schema. `jsonschema` is "
        "JSON behind the id of a JSON Schema in the registry",
    ),
    Option("key.format", EVERYWHERE, "raw", "the same for the key"),
    Option(
        "value.schema",
        EVERYWHERE,
        "",
        "the type of the value. For `json`: Spark's DDL (`id BIGINT, at TIMESTAMP`) or its JSON form; needed when "
        "reading, refused when writing, where the column's type decides. For `avro`: an Avro schema as JSON, for "
        "`protobuf` the text of a .proto file (which needs `moldau[schemas]`) or its descriptor in base64, for "
        "`jsonschema` as for `json` when reading and a JSON Schema, against which every row is checked, when writing; "
        "without it, the newest one of the registry's subject, or when writing one made from the column's type",
    ),
    Option("key.schema", EVERYWHERE, "", "the same for the key"),
    Option(
        "value.message",
        EVERYWHERE,
        "the first of the file",
        "for `protobuf`: the full name of the message, such as `shop.Order`, in a schema that has several; when "
        "writing only with `value.schema`",
    ),
    Option("key.message", EVERYWHERE, "the first of the file", "the same for the key"),
    Option(
        "flatten",
        READ,
        "false",
        "with true the fields of a typed value, and of a typed key, are columns of their own in the place of `value` "
        "and `key`; a field that is named as another column is refused. Only where one of them is a struct",
    ),
    Option(
        "mode",
        READ,
        "PERMISSIVE",
        "what happens to a record that does not decode: `PERMISSIVE` gives null, the bytes in `_corrupt_value` or "
        "`_corrupt_key`, and the reason in `_error`; `DROPMALFORMED` leaves the row out; `FAILFAST` fails the query. "
        "An id for which the registry has no schema of this kind is a fault of the record; a registry that is away, "
        "refuses the login or answers with an error of its own fails the query in every mode",
    ),
    Option(
        "schema.registry.url",
        EVERYWHERE,
        "",
        "for `avro`, `protobuf` and `jsonschema`: the schema registry, several separated by commas; `user:password@` "
        "may stand before a host. Values then begin with a zero byte and the 4-byte id of their schema, and for "
        "`protobuf` the path to the message in its file, as Confluent's serializers write them. Without it they are "
        "bare Avro or Protobuf. Files of its keys and certificates have to be there on every executor",
    ),
    *(Option(each.name, EVERYWHERE, "", each.doc) for each in ACCESS_KEYS),
    Option(
        "value.subject",
        EVERYWHERE,
        "<topic>-value",
        "the registry's subject of the value's schema; when reading instead of `value.schema`",
    ),
    Option("key.subject", EVERYWHERE, "<topic>-key", "the same for the key"),
    Option(
        "auto.register.schemas",
        WRITE,
        "true",
        "whether a schema that the registry does not have yet is added to the subject when writing",
    ),
)

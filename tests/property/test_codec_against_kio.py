"""Every message at every version: our bytes are kio's bytes, and both ways round nothing is lost."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
from uuid import UUID

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from moldau.wire.apis import CLASSES
from moldau.wire.codec import DecodeError, decode, decode_in_turns, encode, encode_in_turns
from moldau.wire.schema import Field, Message, Struct
from moldau.work.slices import at_once

INT_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}
MESSAGES = [
    (key, module, name, kind)
    for key, (module, request, response) in CLASSES.items()
    if key in api_key_map  # kio knows nothing of what is ours alone
    for name, kind in ((request, "request"), (response, "response"))
]


def random_value(field: Field, version: int, rng: random.Random) -> object:
    if field.nullable(version) and rng.random() < 0.25:
        return None
    if field.array:
        return [random_scalar(field, version, rng) for _ in range(rng.randint(0, 3))]
    return random_scalar(field, version, rng)


def random_scalar(field: Field, version: int, rng: random.Random) -> object:
    kind = field.kind
    if not isinstance(kind, str):
        return random_struct(kind, version, rng)
    if field.name == "error_code" or field.name.endswith("_error_code"):
        return rng.choice((-1, 0, 3, 42, 89))
    if field.name.endswith("_ms"):
        return rng.randrange(0, 2**31)
    if kind in INT_BITS:
        low = 0 if kind.startswith("u") else -1
        return rng.choice((low, 0, 1, rng.randrange(2 ** INT_BITS[kind])))
    by_kind = {
        "bool": lambda: rng.random() < 0.5,
        "string": lambda: rng.choice(("", "x", "böhmen", "t" * 200)),
        "bytes": lambda: rng.randbytes(rng.choice((0, 3, 300))),
        "records": lambda: rng.randbytes(rng.choice((0, 3, 300))),
        "uuid": lambda: UUID(bytes=rng.randbytes(16)),
        "float64": rng.random,
    }
    return by_kind[kind]()


def random_struct(cls: type[Struct], version: int, rng: random.Random) -> Struct:
    value = cls()
    for field in cls.FIELDS:
        if field.exists(version):
            setattr(value, field.name, random_value(field, version, rng))
    return value


def load(module: str, name: str) -> type[Message]:
    cls: type[Message] = getattr(importlib.import_module(f"moldau.wire.messages.{module}"), name)
    return cls


def kio_class(module: str, version: int, kind: str) -> type:
    module_name, class_name = schema_name_map[module][version][EntityType[kind]].split(":")
    found: type = getattr(importlib.import_module(module_name), class_name)
    return found


@pytest.mark.parametrize(("key", "module", "name", "kind"), MESSAGES, ids=[f"{m}-{k}" for _, m, _, k in MESSAGES])
def test_bytes_equal_kios_at_every_version(key: int, module: str, name: str, kind: str) -> None:
    cls = load(module, name)
    for version in range(cls.FIRST_VERSION, cls.LAST_VERSION + 1):
        read, write = entity_reader(kio_class(module, version, kind)), entity_writer(kio_class(module, version, kind))
        for seed in range(6):
            message = random_struct(cls, version, random.Random(f"{name} {version} {seed}"))
            assert isinstance(message, Message)
            ours = encode(message, version)
            theirs, size = read(ours, 0)
            assert size == len(ours), (version, seed)
            with io.BytesIO() as buffer:
                write(buffer, theirs)
                assert buffer.getvalue() == ours, (version, seed)
            again, position = decode(cls, version, ours)
            assert position == len(ours)
            assert encode(again, version) == ours
            assert at_once(encode_in_turns(message, version)) == ours
            assert at_once(decode_in_turns(cls, version, ours)) == (again, len(ours))


@pytest.mark.parametrize(("key", "module", "name", "kind"), MESSAGES, ids=[f"{m}-{k}" for _, m, _, k in MESSAGES])
def test_cut_or_damaged_bytes_are_refused_or_read_never_worse(key: int, module: str, name: str, kind: str) -> None:
    cls = load(module, name)
    rng = random.Random(name)
    for version in range(cls.FIRST_VERSION, cls.LAST_VERSION + 1):
        message = random_struct(cls, version, rng)
        assert isinstance(message, Message)
        whole = encode(message, version)
        for end in {0, 1, len(whole) // 2, max(0, len(whole) - 1)}:
            if end < len(whole):
                with pytest.raises(DecodeError):
                    decode(cls, version, whole[:end])
                with pytest.raises(DecodeError):
                    at_once(decode_in_turns(cls, version, whole[:end]))
        damaged = bytearray(whole)
        for _ in range(min(3, len(damaged))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with contextlib.suppress(DecodeError):
            decode(cls, version, damaged)

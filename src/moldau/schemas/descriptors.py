"""Protobuf's schemas as descriptors: messages of a registered schema without a compiler where it can be helped.

A registry that is asked for `format=serialized` gives descriptors in base64; one that does not know the form gives
.proto text, which protoc has to read (`grpcio-tools`), in a process of its own: it is native code, and prints. What
Google's own files define comes from protobuf's package.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moldau.schemas.model import SchemaError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
BUNDLED: Final = ("google/protobuf/", "google/type/")
"""Every runtime, and every registry, brings these."""


def files_of(text: str, referred: Mapping[str, str]) -> list[FileDescriptorProto]:
    """The schema's file, the last one, behind all that it imports; `referred`: texts by the name of the import."""
    if not BASE64.fullmatch(text):
        return compiled(text, referred)
    found: dict[str, FileDescriptorProto] = {}
    for name, each in referred.items():
        if not BASE64.fullmatch(each):
            raise SchemaError(f"the registry gave {name!r} as text, and what imports it as a descriptor")
        found[name] = read(each, name)
    main = read(text, "")
    ordered: dict[str, FileDescriptorProto] = {}
    add_imports(main, found, ordered)
    return [*ordered.values(), main]


def compiled(text: str, referred: Mapping[str, str]) -> list[FileDescriptorProto]:
    try:
        import grpc_tools  # noqa: F401
    except ImportError:
        raise SchemaError("reading .proto text needs protoc: pip install 'moldau[schemas]'") from None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from moldau.schemas.workshop import Text, Workshop

    with Workshop(1) as workshop:
        return [FileDescriptorProto.FromString(each) for each in workshop.descriptors(Text("PROTOBUF", text, referred))]


def read(text: str, name: str) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, DecodeError, ValueError):
        raise SchemaError("neither the text of a .proto file nor a FileDescriptorProto in base64") from None
    file.name = name or file.name or "default.proto"
    return file


def add_imports(
    file: FileDescriptorProto,
    known: Mapping[str, FileDescriptorProto],
    found: dict[str, FileDescriptorProto],
    around: tuple[str, ...] = (),
) -> None:
    for name in file.dependency:
        if name in found:
            continue
        if name in around:
            raise SchemaError(f"{name!r} imports itself")
        imported = known[name] if name in known else bundled(name)
        add_imports(imported, known, found, (*around, name))
        found[name] = imported


def bundled(name: str) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if not name.startswith(BUNDLED):
        raise SchemaError(f"{name!r} is imported, but no reference has this name")
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        raise SchemaError(f"{name!r} is imported, and not installed: pip install googleapis-common-protos") from None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def message_of(files: Iterable[FileDescriptorProto], name: str) -> Descriptor:
    """In a pool of its own: other schemas may have other messages of this name."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
        return pool.FindMessageTypeByName(name)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"the descriptors do not fit together: {error}") from None
    except KeyError:
        raise SchemaError(f"there is no message {name}") from None


def class_of(descriptor: Descriptor) -> type[Any]:
    from google.protobuf.message_factory import GetMessageClass

    found: type[Any] = GetMessageClass(descriptor)
    return found


def name_at(file: FileDescriptorProto, indexes: Sequence[int]) -> str:
    """The full name of the message that a value's indexes lead to."""
    messages: Any = file.message_type
    parts = [file.package] if file.package else []
    for index in indexes:
        if not 0 <= index < len(messages):
            raise SchemaError(f"message indexes {list(indexes)} lead nowhere in the schema")
        parts.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(parts)


def indexes_of(descriptor: Any) -> tuple[int, ...]:
    """The path to a message: its place in the file, in the message around it, …"""
    path: list[int] = []
    while (around := descriptor.containing_type) is not None:
        path.append(place(descriptor, around.nested_types))
        descriptor = around
    path.append(place(descriptor, descriptor.file.message_types_by_name.values()))
    return tuple(reversed(path))


def place(descriptor: Any, messages: Iterable[Any]) -> int:
    return [each.full_name for each in messages].index(descriptor.full_name)

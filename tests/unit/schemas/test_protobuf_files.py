"""Google's own files, as a hundred schemas that we did not write: what is printed of them protoc reads as the same."""

from __future__ import annotations

import base64
import pkgutil
from importlib import import_module

import google.api
import google.logging.type
import google.protobuf
import google.rpc
import google.rpc.context
import google.type
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.text_format import MessageToString

from moldau.schemas.descriptors import files_of, message_of, name_at
from moldau.schemas.kinds import differences, parse
from moldau.schemas.protobuf import GIVEN, ProtobufSchema, tidied

PACKAGES = (
    google.api, google.logging.type, google.protobuf, google.rpc, google.rpc.context, google.type,
)  # fmt: skip


def modules() -> list[str]:
    found = [
        f"{package.__name__}.{module.name}"
        for package in PACKAGES
        for module in pkgutil.iter_modules(package.__path__)
        # protoc of grpcio-tools does not have the newest two of protobuf itself.
        if module.name.endswith("_pb2") and not module.name.startswith("json_")
    ]
    assert len(found) > 60
    return found


def file_of(module: str) -> FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    import_module(module).DESCRIPTOR.CopyToProto(file)
    return file


def referred(file: FileDescriptorProto, found: dict[str, str]) -> dict[str, str]:
    """What a registry would need as references, those that need nothing first."""
    for name in file.dependency:
        if name not in found and not name.startswith(GIVEN):
            imported = file_of(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            referred(imported, found)
            found[name] = parse("PROTOBUF", encoded(imported), dict(found)).canonical
    return found


def encoded(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("module", modules())
def test_printed_and_read_again(module: str) -> None:
    file = file_of(module)
    others = referred(file, {})
    given = parse("PROTOBUF", encoded(file), others)
    again = parse("PROTOBUF", given.canonical, others)
    assert isinstance(given, ProtobufSchema) and isinstance(again, ProtobufSchema)
    assert again.canonical == given.canonical
    assert parse("PROTOBUF", given.normalized, others).normalized == given.normalized
    expected = tidied(file)
    expected.name = again.file.name
    assert MessageToString(again.file) == MessageToString(expected)
    assert differences("PROTOBUF", again, given) == differences("PROTOBUF", given, again) == []
    files = files_of(given.formatted("serialized"), {}) if not others else files_of(given.canonical, others)
    for index in range(len(files[-1].message_type)):
        name = name_at(files[-1], [index])
        assert message_of(files, name).full_name == name

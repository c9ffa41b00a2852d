"""Protobuf schemas: .proto text or a base64 FileDescriptorProto, read by protoc and by protobuf's own library.

Both are native code, and protoc prints to the process's standard error: run this in a worker (`workshop`) where the
text is not trusted. The canonical text is printed from the descriptor, so that both forms of one schema are one.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.schemas.model import SchemaError, check_size

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

MAIN: Final = "default.proto"
OWN_FILES: Final = Path(__file__).parent / "protos"
GIVEN: Final = ("google/protobuf/", "google/type/", "confluent/")
"""Imports that need no reference: every client brings them."""
BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
ONE_AT_A_TIME: Final = threading.Lock()
"""The process has one standard error, and protoc gets it while it runs."""
UNSAFE: Final = re.compile(r"^/|\\|\x00|(^|/)\.\.?(/|$)")


class ProtobufSchema:
    def __init__(self, file: FileDescriptorProto, others: list[FileDescriptorProto]) -> None:
        self.file = file
        self.others = others
        """All that it imports, directly or not, imported ones first."""

    @property
    def canonical(self) -> str:
        from moldau.schemas.protobuf_text import Printer

        return Printer(self.file, self.others).text()

    @property
    def normalized(self) -> str:
        from moldau.schemas.protobuf_text import Printer

        return Printer(self.file, self.others, normalize=True).text()

    def formatted(self, form: str) -> str:
        from moldau.schemas.protobuf_text import Printer

        if form == "serialized":
            return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()
        if form == "ignore_extensions":
            return Printer(self.file, self.others, extensions=False).text()
        return self.canonical


def parse_protobuf(text: str, referred: Mapping[str, str]) -> ProtobufSchema:
    """`referred`: texts by the name under which they are imported."""
    check_size(text)
    return parsed(text, tuple(referred.items()))


@lru_cache(maxsize=256)
def parsed(text: str, referred: tuple[tuple[str, str], ...]) -> ProtobufSchema:
    given = descriptor_of(text)
    texts = dict(referred)
    for name in texts:
        check_name(name)
    if given is None:
        *others, file = compiled({**texts, MAIN: text}, [MAIN])
    else:
        file = given
        file.name = MAIN
        others = compiled(texts, list(file.dependency))
    check_imports(file, texts)
    check_built(file, others)
    return ProtobufSchema(tidied(file), others)


def descriptor_of(text: str) -> FileDescriptorProto | None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    if not BASE64.fullmatch(text):
        return None
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, DecodeError, ValueError):
        raise SchemaError("neither the text of a .proto file nor a FileDescriptorProto in base64") from None


def check_name(name: str) -> None:
    if not name or len(name) > 200 or UNSAFE.search(name):
        raise SchemaError(f"the reference {name!r} is no path of an import")


def check_imports(file: FileDescriptorProto, texts: Mapping[str, str]) -> None:
    for name in file.dependency:
        if name not in texts and not name.startswith(GIVEN):
            raise SchemaError(f"{name!r} is imported, but no reference has this name")


def check_built(file: FileDescriptorProto, others: list[FileDescriptorProto]) -> None:
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    try:
        for each in [*others, file]:
            pool.AddSerializedFile(each.SerializeToString())
        pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        raise SchemaError(str(error).strip()) from None


def compiled(texts: Mapping[str, str], wanted: list[str]) -> list[FileDescriptorProto]:
    """With what they import, imported files first; the last one is the last wanted."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    if not wanted:
        return []
    with tempfile.TemporaryDirectory(prefix="moldau-protoc-") as folder:
        for name, text in texts.items():
            path = Path(folder, "in", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        Path(folder, "in").mkdir(exist_ok=True)
        out = Path(folder, "out")
        includes = [f"-I{each}" for each in (Path(folder, "in"), *include_folders())]
        status, said = protoc([*includes, "--include_imports", f"--descriptor_set_out={out}", *wanted], folder)
        if status != 0:
            raise SchemaError(
                said.replace(f"{folder}/in/", "").replace(f"{MAIN}:", "").strip()[:2000] or "protoc failed"
            )
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def protoc(arguments: list[str], folder: str) -> tuple[int, str]:
    from grpc_tools import protoc as bundled

    said = Path(folder, "said")
    with ONE_AT_A_TIME:
        sys.stderr.flush()
        kept = os.dup(2)
        try:
            with said.open("wb") as target:
                os.dup2(target.fileno(), 2)
                status = bundled.main(["protoc", *arguments])
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    return status, said.read_text(errors="replace")


@lru_cache(maxsize=1)
def include_folders() -> list[str]:
    import grpc_tools

    found = [str(OWN_FILES), os.path.join(grpc_tools.__path__[0], "_proto")]
    try:
        from google.type import date_pb2
    except ImportError:
        return found
    return [*found, str(Path(date_pb2.__file__).parents[2])]


def tidied(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without what compilers add or leave out as they like."""
    file.ClearField("source_code_info")
    if file.syntax == "proto2":
        file.ClearField("syntax")
    for message in file.message_type:
        tidy_message(message)
    for field in file.extension:
        field.ClearField("json_name")
    return file


def tidy_message(message: object) -> None:
    from google.protobuf.descriptor_pb2 import DescriptorProto

    assert isinstance(message, DescriptorProto)
    for field in message.field:
        if field.json_name == camel_case(field.name):
            field.ClearField("json_name")
    for field in message.extension:
        field.ClearField("json_name")
    for inner in message.nested_type:
        tidy_message(inner)


def camel_case(name: str) -> str:
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name)

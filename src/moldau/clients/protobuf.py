"""Protobuf messages whose files are kept in a schema registry. The layout stands in `schemas.framing`.

The registry gets the file's descriptor in base64, and its imports as schemas of their own, each under its file's name.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from moldau.clients.registry_serde import RegistrySerde
from moldau.clients.schema_registry import Registered, SchemaRegistry
from moldau.schemas.descriptors import BUNDLED, class_of, files_of, indexes_of, message_of, name_at
from moldau.schemas.framing import read_indexes

SERIALIZED: Final = "serialized"
"""The form of answers in which a Protobuf schema is a descriptor."""


class Protobuf(RegistrySerde):
    """Writes messages of generated classes; reads into `message_type`, or without one into a class made from the
    registry's schema."""

    kind = "PROTOBUF"

    def __init__(self, message_type: type[Any] | None = None) -> None:
        super().__init__()
        self._message_type = message_type
        self._heads: dict[tuple[str, str], bytes] = {}
        self._made: dict[tuple[int | str, tuple[int, ...]], type[Any]] = {}

    def encoded(self, topic: str, value: Any) -> tuple[bytes, bytes]:
        descriptor = getattr(value, "DESCRIPTOR", None)
        if descriptor is None:
            raise TypeError(f"{type(value).__name__} is no Protobuf message")
        known = self._heads.get((topic, descriptor.full_name))
        if known is None:
            known = self._heads[topic, descriptor.full_name] = self._head(topic, descriptor)
        return known, bytes(value.SerializeToString())

    def _head(self, topic: str, descriptor: Any) -> bytes:
        subject = self.subject(topic, descriptor.full_name)
        if not self._choice.is_made:
            return self.head(self._registered(subject, descriptor.file), indexes_of(descriptor))
        chosen = self.writing_schema(subject, None, ())
        files = registered_files(self.registry, chosen)
        # The messages of the registered file may stand in another order.
        return self.head(chosen, indexes_of(message_of(files, descriptor.full_name)))

    def _registered(self, subject: str, file: Any) -> Registered:
        references = []
        for imported in file.dependencies:
            if not imported.name.startswith(BUNDLED):
                found = self._registered(imported.name, imported)
                version = self.registry.version_of(
                    imported.name, found.text, self.kind, found.references, normalize=self._normalizes
                )
                references.append({"name": imported.name, "subject": imported.name, "version": version})
        text = base64.b64encode(file.serialized_pb).decode()
        return self.registry.registration(
            subject, text, self.kind, references, register=self._registers, normalize=self._normalizes
        )

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        written, begins = self.opened(data)
        indexes, begins = read_indexes(data, begins)
        kind = self._message_type or self._class_of(written, indexes)
        message = kind()
        try:
            message.ParseFromString(data[begins:])
        except Exception as error:
            raise ValueError(f"it cannot be read with schema {written.schema_id}: {error}") from error
        return message

    def _class_of(self, written: Registered, indexes: tuple[int, ...]) -> type[Any]:
        key = written.guid or written.schema_id, indexes
        if key not in self._made:
            self._made[key] = message_class(self.registry, written, indexes)
        return self._made[key]


def message_class(registry: SchemaRegistry, written: Registered, indexes: tuple[int, ...]) -> type[Any]:
    files = registered_files(registry, written)
    return class_of(message_of(files, name_at(files[-1], indexes)))


def registered_files(registry: SchemaRegistry, written: Registered) -> list[Any]:
    """The schema's file, the last one, behind all that it imports."""
    main = registry.again(written, SERIALIZED)
    return files_of(main.text, registry.referred(main, SERIALIZED))

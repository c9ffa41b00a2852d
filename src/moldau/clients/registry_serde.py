"""What the serializers of a schema registry share: settings, subjects, and where the schema is named.

Settings, for keys alone with `key.` before the name, or `value.`, where marked (*):

    schema.registry.url, basic.auth.user.info
    auto.register.schemas (true)                        else the schema has to be registered already
    normalize.schemas (false)                           schemas that mean the same are the same
    use.schema.id, use.latest.with.metadata, use.latest.version    which schema is written with; they win over the first
    subject.name.strategy * (associated)                topic, record, topic_record, associated, or Confluent's classes
    subject.name.strategy.fallback.type (topic)         where a topic is associated with no subject; none is an error
    subject.name.strategy.kafka.cluster.id (-)          the namespace of associations
    schema.id.serializer * (prefix)                     the id before the value, or the GUID in a header (header)

Rules of a schema (CEL, encryption) are not run. A value that a rule should have checked or changed is refused instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from moldau.client.errors import SettingError
from moldau.clients import properties as settings
from moldau.clients.registry_settings import Choice, Naming, in_header
from moldau.clients.schema_registry import Registered, SchemaRegistry
from moldau.clients.serializers import HeaderList, Properties
from moldau.schemas.framing import KEY_HEADER, VALUE_HEADER, framed_by_id, header_of, read_frame
from moldau.schemas.model import Reference

References = Iterable[Reference | Mapping[str, Any]]
RULES: Final = ("domainRules", "encodingRules")
WRITING: Final = ("WRITE", "WRITEREAD")
READING: Final = ("READ", "WRITEREAD")


class RegistrySerde:
    """`references` are of `schema`: mappings with name, subject and version."""

    kind = ""

    def __init__(self, schema: str | Mapping[str, Any] | list[Any] | None = None, references: References = ()) -> None:
        self.schema = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        self.references = tuple(each.as_json() if isinstance(each, Reference) else dict(each) for each in references)
        self.writes_headers = False
        self._registry: SchemaRegistry | None = None
        self._is_key = False
        self._registers = True
        self._normalizes = False
        self._choice = Choice()
        self._naming = Naming()
        self._chosen: dict[str, Registered] = {}

    def configure(self, properties: Properties, is_key: bool) -> None:
        self._registry = SchemaRegistry.of(properties)
        self._is_key = is_key
        self._registers = settings.flag(properties, "auto.register.schemas", True)
        self._normalizes = settings.flag(properties, "normalize.schemas", False)
        self._choice = Choice.of(properties)
        self._naming = Naming.of(properties, is_key)
        self.writes_headers = in_header(properties, is_key)

    @property
    def registry(self) -> SchemaRegistry:
        if self._registry is None:
            raise SettingError("schema.registry.url", "is missing; expected http://host:8081")
        return self._registry

    # -- writing -----------------------------------------------------------------------------------------------------

    def encoded(self, topic: str, value: Any) -> tuple[bytes, bytes]:
        """What names the schema, and the value."""
        raise NotImplementedError

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None:
            return None
        if self.writes_headers:
            raise ValueError("schema.id.serializer=header: call serialize_with_headers(topic, headers, value)")
        head, data = self.encoded(topic, value)
        return head + data

    def serialize_with_headers(self, topic: str, headers: HeaderList, value: Any) -> bytes | None:
        """Names the schema in the headers of a record, in place of what named one before."""
        name = self._header_name
        headers[:] = [each for each in headers if each[0] != name]
        if value is None:
            return None
        head, data = self.encoded(topic, value)
        headers.append((name, head))
        return data

    @property
    def _header_name(self) -> str:
        return KEY_HEADER if self._is_key else VALUE_HEADER

    def head(self, schema: Registered, indexes: tuple[int, ...] | None = None) -> bytes:
        if not self.writes_headers:
            return framed_by_id(schema.schema_id, b"", indexes)
        if not schema.guid:
            raise ValueError("this registry tells no GUIDs, which headers need: set schema.id.serializer=prefix")
        return header_of(UUID(schema.guid), indexes)

    def subject(self, topic: str, record_name: str | None) -> str:
        return self._naming.subject(self.registry, topic, self._is_key, record_name)

    def writing_schema(self, subject: str, text: str | None, references: Sequence[Mapping[str, Any]]) -> Registered:
        """The schema to write with: what the settings choose, else the one that is given."""
        if not self._choice.is_made:
            if text is None:
                raise ValueError(f"no schema is given for subject {subject}")
            return self.registry.registration(
                subject, text, self.kind, references, register=self._registers, normalize=self._normalizes
            )
        found = self._chosen.get(subject)
        if found is None:  # asked for once: a program goes on writing what it began with
            found = self._choice.found(self.registry, subject)
            self._check_kind(found)
            refuse_rules(found, WRITING)
            self._chosen[subject] = found
        return found

    # -- reading -----------------------------------------------------------------------------------------------------

    def opened(self, data: bytes) -> tuple[Registered, int]:
        """The schema that a value was written with, and where what follows its id begins."""
        frame = read_frame(data)
        found = frame.schema
        written = self.registry.by_id(found) if isinstance(found, int) else self.registry.by_guid(str(found))
        self._check_kind(written)
        if written.rule_set:
            refuse_rules(written, READING)
        return written, frame.begins

    def with_header(self, data: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
        """A value whose schema stands in a header, as if it stood before it: what follows is the same."""
        name = self._header_name
        head = next((value for key, value in reversed(headers) if key == name and value), None)
        return data if data is None or head is None else head + data

    def _check_kind(self, found: Registered) -> None:
        if found.kind != self.kind:
            raise ValueError(f"schema {found.guid or found.schema_id} is {found.kind}, not {self.kind}")


def refuse_rules(schema: Registered, modes: Sequence[str]) -> None:
    """A rule that checks what was read already is left to whoever wrote it."""
    for rule in (rule for kind in RULES for rule in (schema.rule_set or {}).get(kind) or ()):
        checks_alone = rule.get("kind") == "CONDITION" and modes is READING
        if rule.get("mode") in modes and not rule.get("disabled") and not checks_alone:
            raise ValueError(
                f"schema {schema.guid or schema.schema_id} has the rule {rule.get('name')!r} "
                f"({rule.get('type')}), which this client does not run: use Confluent's serializers for it"
            )

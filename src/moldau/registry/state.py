"""What the records of the topic amount to. Changed by `apply` alone, record by record, in the topic's order.

One thread applies; others read. They look at one entry, or at a copy of a table (`list` and `dict` copy in one step).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.registry import records
from moldau.registry.records import Record, Version, version_of
from moldau.registry.subjects import DEFAULT, beside, context_of, qualified, split
from moldau.schemas.levels import LEVELS
from moldau.schemas.model import guid_of

Place = tuple[str, int]
DEFAULTS: Final = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")


@dataclass(slots=True)
class Content:
    """A schema under its id, and where it is."""

    version: Version
    guid: str
    places: dict[Place, None] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    by_id: dict[int, Content] = field(default_factory=dict)
    by_guid: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The ids of a schema, the first one first: what is imported can have several."""
    largest_id: int = 0

    def id_of(self, guid: str) -> int | None:
        return next(iter(self.by_guid.get(guid, ())), None)


class State:
    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Version]] = {}
        self.contexts: dict[str, Context] = {DEFAULT: Context()}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.referring: dict[Place, dict[Place, int]] = {}
        """By what is referred to: who refers to it, with its id."""
        self.associations: dict[str, dict[str, Any]] = {}

    # -- reading -----------------------------------------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """In order; with the soft-deleted ones where asked."""
        found = sorted(self.subjects.get(subject, {}).values(), key=lambda each: each.version)
        return found if deleted else [each for each in found if not each.deleted]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Version | None:
        """-1 is the latest one."""
        if version == -1:
            found = self.versions(subject, deleted=deleted)
            return found[-1] if found else None
        one = self.subjects.get(subject, {}).get(version)
        return one if one is not None and (deleted or not one.deleted) else None

    def context(self, name: str) -> Context:
        return self.contexts.get(name) or Context()

    def content(self, context: str, schema_id: int) -> Content | None:
        return self.context(context).by_id.get(schema_id)

    def content_for(self, subject: str | None, schema_id: int) -> Content | None:
        """What an id means to a subject: the schema that it has under this id, in its context or, where its name says
        none, in any; else the id's schema in the context."""
        context, name = split(subject or "")
        content = self.content(context, schema_id)
        if not name or (content is not None and name_in(content, qualified(subject or ""))):
            return content
        if context != DEFAULT:
            return None
        for other in list(self.contexts):
            there = self.content(other, schema_id)
            if there is not None and other != DEFAULT and name_in(there, f":{other}:{name}"):
                return there
        return content

    def namesakes(self, subject: str) -> Iterator[str]:
        """The subject, and where its name says no context those of its name in all others."""
        yield subject
        if context_of(subject) == DEFAULT:
            for context in list(self.contexts):
                if context != DEFAULT and f":{context}:{subject}" in self.subjects:
                    yield f":{context}:{subject}"

    def references_to(self, subject: str, version: int, *, deleted: bool = False, but: str | None = None) -> list[int]:
        """Those of the subject `but` do not count."""
        found = {
            schema_id: None
            for (other, number), schema_id in list(self.referring.get((subject, version), {}).items())
            if other != but
            and (at := self.version(other, number, deleted=True)) is not None
            and (deleted or not at.deleted)
        }
        return sorted(found)

    def associated_with(self, subject: str) -> list[dict[str, Any]]:
        return [each for each in list(self.associations.values()) if each.get("subject") == subject]

    def every(self, *, deleted: bool = False) -> Iterator[Version]:
        for subject in sorted(self.subjects):
            yield from self.versions(subject, deleted=deleted)

    # -- applying ----------------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Raises PoisonedRecord, with nothing changed, for what cannot be understood."""
        match record.key["keytype"]:
            case records.SCHEMA:
                self._schema(record)
            case records.DELETE_SUBJECT:
                self._delete_subject(record)
            case records.CLEAR_SUBJECT:
                self._clear_subject(records.subject_of(record))
            case records.CONFIG:
                self._config(record)
            case records.MODE:
                self._mode(record)
            case records.CONTEXT:
                self._context(record)
            case records.ASSOC:
                store(self.associations, association_key(record.key), record.value)
            case records.NOOP:
                pass
            case other:
                raise records.PoisonedRecord(f"keytype {other!r} is unknown")

    def _schema(self, record: Record) -> None:
        place = records.place_of(record)
        if record.value is None:
            self._forget(place)
            return
        self._remember(version_of(record))

    def _remember(self, fresh: Version) -> None:
        place = (fresh.subject, fresh.version)
        before = self.subjects.get(fresh.subject, {}).get(fresh.version)
        if before is not None and (before.id, before.text) != (fresh.id, fresh.text):
            self._forget(place)
        context = self.contexts.setdefault(context_of(fresh.subject), Context())
        content = context.by_id.get(fresh.id)
        if content is None:
            guid = guid_of(fresh.text, fresh.references, fresh.metadata, fresh.rule_set)
            content = context.by_id[fresh.id] = Content(fresh, guid)
            context.by_guid[guid] = (*context.by_guid.get(guid, ()), fresh.id)
        content.places[place] = None
        context.largest_id = max(context.largest_id, fresh.id)
        self.subjects.setdefault(fresh.subject, {})[fresh.version] = fresh
        for each in fresh.references:
            self.referring.setdefault((beside(fresh.subject, each.subject), each.version), {})[place] = fresh.id

    def _forget(self, place: Place) -> None:
        versions = self.subjects.get(place[0], {})
        gone = versions.pop(place[1], None)
        if gone is None:
            return
        if not versions:
            self.subjects.pop(place[0], None)
        for each in gone.references:
            self.referring.get((beside(gone.subject, each.subject), each.version), {}).pop(place, None)
        context = self.contexts[context_of(place[0])]
        content = context.by_id.get(gone.id)
        if content is not None:
            content.places.pop(place, None)
            if not content.places:
                del context.by_id[gone.id]
                others = tuple(each for each in context.by_guid.get(content.guid, ()) if each != gone.id)
                store(context.by_guid, content.guid, others or None)

    def _delete_subject(self, record: Record) -> None:
        if record.value is None:
            return
        subject, last = records.subject_of(record), records.number_in(record.value, "version", 0)
        for version in self.versions(subject):
            if version.version <= last:
                self.subjects[subject][version.version] = version.soft_deleted()

    def _clear_subject(self, subject: str) -> None:
        for version in self.versions(subject, deleted=True):
            if version.deleted:
                self._forget((subject, version.version))

    def _config(self, record: Record) -> None:
        value = record.value or {}
        level = value.get("compatibilityLevel")
        if level is not None and level not in LEVELS:
            raise records.PoisonedRecord(f"its level is {str(level)[:40]}")
        if not all(isinstance(value.get(name), dict | None) for name in DEFAULTS):
            raise records.PoisonedRecord(f"{', '.join(DEFAULTS)} are objects")
        store(self.configs, records.scope_of(record), record.value)

    def _mode(self, record: Record) -> None:
        mode = (record.value or {}).get("mode")
        if not isinstance(mode, str | None):
            raise records.PoisonedRecord("its mode is no text")
        store(self.modes, records.scope_of(record), mode)

    def _context(self, record: Record) -> None:
        name = record.key.get("context")
        if not isinstance(name, str) or not name.startswith("."):
            raise records.PoisonedRecord("its key has no context")
        if record.value is not None:
            self.contexts.setdefault(name, Context())
        elif name != DEFAULT and not self.context(name).by_id:
            self.contexts.pop(name, None)


def name_in(content: Content, subject: str) -> bool:
    return any(place[0] == subject for place in list(content.places))


def store(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def association_key(content: dict[str, Any]) -> str:
    names = ("resourceNamespace", "resourceName", "resourceType", "associationType", "subject")
    return "\0".join(str(content.get(name) or "") for name in names)

"""Schemas of requests brought into the form that is stored, with what they refer to; and compared with stored ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from moldau.registry import errors
from moldau.registry.reading import Reader
from moldau.registry.records import Version
from moldau.registry.state import State
from moldau.registry.subjects import beside
from moldau.schemas.model import AVRO, JSON, KINDS, LARGEST_TEXT, MOST_REFERENCES, Reference, SchemaError, guid_of
from moldau.schemas.tags import FIELD, RECORD, Entity
from moldau.schemas.workshop import Read, Text, Workshop

RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")
VERSION: Final = "confluent:version"
"""A property in which a version that was asked for by its number, or made by changing tags, says which it is."""
Tags = dict[Entity, list[str]]


@dataclass(frozen=True, slots=True)
class Request:
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    id: int = -1
    version: int = 0
    more_tags: Tags = field(default_factory=dict)
    fewer_tags: Tags = field(default_factory=dict)

    @property
    def guid(self) -> str:
        return guid_of(self.text, self.references, self.metadata, self.rule_set)


def read_request(body: Mapping[str, Any]) -> Request:
    """Unknown fields are ignored; those that are known have to be what they should."""
    text = body.get("schema") or ""
    kind = body.get("schemaType") or AVRO
    if not isinstance(text, str):
        raise errors.RegistryError(42201, "Invalid schema: it has to be a text")
    if len(text) > LARGEST_TEXT:
        raise errors.too_large(f"it has {len(text)} characters; {LARGEST_TEXT} are allowed")
    if not isinstance(kind, str) or kind.upper() not in KINDS:
        raise errors.invalid_schema(f"Invalid schema type {kind}")
    return Request(
        kind.upper(),
        text,
        read_references(body.get("references")),
        read_metadata(body.get("metadata")),
        read_rule_set(body.get("ruleSet")),
        read_number(body, "id", -1),
        read_number(body, "version", 0),
        read_tags(body.get("schemaTagsToAdd")),
        read_tags(body.get("schemaTagsToRemove")),
    )


def read_number(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 31:
        raise errors.RegistryError(42201, f"Invalid {name}: {str(value)[:100]}")
    return value


def read_references(value: Any) -> tuple[Reference, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_REFERENCES:
        raise errors.invalid_schema(f"references have to be a list of at most {MOST_REFERENCES}")
    found = []
    for each in value:
        name, subject, version = (
            each.get(key) if isinstance(each, dict) else None for key in ("name", "subject", "version")
        )
        whole = isinstance(version, int) and not isinstance(version, bool)
        if not isinstance(name, str) or not isinstance(subject, str) or not whole or not name or not subject:
            raise errors.invalid_schema(f"A reference needs name, subject and version: {str(each)[:200]}")
        found.append(Reference(name, subject, int(version or 0)))
    return tuple(found)


def read_tags(value: Any) -> Tags:
    """Lists of `{"schemaEntity": {"entityPath", "entityType"}, "tags": […]}`."""
    found: Tags = {}
    if value is not None and not isinstance(value, list):
        raise errors.invalid_schema("tags have to be a list")
    for each in value or ():
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        path, kind = (entity.get(key) if isinstance(entity, dict) else None for key in ("entityPath", "entityType"))
        if not isinstance(path, str) or not path or kind not in (RECORD, FIELD) or not are_texts(each.get("tags")):
            told = f"entityPath, entityType ({RECORD} or {FIELD}) and tags: {str(each)[:200]}"
            raise errors.invalid_schema(f"Tags need {told}")
        found.setdefault(Entity(path, str(kind)), []).extend(each["tags"])
    return found


def read_metadata(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise errors.invalid_schema("metadata has to be an object")
    tags, properties, sensitive = value.get("tags"), value.get("properties"), value.get("sensitive")
    good = (
        (tags is None or (isinstance(tags, dict) and all(are_texts(each) for each in tags.values())))
        and (properties is None or (isinstance(properties, dict) and are_texts(list(properties.values()))))
        and (sensitive is None or are_texts(sensitive))
    )
    if not good:
        raise errors.invalid_schema(
            "metadata has tags (lists of texts by name), properties (texts by name), sensitive (texts)"
        )
    return {key: value[key] for key in ("tags", "properties", "sensitive") if value.get(key) is not None}


def read_rule_set(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise errors.RegistryError(42210, "Invalid rule set: it has to be an object")
    for key in RULE_LISTS:
        rules = value.get(key)
        if rules is not None and not (isinstance(rules, list) and all(is_rule(each) for each in rules)):
            raise errors.RegistryError(42210, f"Invalid rule set: {key} has to be a list of rules with a name")
        names = [each["name"] for each in rules or ()]
        if len(set(names)) != len(names):
            raise errors.RegistryError(42210, f"Invalid rule set: {key} has a name twice")
    return {key: value[key] for key in (*RULE_LISTS, "enableAt") if value.get(key) is not None}


def is_rule(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return False
    tags, params = value.get("tags"), value.get("params")
    good = (tags is None or are_texts(tags)) and (params is None or isinstance(params, dict))
    return good and value.get("kind") in (None, "TRANSFORM", "CONDITION")


def are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def same_schema(request: Request, version: Version) -> bool:
    """What a request does not say may be anything."""
    return (
        (request.kind, request.text, request.references) == (version.kind, version.text, version.references)
        and same_metadata(request.metadata, version)
        and request.rule_set in (None, version.rule_set)
    )


def same_metadata(asked: Mapping[str, Any] | None, version: Version) -> bool:
    if asked is None or asked == version.metadata:
        return True
    mine, theirs = version_property(asked), version_property(version.metadata)
    if mine is not None and mine != (theirs or str(version.version)):
        return False
    return without_version(asked) == without_version(version.metadata)


def version_property(metadata: Mapping[str, Any] | None) -> str | None:
    found = ((metadata or {}).get("properties") or {}).get(VERSION)
    return None if found is None else str(found)


def without_version(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    properties = {key: value for key, value in ((metadata or {}).get("properties") or {}).items() if key != VERSION}
    found = {**(metadata or {}), "properties": properties}
    return {key: value for key, value in found.items() if value}


def with_version(metadata: Mapping[str, Any] | None, number: int) -> dict[str, Any]:
    properties = {**((metadata or {}).get("properties") or {}), VERSION: str(number)}
    return {**(metadata or {}), "properties": properties}


class Canonical:
    def __init__(self, state: State, workshop: Workshop) -> None:
        self._state = state
        self._reader = Reader(workshop)

    def of(self, subject: str, request: Request, *, normalize: bool, check: bool = True) -> Request:
        """The request with the text that would be stored."""
        referred = self.referred(subject, request.references)
        found = self._parsed(request, referred, check=check)
        text = found.normalized if normalize else found.canonical
        ordered = sorted(request.references, key=lambda each: each.name) if normalize else request.references
        return replace(request, text=text, references=tuple(ordered))

    def found(self, request: Request, versions: list[Version]) -> Version | None:
        """The last version that is the schema of a request."""
        newest = versions[::-1]
        same = next((each for each in newest if same_schema(request, each)), None)
        if same is not None:
            return same
        possible = [each for each in newest if same_schema(replace(request, text=each.text), each)]
        return next((each for each in possible if self._means(each, request)), None)

    def _means(self, version: Version, request: Request) -> bool:
        """Whether a schema that another registry printed in its own way is that of a request: Karapace sorts keys and
        fields, and keeps comments. What this one would print so is as different as its text; but sorted JSON Schema
        may be Karapace's."""
        try:
            printed = self._printed(version, version.subject)
            foreign = printed.canonical != version.text or (version.kind == JSON and printed.normalized == version.text)
            return foreign and printed.normalized == self._printed(request, version.subject).normalized
        except errors.Unread:
            raise
        except errors.RegistryError:
            return False

    def _printed(self, schema: Version | Request, subject: str) -> Read:
        """Its text as this registry stores it, and normalized."""
        referred = self.referred(subject, schema.references)
        return self._parsed(Request(schema.kind, schema.text, schema.references), referred, check=False)

    def retagged(self, subject: str, request: Request) -> Request:
        """With the tags that it asks for inside its text, which is canonical before and after."""
        if not request.more_tags and not request.fewer_tags:
            return request
        schema = Text(request.kind, request.text, self.referred(subject, request.references))
        try:
            text = self._reader.retagged(schema, request.more_tags, request.fewer_tags)
        except SchemaError as error:
            raise errors.invalid_schema(str(error)) from None
        return self.of(subject, replace(request, text=text, more_tags={}, fewer_tags={}), normalize=False)

    def top_fields(self, subject: str, request: Request) -> list[str]:
        schema = Text(request.kind, request.text, self.referred(subject, request.references))
        try:
            return self._reader.top_fields(schema)
        except SchemaError as error:
            raise errors.invalid_schema(str(error)) from None

    def tags_of(self, version: Version) -> Tags:
        try:
            return self._reader.tagged(self.text_of(version))
        except SchemaError as error:
            raise errors.invalid_schema(str(error)) from None

    def _parsed(self, request: Request, referred: dict[str, str], *, check: bool) -> Read:
        if not request.text.strip():
            raise errors.invalid_schema("Invalid schema: it is empty")
        try:
            return self._reader.parse(Text(request.kind, request.text, referred), check=check)
        except SchemaError as error:
            shown = request.text if len(request.text) <= 500 else f"{request.text[:500]}…"
            names = ", ".join(each.name for each in request.references)
            told = f"Invalid schema {shown} with refs [{names}] of type {request.kind}, details: {error}"
            raise errors.invalid_schema(told) from None

    def compare(
        self, level: str, subject: str, request: Request, earlier: list[Version], *, lenient: bool
    ) -> list[str]:
        if not earlier:
            return []
        before = [(each.version, self.text_of(each)) for each in earlier]
        new = Text(request.kind, request.text, self.referred(subject, request.references))
        try:
            return self._reader.compare(level, new, before, lenient=lenient)
        except SchemaError as error:
            raise errors.invalid_schema(f"The schemas cannot be compared: {error}") from None

    def formatted(self, version: Version, form: str | None) -> str:
        if not form:
            return version.text
        try:
            found = self._reader.format(self.text_of(version), form)
        except SchemaError as error:
            raise errors.invalid_schema(str(error)) from None
        return found.encode("utf-8", "backslashreplace").decode()  # another registry may have stored half a surrogate

    def text_of(self, version: Version) -> Text:
        return Text(version.kind, version.text, self.referred(version.subject, version.references))

    def referred(self, subject: str, references: tuple[Reference, ...]) -> dict[str, str]:
        """Texts by name, those that need nothing first."""
        found: dict[str, str] = {}
        self._collect(subject, references, found, 0)
        return found

    def _collect(self, subject: str, references: tuple[Reference, ...], found: dict[str, str], depth: int) -> None:
        if depth > 100 or len(found) > MOST_REFERENCES:
            raise errors.invalid_schema(f"more than {MOST_REFERENCES} references, or more than 100 in a row")
        for each in references:
            if each.name in found:
                continue
            name = beside(subject, each.subject)
            version = self._state.version(name, each.version, deleted=True)
            if version is None:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{each.subject}" and version {each.version}'
                )
            self._collect(name, version.references, found, depth + 1)
            found[each.name] = version.text

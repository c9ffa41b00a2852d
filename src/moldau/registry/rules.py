"""What a write makes of the state: the records to append, and the answer. Reads nothing but the state; writes nothing.

Schemas are read and compared in a `Workshop`, which blocks: call these in a thread, with nothing else writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from moldau.registry import errors, records
from moldau.registry.canonical import (
    RULE_LISTS,
    Canonical,
    Request,
    are_texts,
    read_metadata,
    read_number,
    read_request,
    read_rule_set,
    read_tags,
    version_property,
    with_version,
)
from moldau.registry.config_fields import LEVEL, read_fields
from moldau.registry.records import Record, Version
from moldau.registry.state import State
from moldau.registry.subjects import DEFAULT, beside, context_of, settings_subject, split
from moldau.schemas.levels import compared
from moldau.schemas.model import guid_of

READWRITE, READONLY, READONLY_OVERRIDE = "READWRITE", "READONLY", "READONLY_OVERRIDE"
IMPORT, FORWARD = "IMPORT", "FORWARD"
KEEPING_IDS: Final = (IMPORT, FORWARD)
"""Whoever registers says which id and version it is; nothing is added, compared or refused."""
STRONG: Final = "STRONG"
MODES: Final = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, FORWARD)
LAST_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Decision:
    answer: Any
    records: list[Record] = field(default_factory=list)


class Rules:
    def __init__(self, state: State, canonical: Canonical, level: str, *, mode_mutable: bool = True) -> None:
        self.state = state
        self._canonical = canonical
        self._level = level
        self._mode_mutable = mode_mutable

    # -- settings in scope -------------------------------------------------------------------------------------------

    def config(self, subject: str | None) -> dict[str, Any]:
        """Of the subject, its context and all, the nearest first."""
        found: dict[str, Any] = {"compatibilityLevel": self._level}
        for name in reversed(scopes(subject)):
            found |= self.state.configs.get(name, {})
        return found

    def mode(self, subject: str | None) -> str:
        if self.state.modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        return next((self.state.modes[name] for name in scopes(subject) if name in self.state.modes), READWRITE)

    # -- schemas -----------------------------------------------------------------------------------------------------

    def register(self, subject: str, body: Mapping[str, Any], *, normalize: bool) -> Decision:
        return self._registered(subject, read_request(body), normalize=normalize)

    def known(self, subject: str, body: Mapping[str, Any], *, normalize: bool) -> dict[str, Any] | None:
        """What registering answers where nothing has to be written for it, whatever the mode is."""
        request, live = read_request(body), self.state.versions(subject)
        if not live or request.more_tags or request.fewer_tags:
            return None
        try:
            request = self._completed(subject, request, live, normalize=normalize)
            found = self._known_version(request, live)
        except errors.Unread:
            raise
        except errors.RegistryError:
            if request.references:  # the leader may have read what is referred to, and this instance not yet
                return None
            raise
        return None if found is None else registered(found)

    def _completed(self, subject: str, request: Request, live: list[Version], *, normalize: bool) -> Request:
        """As it would be stored, but for its tags."""
        config = self.config(subject)
        if self.mode(subject) not in KEEPING_IDS:
            request = with_defaults(request, config, live[-1] if live else None)
        normalize = normalize or bool(config.get("normalize"))
        try:
            return self._canonical.of(subject, request, normalize=normalize)
        except errors.Unread:
            raise
        except errors.RegistryError:
            there = self._there(subject, request, live, normalize=normalize)
            if there is None:
                raise
            return there

    def _there(self, subject: str, request: Request, live: list[Version], *, normalize: bool) -> Request | None:
        """A request for what the subject has already, which another registry may have checked less strictly."""
        try:
            request = self._canonical.of(subject, request, normalize=normalize, check=False)
        except errors.RegistryError:
            return None
        return request if self._known_version(request, live) is not None else None

    def _known_version(self, request: Request, live: list[Version]) -> Version | None:
        """The version that a request would register once more."""
        if request.version > 0:
            return None
        known = self._canonical.found(request, live)
        return known if known is not None and request.id in (-1, known.id) else None

    def _registered(self, subject: str, request: Request, *, normalize: bool) -> Decision:
        mode = self.mode(subject)
        config = self.config(subject)
        self._check_mode(subject, request, mode)
        self._check_referable(subject, request)
        live = self.state.versions(subject)
        request = self._completed(subject, request, live, normalize=normalize)
        if request.more_tags or request.fewer_tags:
            request = self._canonical.retagged(subject, replace(request, version=request.version or -1))
        known = self._known_version(request, live)
        if known is not None:
            return Decision(registered(known))
        if mode not in KEEPING_IDS:
            if request.version != 0 or version_property(request.metadata) is not None:
                request = replace(request, metadata=with_version(request.metadata, self._following(subject)))
            self._check_compatible(subject, request, live, config)
        return self._added(subject, request, mode)

    def change_tags(self, subject: str, version: Version, body: Mapping[str, Any]) -> Decision:
        """A new version: the old one with tags added and removed, and other metadata and rules where asked."""
        number = read_number(body, "newVersion", 0)
        metadata = read_metadata(body.get("metadata"))
        request = Request(
            version.kind,
            version.text,
            version.references,
            with_version(version.metadata if metadata is None else metadata, number),
            self._changed_rules(subject, body, number),
            version=number,
            more_tags=read_tags(body.get("tagsToAdd")),
            fewer_tags=read_tags(body.get("tagsToRemove")),
        )
        return self._registered(subject, request, normalize=False)

    def _changed_rules(self, subject: str, body: Mapping[str, Any], number: int) -> dict[str, Any] | None:
        given, more = read_rule_set(body.get("ruleSet")), read_rule_set(body.get("rulesToMerge"))
        gone = body.get("rulesToRemove")
        if more is None and gone is None:
            return given
        if given is not None:
            told = "ruleSet should be omitted if specifying rulesToMerge or rulesToRemove"
            raise errors.RegistryError(42210, told)
        if gone is not None and not are_texts(gone):
            raise errors.RegistryError(42210, "rulesToRemove has to be a list of names")
        before = self.state.version(subject, number - 1 if number > 0 else -1)
        found = merged_rules(None if before is None else before.rule_set, more)
        for name in RULE_LISTS:
            if found is not None and name in found:
                found[name] = [each for each in found[name] if each["name"] not in (gone or ())]
        return found

    def _check_mode(self, subject: str, request: Request, mode: str) -> None:
        if mode in (READONLY, READONLY_OVERRIDE):
            raise errors.not_permitted(f"Subject {subject} is in read-only mode")
        if request.id >= 0 and mode not in KEEPING_IDS:
            raise errors.not_permitted(f"Subject {subject} is not in import mode")
        if request.id < 0 and mode != READWRITE:
            raise errors.not_permitted(f"Subject {subject} is not in read-write mode")

    def _check_referable(self, subject: str, request: Request) -> None:
        """A subject that belongs to one resource alone is not for others to build upon."""
        for each in request.references:
            if any(
                known.get("lifecycle") == STRONG for known in self.state.associated_with(beside(subject, each.subject))
            ):
                told = f"Subject '{each.subject}' has a strong association and cannot be referenced"
                raise errors.not_permitted(told)

    def _check_compatible(self, subject: str, request: Request, live: list[Version], config: Mapping[str, Any]) -> None:
        found = self.problems(subject, request, live, config)
        if found:
            told = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
            raise errors.RegistryError(40901, f"{told}, details: [{', '.join(found)}]")

    def problems(self, subject: str, request: Request, earlier: list[Version], config: Mapping[str, Any]) -> list[str]:
        """Why the schema is not compatible with those of `earlier` that the level looks at."""
        level = config["compatibilityLevel"]
        reserved = self._reserved(subject, request, earlier) if config.get("validateFields") is True else []
        group = config.get("compatibilityGroup")
        if group:
            mine = property_of(request.metadata, group)
            earlier = [each for each in earlier if property_of(each.metadata, group) == mine]
        wanted = compared(level, [each.version for each in earlier])
        by_number = {each.version: each for each in earlier}
        lenient = config.get("compatibilityPolicy") == "LENIENT"
        found = self._canonical.compare(
            level, subject, request, [by_number[number] for number in wanted], lenient=lenient
        )
        return [*reserved, *found]

    def _reserved(self, subject: str, request: Request, earlier: list[Version]) -> list[str]:
        """Names in the property confluent:reserved stay reserved, and no field of the first record has one."""
        now = reserved_names(request.metadata)
        before = reserved_names(earlier[-1].metadata) if earlier else []
        more = "removed from its metadata which is present in the old schema's metadata."
        gone = [f"The new schema has reserved field {name} {more}" for name in before if name not in now]
        fields = self._canonical.top_fields(subject, request) if now else []
        told = "The new schema has field that conflicts with the reserved field"
        return gone + [f"{told} {name}." for name in now if name in fields]

    def _added(self, subject: str, request: Request, mode: str) -> Decision:
        every = self.state.versions(subject, deleted=True)
        following = self._following(subject)
        number = request.version if request.version > 0 else following
        if number != following and mode not in KEEPING_IDS:
            raise errors.invalid_schema("Version is not one more than previous version")
        context_name = context_of(subject)
        schema_id = self._id_for(context_name, request)
        fresh = Version(
            subject,
            number,
            schema_id,
            request.kind,
            request.text,
            request.references,
            request.metadata,
            request.rule_set,
        )
        out = []
        if context_name not in self.state.contexts:
            out.append(records.context_record(context_name))
        for old in every:
            replaced = old.deleted and old.id == schema_id and old.version < number
            if replaced and not self.state.references_to(subject, old.version, deleted=True):
                out.append(old.tombstone())
        return Decision(registered(fresh), [*out, fresh.record()])

    def _following(self, subject: str) -> int:
        every = self.state.versions(subject, deleted=True)
        return every[-1].version + 1 if every else 1

    def _id_for(self, context_name: str, request: Request) -> int:
        context = self.state.context(context_name)
        known = context.id_of(request.guid)
        if request.id >= 0:
            there = context.by_id.get(request.id)
            if there is not None and there.guid != request.guid:
                raise errors.RegistryError(42207, f"Overwrite new schema with id {request.id} is not permitted.")
            return request.id
        if known is not None:
            return known
        if context.largest_id >= LAST_ID:
            raise errors.store_failed("no schema ids are left")
        return context.largest_id + 1

    # -- deleting ----------------------------------------------------------------------------------------------------

    def delete_subject(self, subject: str, *, permanent: bool) -> Decision:
        self._check_writable(subject)
        every, live = self.state.versions(subject, deleted=True), self.state.versions(subject)
        if not every:
            raise errors.subject_not_found(subject)
        if self.state.associated_with(subject):
            raise errors.RegistryError(40904, f"An association already exists for subject '{subject}'")
        for each in every if permanent else live:
            self._check_unreferenced(each, deleted=permanent, beside_itself=True)
        if permanent:
            if live:
                raise errors.RegistryError(
                    40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
                )
            return Decision([each.version for each in every], [each.tombstone() for each in every])
        if not live:
            raise errors.RegistryError(
                40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
            )
        out = [records.delete_subject_record(subject, live[-1].version)]
        if subject in self.state.modes:
            out.append(records.settings_record(records.MODE, subject, None))
        if subject in self.state.configs:
            out.append(records.settings_record(records.CONFIG, subject, None))
        return Decision([each.version for each in live], out)

    def delete_version(self, subject: str, version: int, *, permanent: bool) -> Decision:
        self._check_writable(subject)
        if not self.state.versions(subject, deleted=True):
            raise errors.subject_not_found(subject)
        found = self.state.version(subject, version, deleted=version != -1)
        if found is None:
            raise errors.version_not_found(version)
        where = f"Subject '{subject}' Version {found.version}"
        if permanent and not found.deleted:
            raise errors.RegistryError(40407, f"{where} was not deleted first before being permanently deleted")
        if not permanent and found.deleted:
            raise errors.RegistryError(40406, f"{where} was soft deleted.Set permanent=true to delete permanently")
        self._check_unreferenced(found, deleted=permanent)
        last = [each.version for each in self.state.versions(subject)] == [found.version]
        if not permanent and last and self.state.associated_with(subject):
            raise errors.no_active_version(subject)
        return Decision(found.version, [found.tombstone() if permanent else found.soft_deleted().record()])

    def _check_unreferenced(self, version: Version, *, deleted: bool, beside_itself: bool = False) -> None:
        """`beside_itself`: what refers to it in its own subject goes with it."""
        but = version.subject if beside_itself else None
        if self.state.references_to(version.subject, version.version, deleted=deleted, but=but):
            raise errors.reference_exists(version.subject, version.version)

    def _check_writable(self, subject: str | None) -> None:
        if self.mode(subject) in (READONLY, READONLY_OVERRIDE):
            raise errors.not_permitted(f"Subject {subject} is in read-only mode")

    def delete_context(self, name: str) -> Decision:
        if any(context_of(each.subject) == name for each in self.state.every(deleted=True)):
            raise errors.RegistryError(42211, f"The specified context '{name}' is not empty.")
        known = name in self.state.contexts and name != DEFAULT
        return Decision(None, [records.context_record(name, gone=True)] if known else [])

    # -- settings ----------------------------------------------------------------------------------------------------

    def set_config(self, subject: str | None, body: Mapping[str, Any]) -> Decision:
        self._check_writable(subject)
        given = read_fields(body)
        value = {
            name: each for name, each in {**self.state.configs.get(subject, {}), **given}.items() if each is not None
        }
        told = {name: each for name, each in given.items() if name != LEVEL}
        if LEVEL in given:
            told["compatibility"] = body.get("compatibility", body.get(LEVEL))
        return Decision(told, [records.settings_record(records.CONFIG, subject, value)])

    def delete_config(self, subject: str | None) -> Decision:
        self._check_writable(subject)
        if subject is not None and subject not in self.state.configs:
            raise errors.RegistryError(40401, f"Subject '{subject}' not found.")
        before = self.state.configs.get(subject) or {"compatibilityLevel": self._level}
        return Decision(before, [records.settings_record(records.CONFIG, subject, None)])

    def set_mode(self, subject: str | None, body: Mapping[str, Any], *, force: bool) -> Decision:
        given = body.get("mode")
        if not isinstance(given, str) or given.upper() not in MODES:
            raise errors.invalid_mode()
        mode = given.upper()
        if not self._mode_mutable:
            raise errors.not_permitted("Mode changes are not allowed")
        if mode == IMPORT and not force and self.mode(subject) != IMPORT and self._holds_schemas(subject):
            raise errors.not_permitted("Cannot import since found existing subjects")
        return Decision(
            {"mode": mode}, [records.settings_record(records.MODE, subject, {"subject": subject, "mode": mode})]
        )

    def delete_mode(self, subject: str | None, *, recursive: bool = False) -> Decision:
        if not self._mode_mutable:
            raise errors.not_permitted("Mode changes are not allowed")
        if subject is not None and subject not in self.state.modes:
            raise errors.subject_not_found(subject)
        before = {"mode": self.state.modes.get(subject, READWRITE)}
        names = [subject]
        if recursive:
            names += [
                name
                for name in list(self.state.modes)
                if name is not None and name != subject and inside(name, subject)
            ]
        return Decision(before, [records.settings_record(records.MODE, name, None) for name in names])

    def _holds_schemas(self, subject: str | None) -> bool:
        if subject is None:
            return any(True for _ in self.state.every())
        context, name = split(subject)
        if name:
            return bool(self.state.versions(subject))
        return any(context_of(each.subject) == context for each in self.state.every())


def scopes(subject: str | None) -> list[str | None]:
    if subject is None:
        return [None]
    return list(dict.fromkeys([subject, settings_subject(context_of(subject)), ":.__GLOBAL:", None]))


def inside(subject: str, outer: str | None) -> bool:
    return outer is None or (outer.endswith(":") and context_of(subject) == context_of(outer))


def property_of(metadata: Mapping[str, Any] | None, name: str) -> Any:
    return ((metadata or {}).get("properties") or {}).get(name)


def reserved_names(metadata: Mapping[str, Any] | None) -> list[str]:
    given = property_of(metadata, "confluent:reserved")
    return [name.strip() for name in str(given or "").split(",") if name.strip()]


def with_defaults(request: Request, config: Mapping[str, Any], previous: Version | None) -> Request:
    """What a request leaves out comes from the version before it, then the settings' defaults; overrides win."""
    if previous is not None:
        if not request.text:
            request = replace(
                request, text=previous.text, kind=previous.kind, references=request.references or previous.references
            )
        if request.metadata is None:
            request = replace(request, metadata=previous.metadata)
        if request.rule_set is None:
            request = replace(request, rule_set=previous.rule_set)
    metadata = merged(config.get("defaultMetadata"), request.metadata, config.get("overrideMetadata"))
    rule_set = merged_rules(config.get("defaultRuleSet"), request.rule_set, config.get("overrideRuleSet"))
    return replace(request, metadata=metadata, rule_set=rule_set)


def merged_rules(*layers: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Rules of a later layer take the place of those with their name."""
    given = [layer for layer in layers if layer is not None]
    if not given:
        return None
    found: dict[str, Any] = {}
    for layer in given:
        for name, value in layer.items():
            if name not in RULE_LISTS:
                found[name] = value
                continue
            fresh = [each["name"] for each in value]
            found[name] = [each for each in found.get(name, ()) if each["name"] not in fresh] + list(value)
    return found


def merged(*layers: Mapping[str, Any] | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None
    for layer in layers:
        if layer is not None:
            found = dict(found or {})
            for key, value in layer.items():
                before = found.get(key)
                found[key] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def registered(version: Version) -> dict[str, Any]:
    """Without the schema: clients remember what they get, and one that sent a descriptor wants it back as it was."""
    guid = guid_of(version.text, version.references, version.metadata, version.rule_set)
    return {"id": version.id, "version": version.version, "guid": guid}

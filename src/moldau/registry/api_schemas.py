"""Schemas by id and by GUID, and all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response

from moldau.registry.answers import ID_IN_CONTEXT, PLACE, SCHEMA, TEXTS, VERSION, list_of
from moldau.registry.canonical import RULE_LISTS
from moldau.registry.errors import schema_not_found
from moldau.registry.records import Version
from moldau.registry.registry import Registry
from moldau.registry.shapes import PAGE, as_schema, as_schema_text, page, read_id
from moldau.registry.state import Content, State
from moldau.registry.subjects import DEFAULT, EVERY, beside, context_of, split
from moldau.schemas.model import KINDS
from moldau.web import Api, Call, flag, text

OF_ASSOCIATIONS: Final = ("resourceType", "associationType", "lifecycle")
BY_ID = (text("subject"), text("format"), text("referenceFormat"), text("findTags"), flag("fetchMaxId"))


def add(api: Api, registry: Registry) -> None:
    add_lists(api, registry)
    add_by_id(api, registry)
    add_places(api, registry)
    add_by_guid(api, registry)


def found(registry: Registry, call: Call) -> Content:
    schema_id = read_id(call.path["id"])
    content = registry.state.content_for(call.query["subject"], schema_id)
    if content is None:
        raise schema_not_found(schema_id)
    return content


def add_lists(api: Api, registry: Registry) -> None:
    state = registry.state

    @api.get("/schemas/types", answer=TEXTS, tag="schemas")
    async def types(call: Call) -> object:
        """The kinds of schemas that are known"""
        return list(KINDS)

    filters = ("ruleType", *OF_ASSOCIATIONS)
    listed = (text("subjectPrefix", ""), flag("aliases"), flag("deleted"), flag("latestOnly"), *map(text, filters))

    @api.get("/schemas", query=(*listed, *PAGE), answer=list_of(VERSION), tag="schemas")
    async def schemas(call: Call) -> object:
        """All versions of all subjects; with aliases, also of those that a subject with the prefix stands for"""
        wanted = matching(call.query["subjectPrefix"] or "")
        aliases = aliases_of(state, wanted) if call.query["aliases"] else {}
        every = [
            each
            for each in state.every(deleted=call.query["deleted"])
            if wanted(each.subject) or each.subject in aliases
        ]
        if call.query["latestOnly"]:
            every = list({each.subject: each for each in every}.values())
        rule_type = call.query["ruleType"]
        every = [each for each in every if not rule_type or rule_type in rule_types(each)]
        told = [(each, found) for each in every if (found := associated(state, call, each.subject)) is not None]
        return [
            as_schema(each)
            | ({"aliases": aliases[each.subject]} if each.subject in aliases else {})
            | ({"associations": found} if found else {})
            for each, found in page(told, call.query)
        ]


def aliases_of(state: State, wanted: Callable[[str], bool]) -> dict[str, list[str]]:
    """By subject: the subjects with such names that stand for it."""
    found: dict[str, list[str]] = {}
    for subject, config in sorted((name, each) for name, each in list(state.configs.items()) if name is not None):
        alias = config.get("alias")
        if isinstance(alias, str) and alias and wanted(subject):
            found.setdefault(beside(subject, alias), []).append(subject)
    return found


def rule_types(version: Version) -> set[Any]:
    return {rule.get("type") for name in RULE_LISTS for rule in (version.rule_set or {}).get(name) or ()}


def associated(state: State, call: Call, subject: str) -> list[dict[str, Any]] | None:
    """The associations that are asked for; None where the subject is not. The lifecycle NONE asks for subjects
    without any."""
    given = call.request.query_params
    kinds, lifecycles = (given.getlist(name) for name in ("associationType", "lifecycle"))
    resource_type = call.query["resourceType"]
    if not kinds and not lifecycles and resource_type is None:
        return []
    every = [
        each
        for each in state.associated_with(subject)
        if (resource_type is None or each.get("resourceType") == resource_type)
        and (not kinds or each.get("associationType") in kinds)
    ]
    if not every:
        return [] if "NONE" in lifecycles else None
    return [each for each in every if not lifecycles or each.get("lifecycle") in lifecycles] or None


def add_by_id(api: Api, registry: Registry) -> None:
    @api.get("/schemas/ids/{id}", query=BY_ID, answer=SCHEMA, errors=(40403, 42201), tag="schemas")
    async def by_id(call: Call) -> object:
        """The schema with an id"""
        content = found(registry, call)
        written = await formatted(registry, content, call.query["format"])
        told = as_schema_text(content, written) | await tags_in(registry, call, content.version)
        if call.query["fetchMaxId"]:
            told["maxId"] = registry.state.context(context_of(call.query["subject"] or "")).largest_id
        return with_references(told, call, content.version)

    @api.get("/schemas/ids/{id}/schema", query=BY_ID[:2], errors=(40403, 42201), tag="schemas")
    async def text_by_id(call: Call) -> object:
        """The schema with an id, as it is"""
        written = await formatted(registry, found(registry, call), call.query["format"])
        return Response(written, media_type=call.media_types[0])


def add_places(api: Api, registry: Registry) -> None:
    state = registry.state
    places = (text("subject"), flag("deleted"), *PAGE)

    @api.get("/schemas/ids/{id}/subjects", query=places, answer=TEXTS, errors=(40403,), tag="schemas")
    async def subjects_by_id(call: Call) -> object:
        """The subjects that have the schema"""
        return page(sorted({subject for subject, _ in living(call)}), call.query)

    @api.get("/schemas/ids/{id}/versions", query=places, answer=list_of(PLACE), errors=(40403,), tag="schemas")
    async def versions_by_id(call: Call) -> object:
        """Subjects and versions that have the schema"""
        return [{"subject": subject, "version": version} for subject, version in page(sorted(living(call)), call.query)]

    def living(call: Call) -> list[tuple[str, int]]:
        deleted = call.query["deleted"]
        places = [place for place in list(found(registry, call).places) if state.version(*place, deleted=deleted)]
        only = call.query["subject"]
        return [place for place in places if not only or only.endswith(":") or only in (place[0], split(place[0])[1])]


def add_by_guid(api: Api, registry: Registry) -> None:
    state = registry.state

    @api.get("/schemas/guids/{guid}", query=(text("format"),), answer=SCHEMA, errors=(40403, 42201), tag="schemas")
    async def by_guid(call: Call) -> object:
        """The schema with a GUID"""
        known = with_guid(call)
        if not known:
            raise schema_not_found(call.path["guid"][:100])
        content = next(iter(known.values()))
        return as_schema_text(content, await formatted(registry, content, call.query["format"]))

    @api.get("/schemas/guids/{guid}/ids", answer=list_of(ID_IN_CONTEXT), errors=(40403,), tag="schemas")
    async def ids_by_guid(call: Call) -> object:
        """The ids of a schema, by context"""
        return [{"context": name, "id": content.version.id} for name, content in with_guid(call).items()]

    def with_guid(call: Call) -> dict[str, Content]:
        guid = call.path["guid"].lower()
        ids = {name: context.id_of(guid) for name, context in list(state.contexts.items())}
        contents = {name: state.content(name, number) for name, number in ids.items() if number is not None}
        return {name: content for name, content in contents.items() if content is not None}


def matching(prefix: str) -> Any:
    """Subjects of the default context unless the prefix names another; `:*:` is all of them."""
    if prefix.startswith(EVERY):
        return lambda subject: subject.rpartition(":")[2].startswith(prefix[len(EVERY) :])
    context = context_of(prefix)
    return lambda subject: (
        subject.startswith(prefix) and (prefix == "" or context_of(subject) == context or context == DEFAULT)
    )


async def tags_in(registry: Registry, call: Call, version: Version) -> dict[str, Any]:
    """What in the schema carries one of the tags that are asked for; * is any."""
    wanted = set(call.request.query_params.getlist("findTags"))
    if not wanted:
        return {}
    carried = await registry.in_thread(lambda: registry.canonical.tags_of(version))
    return {
        "schemaTags": [
            {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": tags}
            for entity, tags in carried.items()
            if "*" in wanted or wanted & set(tags)
        ]
    }


def with_references(told: dict[str, Any], call: Call, version: Version) -> dict[str, Any]:
    """Subjects of references with their contexts, where that is asked for."""
    if call.query["referenceFormat"] == "qualified" and "references" in told:
        told["references"] = [
            {**each, "subject": beside(version.subject, each["subject"])} for each in told["references"]
        ]
    return told


async def formatted(registry: Registry, content: Content, form: str | None) -> str:
    if not form:
        return content.version.text
    return str(await registry.in_thread(lambda: registry.canonical.formatted(content.version, form)))

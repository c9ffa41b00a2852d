"""Subjects, their versions, and whether a schema would fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from moldau.registry import errors
from moldau.registry.answers import COMPATIBILITY, NUMBER, NUMBERS, REGISTERED, TEXTS, VERSION
from moldau.registry.api_schemas import matching, tags_in, with_references
from moldau.registry.canonical import Request, read_request
from moldau.registry.records import Version
from moldau.registry.registry import Registry
from moldau.registry.shapes import (
    PAGE,
    SCHEMA_ERRORS,
    SCHEMA_REQUEST,
    TAGS_REQUEST,
    WRITE_ERRORS,
    as_schema,
    page,
    read_version,
)
from moldau.registry.subjects import check
from moldau.web import ADMIN, WRITE, Api, Call, flag, text

NORMALIZE = flag("normalize")
FORM = text("format")
DELETED = flag("deleted")


def add(api: Api, registry: Registry) -> None:
    add_lists(api, registry)
    add_versions(api, registry)
    add_writing(api, registry)
    add_deleting(api, registry)
    add_compatibility(api, registry)


def subject_in(registry: Registry, call: Call) -> str:
    """The subject that is meant: an alias stands for another."""
    subject = check(call.path["subject"])
    alias = registry.state.configs.get(subject, {}).get("alias")
    return check(alias) if isinstance(alias, str) and alias else subject


def version_in(registry: Registry, call: Call, *, deleted: bool) -> Version:
    subject, number = subject_in(registry, call), read_version(call.path["version"])
    every = (registry.state.version(each, number, deleted=deleted) for each in registry.state.namesakes(subject))
    found = next((each for each in every if each is not None), None)
    if found is None:
        if not registry.state.versions(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(call.path["version"])
    return found


async def answer_of(registry: Registry, version: Version, form: str | None) -> dict[str, Any]:
    if not form:
        return as_schema(version)
    return as_schema(version, await registry.in_thread(lambda: registry.canonical.formatted(version, form)))


def add_lists(api: Api, registry: Registry) -> None:
    state = registry.state
    listed = (text("subjectPrefix", ""), DELETED, flag("deletedOnly"), *PAGE)

    @api.get("/subjects", query=listed, answer=TEXTS, tag="subjects")
    async def subjects(call: Call) -> object:
        """The subjects"""
        wanted = matching(call.query["subjectPrefix"] or "")
        names = [name for name in sorted(state.subjects) if wanted(name)]
        if call.query["deletedOnly"]:
            names = [name for name in names if not state.versions(name)]
        elif not call.query["deleted"]:
            names = [name for name in names if state.versions(name)]
        return page(names, call.query)

    @api.get("/subjects/{subject}/versions", query=listed[1:], answer=NUMBERS, errors=(40401, 42208), tag="subjects")
    async def versions(call: Call) -> object:
        """The versions of a subject"""
        subject = subject_in(registry, call)
        only = call.query["deletedOnly"]
        found = state.versions(subject, deleted=call.query["deleted"] or only)
        if not found:
            raise errors.subject_not_found(subject)
        return page([each.version for each in found if each.deleted or not only], call.query)


def add_versions(api: Api, registry: Registry) -> None:
    state = registry.state
    one = (FORM, text("referenceFormat"), DELETED, text("findTags"))
    missing = (40401, 40402, 42201, 42202, 42208, 50002)

    @api.get("/subjects/{subject}/versions/{version}", query=one, answer=VERSION, errors=missing, tag="subjects")
    async def version(call: Call) -> object:
        """One version; latest and -1 are the last one"""
        found = version_in(registry, call, deleted=call.query["deleted"])
        told = await answer_of(registry, found, call.query["format"])
        return with_references(told | await tags_in(registry, call, found), call, found)

    @api.get("/subjects/{subject}/versions/{version}/schema", query=(FORM, DELETED), errors=missing, tag="subjects")
    async def version_text(call: Call) -> object:
        """The schema of a version, as it is"""
        found = version_in(registry, call, deleted=call.query["deleted"])
        written = (await answer_of(registry, found, call.query["format"]))["schema"]
        return Response(written, media_type=call.media_types[0])

    @api.get(
        "/subjects/{subject}/versions/{version}/referencedby",
        query=(DELETED, *PAGE),
        answer=NUMBERS,
        errors=missing,
        tag="subjects",
    )
    async def referenced_by(call: Call) -> object:
        """The ids of the schemas that refer to a version"""
        found = version_in(registry, call, deleted=True)
        return page(state.references_to(found.subject, found.version, deleted=call.query["deleted"]), call.query)

    wanted = (text("key"), text("value"), FORM, DELETED)

    @api.get(
        "/subjects/{subject}/metadata",
        query=wanted,
        answer=VERSION,
        errors=(40401, 42201, 42208, 50002),
        tag="subjects",
    )
    async def by_metadata(call: Call) -> object:
        """The latest version with a property of metadata; several keys and values in order"""
        subject = subject_in(registry, call)
        asked = dict(pairs(call))
        for found in reversed(state.versions(subject, deleted=call.query["deleted"])):
            properties = (found.metadata or {}).get("properties") or {}
            if asked.items() <= properties.items():
                return await answer_of(registry, found, call.query["format"])
        raise errors.subject_not_found(subject)


def pairs(call: Call) -> list[tuple[str, str]]:
    given = call.request.query_params
    return list(zip(given.getlist("key"), given.getlist("value"), strict=False))


def add_writing(api: Api, registry: Registry) -> None:
    rules = registry.rules

    @api.post(
        "/subjects/{subject}/versions",
        role=WRITE,
        query=(NORMALIZE,),
        body=SCHEMA_REQUEST,
        answer=REGISTERED,
        errors=(40901, 42207, *SCHEMA_ERRORS, *WRITE_ERRORS),
        tag="subjects",
    )
    async def register(call: Call) -> object:
        """Registers a schema; one that is there keeps its id"""
        subject, body, normalize = subject_in(registry, call), await call.json_object(), call.query["normalize"]
        return await registry.write(
            call,
            lambda: rules.register(subject, body, normalize=normalize),
            lambda: rules.known(subject, body, normalize=normalize),
            reads_schemas=True,
        )

    @api.post(
        "/subjects/{subject}/versions/{version}/tags",
        role=WRITE,
        body=TAGS_REQUEST,
        answer=REGISTERED,
        errors=(40401, 40402, 40901, 42202, *SCHEMA_ERRORS, *WRITE_ERRORS),
        tag="subjects",
    )
    async def change_tags(call: Call) -> object:
        """Registers a version with other tags than one that is there"""
        body = await call.json_object()
        found = version_in(registry, call, deleted=False)
        return await registry.write(call, lambda: rules.change_tags(found.subject, found, body), reads_schemas=True)

    @api.post(
        "/subjects/{subject}",
        query=(NORMALIZE, FORM, DELETED),
        body=SCHEMA_REQUEST,
        answer=VERSION,
        errors=(40401, 40403, *SCHEMA_ERRORS),
        tag="subjects",
    )
    async def look_up(call: Call) -> object:
        """The version of a subject that is this schema"""
        subject, body = subject_in(registry, call), await call.json_object()
        found = await registry.in_thread(lambda: looked_up(registry, subject, body, call.query))
        return await answer_of(registry, found, call.query["format"])


def add_deleting(api: Api, registry: Registry) -> None:
    rules = registry.rules
    gone = (40401, 40404, 40405, 40904, 40907, 42206, 42208, *WRITE_ERRORS)

    @api.delete(
        "/subjects/{subject}", role=ADMIN, query=(flag("permanent"),), answer=NUMBERS, errors=gone, tag="subjects"
    )
    async def delete_subject(call: Call) -> object:
        """Deletes a subject, softly first"""
        subject, permanent = check(call.path["subject"]), call.query["permanent"]
        return await registry.write(call, lambda: rules.delete_subject(subject, permanent=permanent))

    @api.delete(
        "/subjects/{subject}/versions/{version}",
        role=ADMIN,
        query=(flag("permanent"),),
        answer=NUMBER,
        errors=(40402, 40406, 40407, 42202, *gone),
        tag="subjects",
    )
    async def delete_version(call: Call) -> object:
        """Deletes a version, softly first"""
        subject, version = check(call.path["subject"]), read_version(call.path["version"])
        permanent = call.query["permanent"]
        return await registry.write(call, lambda: rules.delete_version(subject, version, permanent=permanent))


def looked_up(registry: Registry, subject: str, body: dict[str, Any], query: dict[str, Any]) -> Version:
    state, asked, known = registry.state, read_request(body), False
    for each in state.namesakes(subject):
        versions = state.versions(each, deleted=query["deleted"])
        if not versions:
            continue
        known = known or each == subject
        normalize = query["normalize"] or bool(registry.rules.config(each).get("normalize"))
        try:
            request = registry.canonical.of(each, asked, normalize=normalize, check=False)
        except errors.RegistryError:
            if each == subject:
                raise
            continue
        request = registry.canonical.retagged(each, request)
        found = registry.canonical.found(request, versions)
        if found is not None:
            return found
    raise errors.schema_not_found() if known else errors.subject_not_found(subject)


def add_compatibility(api: Api, registry: Registry) -> None:
    query = (NORMALIZE, flag("verbose"))
    told = (40401, 40402, 42202, *SCHEMA_ERRORS)

    @api.post(
        "/compatibility/subjects/{subject}/versions",
        query=query,
        body=SCHEMA_REQUEST,
        answer=COMPATIBILITY,
        errors=told,
        tag="compatibility",
    )
    async def against_all(call: Call) -> object:
        """Whether a schema could be registered"""
        subject, body = subject_in(registry, call), await call.json_object()
        versions = registry.state.versions(subject)
        return await registry.in_thread(lambda: judged(registry, subject, body, versions, call.query))

    @api.post(
        "/compatibility/subjects/{subject}/versions/{version}",
        query=query,
        body=SCHEMA_REQUEST,
        answer=COMPATIBILITY,
        errors=told,
        tag="compatibility",
    )
    async def against_one(call: Call) -> object:
        """Whether a schema is compatible with one version"""
        body = await call.json_object()
        subject, number = subject_in(registry, call), read_version(call.path["version"])
        found = registry.state.version(subject, number)
        if found is None and number != -1:
            raise errors.version_not_found(call.path["version"])
        versions = [] if found is None else [found]
        return await registry.in_thread(lambda: judged(registry, subject, body, versions, call.query))


def judged(
    registry: Registry, subject: str, body: dict[str, Any], versions: list[Version], query: dict[str, Any]
) -> dict[str, Any]:
    config = registry.rules.config(subject)
    request: Request = read_request(body)
    if request.metadata is None and versions:
        request = replace(request, metadata=versions[-1].metadata)
    normalize = query["normalize"] or bool(config.get("normalize"))
    request = registry.canonical.of(subject, request, normalize=normalize)
    request = registry.canonical.retagged(subject, request)
    found = registry.rules.problems(subject, request, versions, config)
    return {"is_compatible": not found, **({"messages": found} if query["verbose"] else {})}

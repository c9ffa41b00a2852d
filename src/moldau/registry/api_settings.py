"""Compatibility levels, modes, contexts, and what the server says of itself."""

from __future__ import annotations

from starlette.responses import Response

from moldau.registry.answers import (
    CONFIG,
    CONFIG_BEFORE,
    CONFIG_SET,
    DEPLOYMENT,
    MODE,
    SERVER_ID,
    SERVER_VERSION,
    TEXTS,
)
from moldau.registry.errors import RegistryError
from moldau.registry.registry import Registry
from moldau.registry.shapes import CONFIG_REQUEST, MODE_REQUEST, PAGE, WRITE_ERRORS, page
from moldau.registry.subjects import DEFAULT, GLOBAL_CONTEXT, check, qualified
from moldau.version import VERSION
from moldau.web import ADMIN, Api, Call, flag, text

GLOBALLY = flag("defaultToGlobal")


def empty(answer: object) -> Response:
    """What was written needs no words; a refusal of the leader does."""
    assert isinstance(answer, Response)
    return answer if answer.status_code >= 400 else Response(status_code=204)


def subject_of(call: Call) -> str | None:
    """Of the path; None for all. A context alone is one too."""
    given = call.path.get("subject")
    if given is None or given.strip(":") == GLOBAL_CONTEXT:
        return None
    return qualified(given) if given.endswith(":") and given.startswith(":.") else check(given)


def add(api: Api, registry: Registry) -> None:
    add_config(api, registry)
    add_mode(api, registry)
    add_contexts(api, registry)


def add_config(api: Api, registry: Registry) -> None:
    rules, state = registry.rules, registry.state

    async def read(call: Call) -> object:
        """The compatibility level and its companions"""
        subject = subject_of(call)
        if subject is not None and subject not in state.configs and not call.query["defaultToGlobal"]:
            told = f"Subject '{subject}' does not have subject-level compatibility configured"
            raise RegistryError(40408, told)
        if subject is None or call.query["defaultToGlobal"]:
            return rules.config(subject)
        own = dict(state.configs[subject])
        own.setdefault("compatibilityLevel", rules.config(subject)["compatibilityLevel"])
        return own

    async def write(call: Call) -> object:
        """Sets the compatibility level and its companions"""
        body = await call.json_object()
        subject = subject_of(call)
        return await registry.write(call, lambda: rules.set_config(subject, body))

    async def delete(call: Call) -> object:
        """Removes the settings; the wider ones hold again"""
        subject = subject_of(call)
        return await registry.write(call, lambda: rules.delete_config(subject))

    for path, codes in (("/config", ()), ("/config/{subject}", (40401, 40408, 42208))):
        api.get(path, query=(GLOBALLY,), answer=CONFIG, errors=codes, tag="config")(read)
        put = {"body": CONFIG_REQUEST, "errors": (42201, 42203, 42210, *codes, *WRITE_ERRORS)}
        api.put(path, role=ADMIN, answer=CONFIG_SET, tag="config", **put)(write)
        api.delete(path, role=ADMIN, answer=CONFIG_BEFORE, errors=(*codes, *WRITE_ERRORS), tag="config")(delete)


def add_mode(api: Api, registry: Registry) -> None:
    rules, state = registry.rules, registry.state

    async def read(call: Call) -> object:
        """The mode"""
        subject = subject_of(call)
        if subject is not None and subject not in state.modes and not call.query["defaultToGlobal"]:
            raise RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")
        if subject is not None and not call.query["defaultToGlobal"]:
            return {"mode": state.modes[subject]}
        return {"mode": rules.mode(subject)}

    async def write(call: Call) -> object:
        """Sets the mode"""
        body, subject, force = await call.json_object(), subject_of(call), call.query["force"]
        return await registry.write(call, lambda: rules.set_mode(subject, body, force=force))

    async def delete(call: Call) -> object:
        """Removes the mode; the wider one holds again"""
        subject, recursive = subject_of(call), call.query["recursive"]
        return await registry.write(call, lambda: rules.delete_mode(subject, recursive=recursive))

    for path, codes in (("/mode", ()), ("/mode/{subject}", (40401, 40409, 42208))):
        api.get(path, query=(GLOBALLY,), answer=MODE, errors=codes, tag="mode")(read)
        put = {"query": (flag("force"),), "body": MODE_REQUEST, "errors": (42204, *codes, *WRITE_ERRORS)}
        api.put(path, role=ADMIN, answer=MODE, tag="mode", **put)(write)
        gone = {"query": (flag("recursive"),), "errors": (*codes, *WRITE_ERRORS)}
        api.delete(path, role=ADMIN, answer=MODE, tag="mode", **gone)(delete)


def add_contexts(api: Api, registry: Registry) -> None:
    state = registry.state

    @api.get("/contexts", query=(*PAGE, text("contextPrefix", "")), answer=TEXTS, tag="contexts")
    async def contexts(call: Call) -> object:
        """The contexts that are in use"""
        prefix = call.query["contextPrefix"] or ""
        return page([name for name in sorted(state.contexts) if name.startswith(prefix)], call.query)

    @api.delete("/contexts/{context}", role=ADMIN, status=204, errors=(42211, *WRITE_ERRORS), tag="contexts")
    async def delete(call: Call) -> object:
        """Removes a context that has no subjects"""
        given = call.path["context"].strip(":")
        name = given if given.startswith(DEFAULT) else f".{given}"
        return empty(await registry.write(call, lambda: registry.rules.delete_context(name)))

    @api.get("/v1/metadata/id", answer=SERVER_ID, tag="service")
    async def server_id(call: Call) -> object:
        """Whose registry it is"""
        return {"scope": {"path": [], "clusters": registry.clusters}, "id": ""}

    @api.get("/v1/metadata/version", answer=SERVER_VERSION, tag="service")
    async def server_version(call: Call) -> object:
        """Which version it is"""
        return {"version": VERSION, "commitId": ""}

    @api.get("/v1/metadata/deployment", answer=DEPLOYMENT, tag="service")
    async def deployment(call: Call) -> object:
        """How it is deployed"""
        return {"attributes": {}}

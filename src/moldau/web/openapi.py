"""The OpenAPI 3.1 description of an `Api`, and a page for people, both made from its endpoints."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from moldau.web.api import NOBODY, Api, Endpoint, Parameter

ERROR: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}
ALWAYS: Final = (400, 401, 403, 404, 405, 406, 414, 500, 503)
WITH_BODY: Final = (413, 415, 422)


def description(api: Api, *, login: bool = False) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in api.endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation(api, endpoint, login=login)
    components: dict[str, Any] = {"schemas": {"Error": ERROR}}
    if login:
        components["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    info = {"title": api.title, "version": api.version}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def operation(api: Api, endpoint: Endpoint, *, login: bool) -> dict[str, Any]:
    names = {
        name: {"name": name, "in": "path", "required": True, "schema": path_schema(name)}
        for name in endpoint.path_names
    }
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": operation_id(endpoint),
        "parameters": [*names.values(), *map(query_parameter, endpoint.query)],
        "responses": responses(api, endpoint),
    }
    if endpoint.tag:
        found["tags"] = [endpoint.tag]
    if endpoint.body is not None:
        kinds = endpoint.consumes or api.media_types
        found["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": dict(endpoint.body)} for kind in kinds},
        }
    if login and endpoint.role != NOBODY:
        found["security"] = [{"basic": []}]
        found["description"] = f"Needs the role {endpoint.role}."
    return found


def path_schema(name: str) -> dict[str, Any]:
    return {"type": "integer"} if name in ("id", "partition", "partition_id") else {"type": "string"}


def query_parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.kind == "integer":
        schema["format"] = "int32"
    elif parameter.kind == "long":
        schema |= {"type": "integer", "format": "int64"}
    if parameter.default is not None:
        schema["default"] = parameter.default
    found = {"name": parameter.name, "in": "query", "schema": schema}
    return {**found, "description": parameter.doc} if parameter.doc else found


def responses(api: Api, endpoint: Endpoint) -> dict[str, Any]:
    kinds = endpoint.produces or api.media_types
    good: dict[str, Any] = {"description": "done"}
    if endpoint.status != 204:
        good["content"] = {kind: {"schema": dict(endpoint.answer or {})} for kind in kinds}
    found = {str(endpoint.status): good}
    statuses: dict[int, list[int]] = {status: [] for status in ALWAYS + (WITH_BODY if endpoint.body else ())}
    for code in endpoint.errors:
        codes = statuses.setdefault(code if code < 1000 else code // 100, [])
        if code >= 1000:
            codes.append(code)
    error_kinds = dict.fromkeys([*api.media_types, "application/json"])
    for status, codes in sorted(statuses.items()):
        told = f"error_code {', '.join(map(str, codes))}" if codes else "refused"
        content = {kind: {"schema": {"$ref": "#/components/schemas/Error"}} for kind in error_kinds}
        found[str(status)] = {"description": told, "content": content}
    return found


def operation_id(endpoint: Endpoint) -> str:
    parts = [part.strip("{}") for part in endpoint.segments if part]
    return "_".join([endpoint.method.lower(), *parts]).replace("-", "_").replace(":", "_").replace(".", "_")


def page(api: Api) -> str:
    """No script, nothing from elsewhere: a list that a browser can show."""
    rows = "".join(
        f"<tr><td><code>{each.method}</code></td><td><code>{escape(each.path)}</code></td>"
        f"<td>{escape(', '.join(parameter.name for parameter in each.query))}</td>"
        f"<td>{escape(each.summary)}</td><td>{each.role}</td></tr>"
        for each in api.endpoints
    )
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(api.title)}</title>"
        "<style>body{font:15px sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:left;vertical-align:top}"
        "tr:nth-child(even){background:#f4f4f4}</style>"
        f"<h1>{escape(api.title)} {escape(api.version)}</h1>"
        "<p>The same for programs: <a href='openapi.json'>openapi.json</a></p>"
        f"<table><tr><th>method<th>path<th>parameters<th>what<th>role</tr>{rows}</table>"
    )

"""One request as a handler sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request

from moldau.web.api import Endpoint
from moldau.web.errors import ApiError

DEEPEST: Final = 200


class Call:
    __slots__ = (
        "_body",
        "_body_seconds",
        "endpoint",
        "largest_body",
        "media_types",
        "path",
        "query",
        "request",
        "user",
    )

    def __init__(
        self,
        request: Request,
        endpoint: Endpoint,
        path: dict[str, str],
        query: dict[str, Any],
        user: str | None,
        largest_body: int,
        media_types: tuple[str, ...],
        body_seconds: float,
    ) -> None:
        self.request = request
        self.endpoint = endpoint
        self.path = path
        self.query = query
        """By name, typed, with defaults: every parameter that the endpoint declares."""
        self.user = user
        self.largest_body = largest_body
        self.media_types = media_types
        self._body: bytes | None = None
        self._body_seconds = body_seconds

    async def body(self) -> bytes:
        if self._body is None:
            try:
                async with asyncio.timeout(self._body_seconds):
                    self._body = await self._read()
            except TimeoutError:
                told = f"the body did not come in within {self._body_seconds:g} s (request.body.timeout.ms)"
                raise ApiError(408, told, headers={"Connection": "close"}) from None
        return self._body

    async def _read(self) -> bytes:
        declared = self.request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self.largest_body:
            raise self._too_large()
        pieces: list[bytes] = []
        size = 0
        async for piece in self.request.stream():
            size += len(piece)
            if size > self.largest_body:
                raise self._too_large()
            pieces.append(piece)
        return b"".join(pieces)

    async def json(self) -> Any:
        self.check_content_type()
        content = await self.body()
        if not content:
            raise ApiError(422, "the body is missing: a JSON document is expected")
        return read_json(content)

    async def json_object(self) -> dict[str, Any]:
        found = await self.json()
        if not isinstance(found, dict):
            raise ApiError(422, f"the body is a JSON {json_kind(found)}: an object is expected")
        return found

    def check_content_type(self) -> None:
        given = self.request.headers.get("content-type")
        if given is None:
            return
        kind = given.split(";")[0].strip().lower()
        allowed = self.endpoint.consumes or self.media_types
        if kind not in allowed and kind not in ("application/json", "application/octet-stream", "text/json"):
            raise ApiError(415, f"HTTP 415 Unsupported Media Type: {kind}; use {allowed[0]}")

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body is larger than {self.largest_body} bytes")


def read_json(content: bytes) -> Any:
    try:
        found = json.loads(content, parse_constant=refuse_constant)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    if is_too_deep(found):
        raise ApiError(400, f"the body is nested deeper than {DEEPEST} levels")
    return found


def is_too_deep(found: Any) -> bool:
    """What handlers and libraries make of it may be recursive."""
    level = [found]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in parts(each) if isinstance(inner, list | dict)]
        if not level:
            return False
    return True


def parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def json_kind(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")

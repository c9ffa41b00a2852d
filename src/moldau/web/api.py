"""The endpoints of a service as data: what is routed, who may call it, and what the OpenAPI description says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from moldau.web.errors import ApiError

if TYPE_CHECKING:
    from moldau.web.call import Call

NOBODY: Final = ""
READ: Final = "read"
WRITE: Final = "write"
ADMIN: Final = "admin"
ROLES: Final = (READ, WRITE, ADMIN)
"""Each may do what those before it may."""

Handler: TypeAlias = "Callable[[Call], Awaitable[object]]"
Schema: TypeAlias = Mapping[str, Any]

INTEGERS: Final = (-(1 << 31), (1 << 31) - 1)
LONGS: Final = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kind: str
    default: object = None
    doc: str = ""

    def read(self, given: str | None) -> Any:
        if given is None:
            return self.default
        if self.kind == "boolean":
            return given.strip().lower() == "true"
        if self.kind == "integer":
            return whole_number(given, self.name)
        if self.kind == "long":
            return whole_number(given, self.name, LONGS)
        return given


def flag(name: str, default: bool = False, doc: str = "") -> Parameter:
    return Parameter(name, "boolean", default, doc)


def number(name: str, default: int | None = None, doc: str = "") -> Parameter:
    return Parameter(name, "integer", default, doc)


def long(name: str, default: int | None = None, doc: str = "") -> Parameter:
    return Parameter(name, "long", default, doc)


def text(name: str, default: str | None = None, doc: str = "") -> Parameter:
    return Parameter(name, "string", default, doc)


def whole_number(given: str, name: str, allowed: tuple[int, int] = INTEGERS) -> int:
    try:
        value = int(given) if len(given) <= 20 else allowed[1] + 1
    except ValueError:
        raise ApiError(400, f"{name}: {given!r} is not a number") from None
    if not allowed[0] <= value <= allowed[1]:
        raise ApiError(400, f"{name}: {given!r} is not a {32 if allowed is INTEGERS else 64}-bit number")
    return value


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    role: str
    summary: str
    query: tuple[Parameter, ...] = ()
    body: Schema | None = None
    answer: Schema | None = None
    errors: tuple[int, ...] = ()
    """The service's own codes, or plain statuses."""
    tag: str = ""
    consumes: tuple[str, ...] | None = None
    """Media types of the body; None: those of the service."""
    produces: tuple[str, ...] | None = None
    status: int = 200
    name: str = ""
    """Under which settings speak of it."""

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))

    @property
    def path_names(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.segments if part.startswith("{"))


@dataclass(slots=True)
class Node:
    fixed: dict[str, Node] = field(default_factory=dict)
    any: Node | None = None
    endpoints: dict[str, Endpoint] = field(default_factory=dict)


class Api:
    def __init__(
        self,
        title: str,
        version: str,
        media_types: Sequence[str] = ("application/json",),
        rewrite: Callable[[tuple[str, ...], dict[str, str]], tuple[str, ...]] | None = None,
        admits: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """`rewrite` may change the decoded segments and the query of a request before it is routed; `admits` says by
        its name whether an endpoint is served."""
        self.title = title
        self.version = version
        self.media_types = tuple(media_types)
        self.endpoints: list[Endpoint] = []
        self.rewrite = rewrite
        self._admits = admits
        self._root = Node()

    def add(self, endpoint: Endpoint) -> None:
        if endpoint.name and not self._admits(endpoint.name):
            return
        node = self._root
        for segment in endpoint.segments:
            if segment.startswith("{"):
                node.any = node.any or Node()
                node = node.any
            else:
                node = node.fixed.setdefault(segment, Node())
        if endpoint.method in node.endpoints:
            raise ValueError(f"{endpoint.method} {endpoint.path} is there already")
        node.endpoints[endpoint.method] = endpoint
        self.endpoints.append(endpoint)

    def declares(self, method: str, path: str) -> bool:
        return any((each.method, each.path) == (method, path) for each in self.endpoints)

    def route(self, method: str, path: str, **more: Any) -> Callable[[Handler], Handler]:
        def declared(handler: Handler) -> Handler:
            summary = more.pop("summary", None) or (handler.__doc__ or "").strip().split("\n")[0]
            self.add(Endpoint(method, path, handler, more.pop("role", READ), summary, **more))
            return handler

        return declared

    def get(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self.route("GET", path, **more)

    def post(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self.route("POST", path, **more)

    def put(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self.route("PUT", path, **more)

    def delete(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self.route("DELETE", path, **more)

    def patch(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self.route("PATCH", path, **more)

    def find(self, method: str, segments: tuple[str, ...]) -> tuple[Endpoint, dict[str, str]]:
        found = walk(self._root, segments, 0, ())
        if found is None:
            raise ApiError(404, "HTTP 404 Not Found")
        node, values = found
        endpoint = node.endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allowed = ", ".join(sorted({*node.endpoints, "OPTIONS"}))
            raise ApiError(405, "HTTP 405 Method Not Allowed", headers={"Allow": allowed})
        return endpoint, dict(zip(endpoint.path_names, values, strict=True))


def walk(
    node: Node, segments: tuple[str, ...], at: int, values: tuple[str, ...]
) -> tuple[Node, tuple[str, ...]] | None:
    if at == len(segments):
        return (node, values) if node.endpoints else None
    segment = segments[at]
    if segment in node.fixed and (found := walk(node.fixed[segment], segments, at + 1, values)):
        return found
    if node.any is not None and segment:
        return walk(node.any, segments, at + 1, (*values, segment))
    return None


def cut(raw_path: bytes) -> tuple[str, ...]:
    path = raw_path.decode("latin-1").split("?")[0].strip("/")
    try:
        return tuple(unquote(segment, errors="strict") for segment in path.split("/"))
    except UnicodeDecodeError:
        raise ApiError(400, "the path is not UTF-8") from None

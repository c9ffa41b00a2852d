"""What the answers of v3 have in common: kinds, links to themselves and to others, names of resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moldau.rest import errors
from moldau.rest.backend import Backend
from moldau.rest.proxy import Proxy, joined
from moldau.web import Call

JSON: Final = ("application/json",)
PREFIX: Final = "/v3/clusters/{cluster_id}"
CONTROL: Final = (40002, 40101, 40301, 404, 50002, 50003, 429)
"""What every question to the cluster may be answered with."""
TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
FLAG: Final = {"type": "boolean"}


class Context:
    """One request: the clients of its user, and the cluster that it names, which is there."""

    def __init__(self, proxy: Proxy, backend: Backend, cluster_id: str, base: str) -> None:
        self.proxy = proxy
        self.backend = backend
        self.cluster_id = cluster_id
        self._base = base
        self._crn = f"crn://{proxy.settings.text('confluent.resource.name.authority').strip('/')}"

    @classmethod
    async def of(cls, proxy: Proxy, call: Call) -> Context:
        backend = await proxy.backend(call)
        cluster_id = await backend.cluster_id()
        asked = call.path.get("cluster_id", cluster_id)
        if asked != cluster_id:
            raise errors.not_found(f"Cluster {asked} cannot be found.")
        return cls(proxy, backend, cluster_id, proxy.base(call))

    def url(self, *segments: object) -> str:
        return joined(self._base, ("v3", "clusters", self.cluster_id, *segments))

    def clusters_url(self) -> str:
        return joined(self._base, ("v3", "clusters"))

    def related(self, *segments: object) -> dict[str, str]:
        return {"related": self.url(*segments)}

    def item(self, kind: str, place: tuple[object, ...], resource: str, /, **fields: Any) -> dict[str, Any]:
        """`place` below the cluster; `resource` is its name, with `kafka=…` before it."""
        full = f"{self._crn}/kafka={self.cluster_id}" + (f"/{resource}" if resource else "")
        metadata = {"self": self.url(*place), "resource_name": full}
        return {"kind": kind, "metadata": metadata, "cluster_id": self.cluster_id, **fields}

    def listed(self, kind: str, url: str, found: Iterable[dict[str, Any]]) -> dict[str, Any]:
        return {"kind": f"{kind}List", "metadata": {"self": url, "next": None}, "data": list(found)}


def listing(properties: dict[str, Any]) -> dict[str, Any]:
    """The description of a list."""
    return {
        "type": "object",
        "required": ["kind", "metadata", "data"],
        "properties": {
            "kind": TEXT,
            "metadata": {"type": "object", "properties": {"self": TEXT, "next": {"type": ["string", "null"]}}},
            "data": {"type": "array", "items": thing(properties)},
        },
    }


def thing(properties: dict[str, Any]) -> dict[str, Any]:
    """The description of one resource."""
    shared = {"kind": TEXT, "metadata": {"type": "object"}, "cluster_id": TEXT}
    return {"type": "object", "required": ["kind", "metadata", "cluster_id"], "properties": {**shared, **properties}}


# -- reading requests ------------------------------------------------------------------------------------------------


def whole(given: str, what: str, limit: int = (1 << 31) - 1) -> int:
    """A number in a path; what is none names nothing."""
    if not given.isascii() or not given.isdigit() or len(given) > 10 or int(given) > limit:
        raise errors.not_found(f"{what} {given} cannot be found.")
    return int(given)


def text_of(body: dict[str, Any], name: str, *, needed: bool = False) -> str | None:
    found = body.get(name)
    if found is None:
        if needed:
            raise errors.bad_request(f"Cannot construct the request: {name} is missing")
        return None
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise errors.bad_request(f"{name} is not a string: {found!r}")
    text = str(found)
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise errors.bad_request(f"{name} is not text: half a surrogate pair stands for no character")
    return text


def number_of(body: dict[str, Any], name: str, *, needed: bool = False, bits: int = 32) -> int | None:
    found = body.get(name)
    if found is None:
        if needed:
            raise errors.bad_request(f"Cannot construct the request: {name} is missing")
        return None
    if isinstance(found, str) and found.lstrip("-").isdigit() and len(found) < 20:
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise errors.bad_request(f"{name} is not a {bits}-bit number: {found!r}")
    return found


def list_of(body: dict[str, Any], name: str, *, needed: bool = False) -> list[Any]:
    found = body.get(name)
    if found is None:
        if needed:
            raise errors.no_data()
        return []
    if not isinstance(found, list):
        raise errors.bad_request(f"{name} is not an array")
    return found


def objects_of(body: dict[str, Any], name: str, *, needed: bool = False) -> list[dict[str, Any]]:
    found = list_of(body, name, needed=needed)
    if not all(isinstance(each, dict) for each in found):
        raise errors.bad_request(f"{name} is not an array of objects")
    return found


async def body_of(call: Call) -> dict[str, Any]:
    if not await call.body():
        raise errors.no_data()
    found = await call.json()
    if found is None:
        raise errors.no_data()
    if not isinstance(found, dict):
        raise errors.bad_request("the body is not an object")
    return found

"""A schema registry over HTTP, as Confluent's and its relatives serve it.

    GET  /schemas/ids/{id}                      {"schema": "…", "schemaType": "AVRO" by default, "references": […]}
    GET  /subjects/{subject}/versions/{version} {"id": 7, "schema": "…", "references": […]}; "latest" is one too
    POST /subjects/{subject}                    {"schema": "…"} -> {"id": 7} if the subject has it
    POST /subjects/{subject}/versions           {"schema": "…"} -> {"id": 7}, adds it if need be

A schema may refer to others, each with "name", "subject" and "version": they are put into it.
Schemas of an id never change, so they are kept for the life of the process. Several addresses are tried in turn,
until one answers with something else than an error of its server.
What it does not know it answers with 404 and {"error_code": 40403, "message": "…"}. A code of five digits is its own;
a 404 without one comes from a wrong address, or from a proxy whose registry is away.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from moldau.schemas.avro_references import merged
from moldau.schemas.model import AVRO, PROTOBUF
from moldau.spark.errors import SourceError

if TYPE_CHECKING:
    from urllib.error import HTTPError

PREFIX: Final = Struct(">bi")
"""What a registered value begins with: a zero byte and the id of its schema."""
MAGIC: Final = 0
SECONDS: Final = 10.0
SERVER_ERRORS: Final = 500
CONTENT: Final = "application/vnd.schemaregistry.v1+json"
FORMS: Final = {PROTOBUF: "?format=serialized"}
"""Descriptors, which need no compiler; registries that do not know the form give text."""
REFUSED_SECONDS: Final = 10.0
"""An id without a schema is asked for again after this: it may have been registered meanwhile."""
MOST_REFUSED: Final = 10_000
"""Bytes that were never written by a serializer name more and more ids."""
K = TypeVar("K")
V = TypeVar("V")


class RegistryError(SourceError):
    """The registry cannot be asked, or does not know."""


class SchemaRefused(RegistryError):
    """The registry was asked, and there is no schema that could be used."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A schema, and by name the texts of all that it refers to, those that need nothing first."""

    text: str
    referred: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registry:
    urls: tuple[str, ...]
    user_info: str = ""

    def __repr__(self) -> str:
        return f"Registry(urls={self.urls!r})"

    def schema_of(self, schema_id: int) -> str:
        return schema_by_id(self, schema_id)

    def latest(self, subject: str) -> str:
        return whole_schema(self, self.version(subject, "latest"), f"subject {subject}")

    def by_id(self, schema_id: int, kind: str) -> Whole:
        return whole_by_id(self, schema_id, kind)

    def latest_of(self, subject: str, kind: str) -> Whole:
        return collected(self, self.version(subject, "latest", kind), f"subject {subject}", kind)

    def version(self, subject: str, version: object, kind: str = AVRO) -> dict[str, Any]:
        return self.ask(f"/subjects/{quote(subject, safe='')}/versions/{version}{FORMS.get(kind, '')}")

    def id_of(self, subject: str, schema: str, kind: str = AVRO, *, register: bool) -> int:
        return schema_id_of(self, subject, schema, kind, register)

    def ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        from urllib.error import HTTPError

        problem = ""
        for url in self.urls:
            try:
                return self._ask(url.rstrip("/") + path, body)
            except HTTPError as error:
                refused = refusal(f"schema registry {url}{path}", error)
                if error.code < SERVER_ERRORS:
                    raise refused from None
                problem = str(refused)
            except (OSError, ValueError) as error:
                problem = f"schema registry {url}{path}: {error}"
        raise RegistryError(problem)

    def _ask(self, url: str, body: dict[str, str] | None) -> dict[str, Any]:
        from urllib.request import Request, urlopen  # costs tens of milliseconds, and most planners never ask

        headers = {"Accept": CONTENT}
        if self.user_info:
            headers["Authorization"] = f"Basic {base64.b64encode(self.user_info.encode()).decode()}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = CONTENT
        request = Request(url, data, headers)
        with urlopen(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read())
        if not isinstance(found, dict):
            raise ValueError("the answer is no JSON object")
        return found


@lru_cache(maxsize=10_000)
def schema_by_id(registry: Registry, schema_id: int) -> str:
    return whole_schema(registry, registry.ask(f"/schemas/ids/{schema_id}"), f"schema {schema_id}")


@lru_cache(maxsize=10_000)
def whole_by_id(registry: Registry, schema_id: int, kind: str) -> Whole:
    answer = registry.ask(f"/schemas/ids/{schema_id}{FORMS.get(kind, '')}")
    return collected(registry, answer, f"schema {schema_id}", kind)


@lru_cache(maxsize=1000)
def schema_id_of(registry: Registry, subject: str, schema: str, kind: str, register: bool) -> int:
    path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
    body = {"schema": schema} if kind == AVRO else {"schema": schema, "schemaType": kind}
    answer = registry.ask(path, body)
    if not isinstance(answer.get("id"), int):
        raise RegistryError(f"the schema registry gave no id for subject {subject}: {answer}")
    return int(answer["id"])


def collected(registry: Registry, answer: dict[str, Any], what: str, kind: str) -> Whole:
    found: dict[str, str] = {}

    def add(schema: dict[str, Any], around: tuple[str, ...]) -> None:
        for each in schema.get("references") or ():
            try:
                name, subject, version = str(each["name"]), str(each["subject"]), each["version"]
            except (KeyError, TypeError):
                raise SchemaRefused(f"{what} refers to a schema without its name, subject and version") from None
            if name in around:
                raise SchemaRefused(f"{what} refers to {name}, which refers to itself")
            if name not in found:
                other = registry.version(subject, version, kind)
                add(other, (*around, name))
                found[name] = schema_text(other, f"subject {subject}, to which {what} refers,", kind)

    add(answer, ())
    return Whole(schema_text(answer, what, kind), found)


def whole_schema(registry: Registry, answer: dict[str, Any], what: str) -> str:
    """With all that it refers to, and that these refer to."""
    text = schema_text(answer, what)
    referred: dict[tuple[str, str], str] = {}
    ahead = references(answer, what)
    while ahead:
        subject, version = ahead.pop()
        if (subject, version) not in referred:
            found = registry.version(subject, version)
            referred[subject, version] = schema_text(found, f"subject {subject}, to which {what} refers,")
            ahead += references(found, f"subject {subject}")
    if not referred:
        return text
    try:
        return json.dumps(merged(json.loads(text), [json.loads(each) for each in referred.values()]))
    except ValueError as error:
        raise SchemaRefused(f"{what}, or what it refers to, is not the JSON of an Avro schema: {error}") from None


def references(answer: dict[str, Any], what: str) -> list[tuple[str, str]]:
    try:
        return [(str(each["subject"]), str(each["version"])) for each in answer.get("references") or ()]
    except (KeyError, TypeError):
        raise SchemaRefused(f"{what} refers to a schema without its subject and version") from None


def schema_text(answer: dict[str, Any], what: str, wanted: str = AVRO) -> str:
    kind = answer.get("schemaType", AVRO)
    if kind != wanted:
        raise SchemaRefused(f"{what} is {kind}, not {wanted}")
    if not isinstance(answer.get("schema"), str):
        raise RegistryError(f"the schema registry gave no schema for {what}")
    return str(answer["schema"])


def refusal(request: str, error: HTTPError) -> RegistryError:
    body = json_object(error)
    problem = f"{request}: {error.code} {body.get('message', error.reason)}"
    own_code = str(body.get("error_code", ""))
    return SchemaRefused(problem) if own_code.startswith("404") and len(own_code) > 3 else RegistryError(problem)


def json_object(error: HTTPError) -> dict[str, Any]:
    try:
        found = json.loads(error.read())
    except (ValueError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


class Known(Generic[K, V]):
    """What was learnt of the registry, for good; what it refused, for a while."""

    def __init__(self, ask: Callable[[K], V], monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._found: dict[K, V] = {}
        self._refused: dict[K, tuple[float, str]] = {}
        """Until when, and why."""

    def get(self, key: K) -> V:
        if key not in self._found:
            until, reason = self._refused.get(key, (float("-inf"), ""))
            if self._monotonic() < until:
                raise SchemaRefused(reason)
            try:
                self._found[key] = self._ask(key)
            except SchemaRefused as error:
                if len(self._refused) >= MOST_REFUSED:
                    self._refused.clear()
                self._refused[key] = self._monotonic() + REFUSED_SECONDS, str(error)
                raise
        return self._found[key]

"""A schema registry over HTTP, as Confluent's and its relatives serve it.

    GET  /schemas/guids/{guid}                  likewise
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

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from moldau.clients.registry_keys import URL
from moldau.schemas.avro_references import merged
from moldau.schemas.model import AVRO, PROTOBUF
from moldau.spark.errors import SourceError

if TYPE_CHECKING:
    from uuid import UUID

    from moldau.clients.schema_registry import RegistryFailed, SchemaRegistry

PREFIX: Final = Struct(">bi")
"""What a registered value begins with: a zero byte and the id of its schema."""
MAGIC: Final = 0
NOT_FOUND: Final = 404
SHORTEST_CODE: Final = 10_000
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
    """Travels to the executors: each of their processes has a client of its own."""

    urls: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Who asks, and whom it trusts: see `moldau.clients.registry_keys`."""

    def __repr__(self) -> str:
        return f"Registry(urls={tuple(url.rpartition('@')[2] for url in self.urls)!r})"

    def schema_of(self, schema: int | UUID) -> str:
        return schema_by_id(self, schema)

    def latest(self, subject: str) -> str:
        return whole_schema(self, self.version(subject, "latest"), f"subject {subject}")

    def by_id(self, schema: int | UUID, kind: str) -> Whole:
        return whole_by_id(self, schema, kind)

    def latest_of(self, subject: str, kind: str) -> Whole:
        return collected(self, self.version(subject, "latest", kind), f"subject {subject}", kind)

    def version(self, subject: str, version: object, kind: str = AVRO) -> dict[str, Any]:
        return self.ask(f"/subjects/{quote(subject, safe='')}/versions/{version}{FORMS.get(kind, '')}")

    def id_of(self, subject: str, schema: str, kind: str = AVRO, *, register: bool) -> int:
        return schema_id_of(self, subject, schema, kind, register)

    def ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        from moldau.client.errors import SettingError
        from moldau.clients.schema_registry import RegistryFailed

        try:
            return client_of(self).ask(path, body)
        except RegistryFailed as error:
            raise refusal(error) from None
        except SettingError as error:
            raise RegistryError(str(error)) from None


@lru_cache(maxsize=100)
def client_of(registry: Registry) -> SchemaRegistry:
    from moldau.clients.schema_registry import SchemaRegistry  # tens of milliseconds, and most planners never ask

    return SchemaRegistry.of({URL: ",".join(registry.urls), **dict(registry.settings)})


def path_of(schema: int | UUID) -> str:
    return f"/schemas/ids/{schema}" if isinstance(schema, int) else f"/schemas/guids/{schema}"


@lru_cache(maxsize=10_000)
def schema_by_id(registry: Registry, schema: int | UUID) -> str:
    return whole_schema(registry, registry.ask(path_of(schema)), f"schema {schema}")


@lru_cache(maxsize=10_000)
def whole_by_id(registry: Registry, schema: int | UUID, kind: str) -> Whole:
    answer = registry.ask(f"{path_of(schema)}{FORMS.get(kind, '')}")
    return collected(registry, answer, f"schema {schema}", kind)


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


def refusal(error: RegistryFailed) -> RegistryError:
    """The registry's own codes have five digits; a plain 404 is that of something else at this address."""
    own = error.code > SHORTEST_CODE and error.code // 100 == NOT_FOUND
    return SchemaRefused(str(error)) if own else RegistryError(str(error))


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

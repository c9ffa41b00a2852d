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
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from moldau.spark.errors import SourceError
from moldau.spark.values.avro_references import merged

if TYPE_CHECKING:
    from urllib.error import HTTPError

PREFIX: Final = Struct(">bi")
"""What a registered value begins with: a zero byte and the id of its schema."""
MAGIC: Final = 0
SECONDS: Final = 10.0
SERVER_ERRORS: Final = 500
CONTENT: Final = "application/vnd.schemaregistry.v1+json"


class RegistryError(SourceError):
    """The registry cannot be asked, or does not know."""


class SchemaRefused(RegistryError):
    """The registry was asked, and there is no schema that could be used."""


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

    def version(self, subject: str, version: object) -> dict[str, Any]:
        return self.ask(f"/subjects/{quote(subject, safe='')}/versions/{version}")

    def id_of(self, subject: str, schema: str, *, register: bool) -> int:
        return schema_id_of(self, subject, schema, register)

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


@lru_cache(maxsize=1000)
def schema_id_of(registry: Registry, subject: str, schema: str, register: bool) -> int:
    path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
    answer = registry.ask(path, {"schema": schema})
    if not isinstance(answer.get("id"), int):
        raise RegistryError(f"the schema registry gave no id for subject {subject}: {answer}")
    return int(answer["id"])


def whole_schema(registry: Registry, answer: dict[str, Any], what: str) -> str:
    """With all that it refers to, and that these refer to."""
    text = avro_text(answer, what)
    referred: dict[tuple[str, str], str] = {}
    ahead = references(answer, what)
    while ahead:
        subject, version = ahead.pop()
        if (subject, version) not in referred:
            found = registry.version(subject, version)
            referred[subject, version] = avro_text(found, f"subject {subject}, to which {what} refers,")
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


def avro_text(answer: dict[str, Any], what: str) -> str:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise SchemaRefused(f"{what} is {kind}, not AVRO")
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

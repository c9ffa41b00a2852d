"""A schema registry over HTTP, as Confluent's and its relatives serve it.

    GET  /schemas/ids/{id}                      {"schema": "…", "schemaType": "AVRO" by default}
    GET  /subjects/{subject}/versions/latest    {"id": 7, "schema": "…"}
    POST /subjects/{subject}                    {"schema": "…"} -> {"id": 7} if the subject has it
    POST /subjects/{subject}/versions           {"schema": "…"} -> {"id": 7}, adds it if need be

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
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from moldau.spark.errors import SourceError

if TYPE_CHECKING:
    from urllib.error import HTTPError

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
        answer = self.ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return avro_text(answer, f"subject {subject}")

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
    return avro_text(registry.ask(f"/schemas/ids/{schema_id}"), f"schema {schema_id}")


@lru_cache(maxsize=1000)
def schema_id_of(registry: Registry, subject: str, schema: str, register: bool) -> int:
    path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
    answer = registry.ask(path, {"schema": schema})
    if not isinstance(answer.get("id"), int):
        raise RegistryError(f"the schema registry gave no id for subject {subject}: {answer}")
    return int(answer["id"])


def avro_text(answer: dict[str, Any], what: str) -> str:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise SchemaRefused(f"{what} is {kind}, not AVRO")
    if answer.get("references"):
        raise SchemaRefused(f"{what} refers to other schemas, which is not supported")
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

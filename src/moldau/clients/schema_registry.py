"""The questions that serializers ask a schema registry (Confluent's, ours, or a relative), with their answers kept.

Schemas of an id never change, so they are kept for the life of the client. Several addresses are tried in turn until
one answers with something else than an error of its server."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from moldau.clients.errors import ClientError
from moldau.clients.registry_access import Access, Address

CONTENT: Final = "application/vnd.schemaregistry.v1+json"
SECONDS: Final = 10.0
SERVER_ERRORS: Final = 500
DEEPEST: Final = 100


class RegistryFailed(ClientError):
    """The registry cannot be asked, does not know, or refuses."""

    def __init__(self, message: str, code: int = 0, status: int = 0) -> None:
        """`code` is the registry's own, `status` that of HTTP; 0 where nothing answered."""
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema with its id; `references` as the registry gives them."""

    schema_id: int
    kind: str
    text: str
    references: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    guid: str = ""
    """Empty where the registry does not tell it. What was found by its GUID has the id 0."""
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)


class SchemaRegistry:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._by_id: dict[tuple[int, str], Registered] = {}
        self._by_guid: dict[tuple[str, str], Registered] = {}
        self._registrations: dict[tuple[object, ...], Registered] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> SchemaRegistry:
        """With Confluent's property names."""
        return cls(Access.of(properties))

    def by_id(self, schema_id: int, form: str = "") -> Registered:
        known = self._by_id.get((schema_id, form))
        if known is None:
            answer = self.ask(f"/schemas/ids/{schema_id}" + (f"?format={form}" if form else ""))
            known = self._by_id[schema_id, form] = registered(answer, schema_id)
        return known

    def by_guid(self, guid: str, form: str = "") -> Registered:
        known = self._by_guid.get((guid, form))
        if known is None:
            answer = self.ask(f"/schemas/guids/{guid}" + (f"?format={form}" if form else ""))
            known = self._by_guid[guid, form] = replace(registered(answer, 0), guid=guid)
        return known

    def again(self, schema: Registered, form: str) -> Registered:
        """The same schema in another form."""
        return self.by_id(schema.schema_id, form) if schema.schema_id else self.by_guid(schema.guid, form)

    def version(self, subject: str, version: int | str = "latest", form: str = "") -> Registered:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        answer = self.ask(path + (f"?format={form}" if form else ""))
        return registered(answer, int(answer.get("id", 0)))

    def referred(self, schema: Registered, form: str = "") -> dict[str, str]:
        """The texts of all that a schema refers to, directly or not, by name; those that need nothing first."""
        found: dict[str, str] = {}
        self._collect(schema, form, found, 0)
        return found

    def _collect(self, schema: Registered, form: str, found: dict[str, str], depth: int) -> None:
        if depth > DEEPEST:
            raise RegistryFailed(f"the references of schema {schema.schema_id} go on without end")
        for each in schema.references:
            name = str(each["name"])
            if name not in found:
                other = self.version(str(each["subject"]), int(each["version"]), form)
                self._collect(other, form, found, depth + 1)
                found[name] = other.text

    def id_of(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
        *,
        register: bool = True,
    ) -> int:
        """The id of a schema; registers it if that is wished, else it has to be there."""
        return self.registration(subject, text, kind, references, register=register).schema_id

    def registration(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
        *,
        register: bool = True,
        normalize: bool = False,
    ) -> Registered:
        """A schema with its id; registers it if that is wished, else it has to be there."""
        place = (subject, text, kind, json.dumps(list(references), sort_keys=True), register, normalize)
        known = self._registrations.get(place)
        if known is not None:
            return known
        body: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = list(references)
        path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
        with self._lock:
            answer = self.ask(path + ("?normalize=true" if normalize else ""), body)
        found = answer.get("id")
        if not isinstance(found, int):
            raise RegistryFailed(f"the schema registry gave no id for subject {subject}: {answer}")
        made = Registered(found, kind, text, tuple(references), str(answer.get("guid") or ""))
        self._registrations[place] = made
        return made

    def version_of(
        self, subject: str, text: str, kind: str, references: Sequence[Mapping[str, Any]], *, normalize: bool = False
    ) -> int:
        """Under which version a subject has a schema."""
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        path = f"/subjects/{quote(subject, safe='')}" + ("?normalize=true" if normalize else "")
        return int(self.ask(path, body)["version"])

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found = self.ask_any(path, body)
        if not isinstance(found, dict):
            url = self._access.addresses[0].url
            raise RegistryFailed(f"schema registry {url}{path}: the answer is no JSON object; does one run there?")
        return found

    def ask_any(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        from urllib.error import HTTPError

        problem = RegistryFailed("no schema registry is named")
        for address in self._access.addresses:
            url = address.url
            try:
                return self._ask(address, path, body)
            except HTTPError as error:
                problem = refusal(url + path, error)
                if error.code < SERVER_ERRORS:
                    raise problem from None
            except (OSError, ValueError) as error:
                problem = RegistryFailed(f"schema registry {url}{path}: {error}; does one run there?")
        raise problem

    def _ask(self, address: Address, path: str, body: Mapping[str, Any] | None) -> Any:
        from urllib.request import Request

        headers = {"Accept": CONTENT}
        if address.authorization:
            headers["Authorization"] = address.authorization
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = CONTENT
        with self._access.opened(Request(address.url + path, data, headers), SECONDS) as answer:
            return json.loads(answer.read())


def registered(answer: Mapping[str, Any], schema_id: int) -> Registered:
    if not isinstance(answer.get("schema"), str):
        raise RegistryFailed(f"the schema registry gave no schema for id {schema_id}")
    kind, references = str(answer.get("schemaType", "AVRO")), tuple(answer.get("references") or ())
    guid, rule_set = str(answer.get("guid") or ""), answer.get("ruleSet")
    return Registered(schema_id, kind, answer["schema"], references, guid, rule_set or None)


def refusal(url: str, error: Any) -> RegistryFailed:
    try:
        body = json.loads(error.read())
    except (ValueError, OSError):
        body = {}
    body = body if isinstance(body, dict) else {}
    code = int(body.get("error_code", error.code))
    return RegistryFailed(f"schema registry {url}: {code} {body.get('message', error.reason)}", code, error.code)

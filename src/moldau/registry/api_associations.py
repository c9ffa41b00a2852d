"""Associations: which subject a resource, such as a topic, has for its keys and its values.

Clients ask for them before they name a subject, and name it after the topic where the list is empty.
A strong association owns its subject: it excludes others, and `cascadeLifecycle` deletes the subject with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from moldau.registry import errors, records
from moldau.registry.answers import ASSOCIATION, ASSOCIATIONS, BATCH, list_of
from moldau.registry.api_settings import empty
from moldau.registry.records import Record
from moldau.registry.registry import Registry
from moldau.registry.rules import Decision
from moldau.registry.shapes import OBJECT, PAGE, WRITE_ERRORS, page
from moldau.registry.state import State
from moldau.registry.subjects import check, prefix_of, within
from moldau.web import WRITE, Api, Call, flag, text

STRONG, WEAK = "STRONG", "WEAK"
FILTERS: Final = (text("resourceType"), text("associationType"), text("lifecycle"))
CONFLICTS: Final = (40410, 40901, 40903, 40904, 40905, 40907, 40908, 42201, 42212)
REFUSED: Final[dict[str, Any]] = {"errors": (*CONFLICTS, *WRITE_ERRORS), "tag": "associations"}
DEFAULT_TYPE: Final = "topic"
KEY_FIELDS: Final = ("resourceName", "resourceNamespace", "resourceType", "associationType", "subject")


def add(api: Api, registry: Registry) -> None:
    add_reading(api, registry)
    add_writing(api, registry)
    add_ending(api, registry)


def selected(state: State, call: Call, **wanted: str) -> list[dict[str, Any]]:
    wanted |= {each.name: call.query[each.name] for each in FILTERS if call.query[each.name]}
    types = call.request.query_params.getlist("associationType")
    found = []
    for each in list(state.associations.values()):
        rest = {name: value for name, value in wanted.items() if name != "associationType"}
        fits = not types or each.get("associationType") in types
        if fits and all(each.get(name) == value for name, value in rest.items()):
            found.append(each)
    return sorted(found, key=lambda each: (each["resourceName"], each["associationType"]))


def add_reading(api: Api, registry: Registry) -> None:
    state, query = registry.state, (*FILTERS, *PAGE)

    @api.get("/associations/resources/{resourceId}", query=query, answer=list_of(ASSOCIATION), tag="associations")
    async def by_id(call: Call) -> object:
        """The associations of a resource, by its id"""
        return page(selected(state, call, resourceId=call.path["resourceId"]), call.query)

    @api.get("/associations/resources/{namespace}/{name}", query=query, answer=list_of(ASSOCIATION), tag="associations")
    async def by_name(call: Call) -> object:
        """The associations of a resource, by its name; - is any namespace"""
        wanted = {"resourceName": call.path["name"]}
        if call.path["namespace"] != "-":
            wanted["resourceNamespace"] = call.path["namespace"]
        return page(selected(state, call, **wanted), call.query)

    @api.get(
        "/associations/subjects/{subject}",
        query=query,
        answer=list_of(ASSOCIATION),
        errors=(42208,),
        tag="associations",
    )
    async def by_subject(call: Call) -> object:
        """The associations of a subject"""
        return page(selected(state, call, subject=check(call.path["subject"])), call.query)


def add_writing(api: Api, registry: Registry) -> None:
    state = registry.state
    options = (text("context", doc="Where subjects are that name no context of their own."), flag("dryRun"))
    more: dict[str, Any] = {"body": OBJECT, **REFUSED}

    def alone(call: Call, body: Mapping[str, Any]) -> Decision:
        decision = associated(state, body, list(state.associations.values()), prefix(call))
        return Decision(decision.answer, [] if call.query["dryRun"] else decision.records)

    def prefix(call: Call) -> str:
        return prefix_of(call.query["context"]) if call.query["context"] else ""

    async def create(call: Call) -> object:
        """Associates a resource with subjects"""
        body = await call.json_object()
        return await registry.write(call, lambda: alone(call, body))

    api.post("/associations", role=WRITE, query=options, answer=ASSOCIATIONS, **more)(create)
    api.put("/associations", role=WRITE, query=options, answer=ASSOCIATIONS, **more)(create)

    @api.post("/associations:batch", role=WRITE, query=options, answer=BATCH, **more)
    async def batch(call: Call) -> object:
        """Several at once, all or none"""
        body = await call.json_object()
        requests = body.get("requests")
        if not isinstance(requests, list) or not all(isinstance(each, dict) for each in requests):
            raise invalid("requests", "a list of requests is expected")

        def decide() -> Decision:
            known, results, out = list(state.associations.values()), [], []
            for each in requests:
                decision = associated(state, each, known, prefix(call))
                known += [record.value for record in decision.records if record.value is not None]
                results.append({"result": decision.answer})
                out += decision.records
            return Decision({"results": results}, [] if call.query["dryRun"] else out)

        return await registry.write(call, decide)

    @api.put("/associations/resources/{resourceId}", role=WRITE, query=options, answer=ASSOCIATIONS, **more)
    async def update(call: Call) -> object:
        """Associates a resource with subjects, by its id"""
        body = await call.json_object()
        if body.get("resourceId", call.path["resourceId"]) != call.path["resourceId"]:
            raise invalid("resourceId", "the path names another one")
        body = {**body, "resourceId": call.path["resourceId"]}
        return await registry.write(call, lambda: alone(call, body))


def add_ending(api: Api, registry: Registry) -> None:
    state = registry.state
    gone = (*FILTERS[:2], flag("cascadeLifecycle"), flag("dryRun"))

    @api.delete("/associations/resources/{resourceId}", role=WRITE, query=gone, status=204, **REFUSED)
    async def delete(call: Call) -> object:
        """Ends the associations of a resource"""
        resource, cascade, dry = call.path["resourceId"], call.query["cascadeLifecycle"], call.query["dryRun"]
        wanted = {each.name: call.query[each.name] for each in FILTERS[:1] if call.query[each.name]}
        types = call.request.query_params.getlist("associationType")

        def decide() -> Decision:
            found = [
                each
                for each in list(state.associations.values())
                if each.get("resourceId") == resource
                and wanted.items() <= each.items()
                and (not types or each["associationType"] in types)
            ]
            if not found:
                raise errors.RegistryError(40410, f"No association found for resource '{resource}'")
            out = ended(state, found, cascade)
            return Decision(None, [] if dry else out)

        return empty(await registry.write(call, decide))


def ended(state: State, found: list[dict[str, Any]], cascade: bool) -> list[Record]:
    out = []
    for each in found:
        strong = each.get("lifecycle") == STRONG
        if each.get("frozen") and not cascade:
            told = f"The association of type  '{each['associationType']}' is frozen for subject '{each['subject']}'"
            raise errors.RegistryError(40908, told)
        out.append(Record(key_of(each), None))
        live = state.versions(each["subject"])
        if strong and cascade and live:
            out.append(records.delete_subject_record(each["subject"], live[-1].version))
    return out


def associated(state: State, body: Mapping[str, Any], known: Sequence[Mapping[str, Any]], prefix: str) -> Decision:
    """`known`: the associations that there are. `prefix`: the context of subjects that name none."""
    name, wanted = body.get("resourceName"), body.get("associations")
    if not isinstance(name, str) or not name:
        raise invalid("resourceName", "it is missing")
    if not isinstance(wanted, list) or not wanted or not all(isinstance(each, dict) for each in wanted):
        raise invalid("associations", "a list is expected")
    resource = {
        "resourceName": name,
        "resourceNamespace": str(body.get("resourceNamespace") or "-"),
        "resourceId": str(body.get("resourceId") or uuid5(NAMESPACE_URL, name)),
        "resourceType": str(body.get("resourceType") or DEFAULT_TYPE),
    }
    made: list[dict[str, Any]] = []
    for each in wanted:
        made.append(association(state, resource, each, [*known, *made], prefix))
    told = [{key: each[key] for key in ("subject", "associationType", "lifecycle", "frozen")} for each in made]
    return Decision({**resource, "associations": told}, [Record(key_of(each), each) for each in made])


def association(
    state: State,
    resource: Mapping[str, str],
    wanted: Mapping[str, Any],
    known: Sequence[Mapping[str, Any]],
    prefix: str,
) -> dict[str, Any]:
    kind = wanted.get("associationType") or "value"
    lifecycle = str(wanted.get("lifecycle") or WEAK).upper()
    if kind not in ("key", "value"):
        raise invalid("associationType", "key or value")
    if lifecycle not in (STRONG, WEAK):
        raise invalid("lifecycle", "STRONG or WEAK")
    subject = check(within(prefix, str(wanted.get("subject") or f"{resource['resourceName']}-{kind}")))
    if not state.versions(subject):
        raise errors.no_active_version(subject)
    mine = {"resourceNamespace", "resourceName", "resourceType"}
    for each in known:
        same = all(each.get(key) == resource[key] for key in mine)
        if same and each["associationType"] == kind and each["subject"] != subject:
            told = f"An association of type '{kind}' already exists for resource '{resource['resourceName']}'"
            raise errors.RegistryError(40903, told)
        if not same and each["subject"] == subject:
            if each.get("lifecycle") == STRONG:
                raise errors.RegistryError(40905, f"A strong association already exists for subject '{subject}'")
            if lifecycle == STRONG:
                raise errors.RegistryError(40904, f"An association already exists for subject '{subject}'")
    frozen = bool(wanted.get("frozen"))
    return {**resource, "subject": subject, "associationType": kind, "lifecycle": lifecycle, "frozen": frozen}


def key_of(found: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: found[name] for name in KEY_FIELDS}
    return {"keytype": records.ASSOC, "tenant": records.TENANT, **fields, "magic": 0}


def invalid(name: str, why: str) -> errors.RegistryError:
    return errors.RegistryError(42212, f"Invalid association: {name}: {why}")

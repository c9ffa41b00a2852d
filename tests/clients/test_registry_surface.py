"""Paths and parameters of the schema registry that few clients use: associations, forms, pages, bounds, and garbage."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from jsonschema import Draft202012Validator

from tests.support.broker import Broker
from tests.support.garbage import check_answers, operations, shape
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")

USER = '{"type":"record","name":"User","fields":[{"name":"x","type":"int"}]}'
OTHER = '{"type":"record","name":"User","fields":[{"name":"y","type":"int","default":1}]}'
THIRD = '{"type":"record","name":"User","fields":[{"name":"x","type":"int"},{"name":"z","type":"int","default":1}]}'


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("surface")
    with (
        Broker(folder / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
        Registry(folder / "registry", broker.address, QUICK) as found,
    ):
        yield found


@pytest.fixture
def name() -> str:
    return f"s-{uuid4().hex[:8]}"


def register(registry: Registry, subject: str, schema: str = USER, **more: Any) -> int:
    status, body = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})
    assert status == 200, body
    return int(body["id"])


def code(answer: tuple[int, Any]) -> int:
    status, body = answer
    assert status == body["error_code"] // 100, answer
    return int(body["error_code"])


@pytest.mark.parametrize("subject", ["%20", "a%00b", ":.__GLOBAL:s", "x" * 1025])
def test_names_that_no_subject_has(registry: Registry, subject: str) -> None:
    body = {"schema": USER}
    for method, path in (
        ("POST", f"/subjects/{subject}/versions"),
        ("POST", f"/subjects/{subject}"),
        ("GET", f"/subjects/{subject}/versions"),
        ("DELETE", f"/subjects/{subject}"),
        ("GET", f"/associations/subjects/{subject}"),
    ):
        assert code(registry.ask(method, path, body if method == "POST" else None)) == 42208, (method, path)


# -- associations ---------------------------------------------------------------------------------------------------


def wish(name: str, *associations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"resourceName": name, "resourceId": f"id-{name}", "associations": list(associations), **more}


def one(subject: str, kind: str = "value", **more: Any) -> dict[str, Any]:
    return {"associationType": kind, "subject": subject, **more}


def associations(registry: Registry, path: str) -> list[str]:
    status, body = registry.ask("GET", f"/associations/{path}")
    assert status == 200
    return [each["subject"] for each in body]


def test_a_resource_is_associated_with_subjects(registry: Registry, name: str) -> None:
    keys, values = f"{name}-k", f"{name}-v"
    for subject in (keys, values):
        register(registry, subject)
    body = wish(name, one(keys, "key"), one(values))
    assert registry.ask("POST", "/associations?dryRun=true", body)[0] == 200
    assert associations(registry, f"resources/-/{name}") == []
    status, told = registry.ask("POST", "/associations", body)
    assert (status, told["resourceType"], told["resourceNamespace"]) == (200, "topic", "-")
    assert [each["lifecycle"] for each in told["associations"]] == ["WEAK", "WEAK"]
    assert associations(registry, f"resources/-/{name}") == [keys, values]
    assert associations(registry, f"resources/-/{name}?associationType=value") == [values]
    assert associations(registry, f"resources/-/{name}?associationType=key&associationType=value") == [keys, values]
    assert associations(registry, f"resources/-/{name}?offset=1&limit=1") == [values]
    assert associations(registry, f"resources/-/{name}?lifecycle=STRONG") == []
    assert associations(registry, f"resources/-/{name}?resourceType=table") == []
    assert associations(registry, f"resources/elsewhere/{name}") == []
    assert associations(registry, f"resources/id-{name}") == [keys, values]
    assert associations(registry, f"subjects/{keys}") == [keys]
    assert registry.ask("DELETE", f"/associations/resources/id-{name}?associationType=key&dryRun=true")[0] == 204
    assert registry.ask("DELETE", f"/associations/resources/id-{name}?associationType=key")[0] == 204
    assert associations(registry, f"resources/id-{name}") == [values]
    assert registry.ask("GET", f"/subjects/{keys}/versions")[0] == 200


@pytest.mark.parametrize("context", [".c", ":.c:", "c"])
def test_associations_can_be_made_in_a_context(registry: Registry, name: str, context: str) -> None:
    there, elsewhere = f":.c:{name}", f":.d:{name}-key"
    for subject in (there, elsewhere):
        register(registry, subject)
    body = wish(name, one(name), one(elsewhere, "key"))
    assert code(registry.ask("POST", "/associations", body)) == 40907
    assert code(registry.ask("POST", "/associations?context=.e", body)) == 40907
    status, told = registry.ask("POST", f"/associations?context={context}", body)
    assert status == 200 and {each["subject"] for each in told["associations"]} == {there, elsewhere}
    assert associations(registry, f"subjects/{there}") == [there]
    path = f"/associations/resources/id-{name}"
    assert registry.ask("PUT", f"{path}?context={context}", body)[0] == 200
    assert registry.ask("POST", f"/associations:batch?context={context}", {"requests": [body]})[0] == 200


def test_conflicts_of_associations_have_their_codes(registry: Registry, name: str) -> None:
    mine, yours = f"{name}-mine", f"{name}-yours"
    for subject in (mine, yours):
        register(registry, subject)
    post = "/associations"
    assert registry.ask("POST", post, wish(name, one(mine)))[0] == 200
    assert registry.ask("POST", post, wish(name, one(mine)))[0] == 200
    assert code(registry.ask("POST", post, wish(name, one(yours)))) == 40903
    assert code(registry.ask("POST", post, wish(f"{name}-2", one(mine, lifecycle="STRONG")))) == 40904
    assert registry.ask("POST", post, wish(f"{name}-3", one(yours, lifecycle="STRONG")))[0] == 200
    assert code(registry.ask("POST", post, wish(f"{name}-4", one(yours)))) == 40905
    assert code(registry.ask("POST", post, wish(f"{name}-5", one(f"{name}-gone")))) == 40907
    assert code(registry.ask("DELETE", f"/associations/resources/id-{name}-nobody")) == 40410
    for bad in (
        {},
        wish(name),
        wish("", one(mine)),
        wish(name, one(mine, "both")),
        wish(name, one(mine, lifecycle="SOMETIMES")),
    ):
        assert code(registry.ask("POST", post, bad)) == 42212
    assert code(registry.ask("PUT", f"/associations/resources/other-{name}", wish(name, one(mine)))) == 42212
    assert registry.ask("PUT", f"/associations/resources/id-{name}", wish(name, one(mine)))[0] == 200


def test_a_strong_association_takes_its_subject_along(registry: Registry, name: str) -> None:
    subject, frozen = f"{name}-value", f"{name}-key"
    register(registry, subject)
    register(registry, frozen)
    body = wish(name, one(subject, lifecycle="STRONG"), one(frozen, "key", lifecycle="STRONG", frozen=True))
    assert registry.ask("POST", "/associations", body)[0] == 200
    path = f"/associations/resources/id-{name}"
    assert code(registry.ask("DELETE", path)) == 40908
    assert code(registry.ask("DELETE", f"{path}?dryRun=true")) == 40908
    assert associations(registry, f"resources/id-{name}") == [frozen, subject]
    assert registry.ask("DELETE", f"{path}?cascadeLifecycle=true")[0] == 204
    assert associations(registry, f"resources/id-{name}") == []
    for each in (subject, frozen):
        assert code(registry.ask("GET", f"/subjects/{each}/versions")) == 40401
        assert registry.ask("GET", f"/subjects/{each}/versions?deleted=true") == (200, [1])


def test_a_batch_of_associations_is_made_whole_or_not_at_all(registry: Registry, name: str) -> None:
    register(registry, name)
    good, strong = wish(f"{name}-a", one(name)), wish(f"{name}-b", one(name, lifecycle="STRONG"))
    for batch in ([good, wish(f"{name}-c", one(f"{name}-gone"))], [good, strong], [strong, good]):
        assert registry.ask("POST", "/associations:batch", {"requests": batch})[0] == 409
        assert associations(registry, f"subjects/{name}") == []
    requests = {"requests": [good, wish(f"{name}-c", one(name))]}
    status, told = registry.ask("POST", "/associations:batch?dryRun=true", requests)
    assert status == 200 and associations(registry, f"subjects/{name}") == []
    assert registry.ask("POST", "/associations:batch", requests) == (status, told)
    assert [each["result"]["resourceName"] for each in told["results"]] == [f"{name}-a", f"{name}-c"]
    assert associations(registry, f"subjects/{name}") == [name, name]


# -- schemas --------------------------------------------------------------------------------------------------------


def test_a_schema_is_compared_with_all_versions_that_its_level_names(registry: Registry, name: str) -> None:
    for schema in (USER, OTHER):
        register(registry, name, schema)
    path, body = f"/compatibility/subjects/{name}/versions", {"schema": THIRD}
    assert registry.ask("POST", path, body)[1] == {"is_compatible": False}
    registry.ask("PUT", f"/config/{name}", {"compatibility": "FORWARD"})
    assert registry.ask("POST", path, body)[1] == {"is_compatible": True}
    registry.ask("PUT", f"/config/{name}", {"compatibility": "FORWARD_TRANSITIVE"})
    told = registry.ask("POST", f"{path}?verbose=true", {"schema": '"int"'})[1]
    assert told["is_compatible"] is False and len(told["messages"]) >= 2
    assert registry.ask("POST", f"{path}?verbose=true", body)[1] == {"is_compatible": True, "messages": []}
    assert registry.ask("POST", f"{path}/1", body)[1] == {"is_compatible": True}
    assert code(registry.ask("POST", f"{path}/9", body)) == 40402
    assert code(registry.ask("POST", path, {"schema": "{"})) == 42201
    assert registry.ask("POST", f"/compatibility/subjects/{name}-new/versions", body)[1] == {"is_compatible": True}


def test_schemas_are_told_in_the_form_that_is_asked_for(registry: Registry, name: str) -> None:
    text = 'syntax = "proto3";\nmessage Tea {\n  int32 leaves = 1;\n}\n'
    schema_id = register(registry, name, text, schemaType="PROTOBUF")
    paths = (f"/schemas/ids/{schema_id}", f"/subjects/{name}/versions/1")
    guid = registry.ask("GET", paths[0])[1]["guid"]
    for path in (*paths, f"/schemas/guids/{guid}"):
        assert "message Tea" in registry.ask("GET", path)[1]["schema"]
        assert registry.ask("GET", f"{path}?format=unheard")[1] == registry.ask("GET", path)[1]
        found = registry.ask("GET", f"{path}?format=serialized")[1]["schema"]
        assert FileDescriptorProto.FromString(base64.b64decode(found)).message_type[0].name == "Tea"
    answer = registry.ask("POST", f"/subjects/{name}?format=serialized", {"schema": text, "schemaType": "PROTOBUF"})
    assert FileDescriptorProto.FromString(base64.b64decode(answer[1]["schema"])).message_type[0].name == "Tea"


def test_the_largest_id_is_told_where_it_is_asked_for(registry: Registry, name: str) -> None:
    first = register(registry, name)
    second = register(registry, f"{name}-2", f'{{"type":"fixed","name":"F{name[2:]}","size":1}}')
    assert "maxId" not in registry.ask("GET", f"/schemas/ids/{first}")[1]
    assert registry.ask("GET", f"/schemas/ids/{first}?fetchMaxId=True")[1]["maxId"] == second
    context = f":.{name}:a"
    register(registry, context)
    assert registry.ask("GET", f"/schemas/ids/1?subject={context}&fetchMaxId=true")[1]["maxId"] == 1


def test_schemas_are_listed_in_pages(registry: Registry, name: str) -> None:
    for schema in (USER, THIRD):
        register(registry, f"{name}-a", schema)
    register(registry, f"{name}-b")
    registry.ask("DELETE", f"/subjects/{name}-b")

    def listed(query: str) -> list[tuple[str, int]]:
        found = registry.ask("GET", f"/schemas?subjectPrefix={name}&{query}")[1]
        return [(each["subject"], each["version"]) for each in found]

    assert listed("") == [(f"{name}-a", 1), (f"{name}-a", 2)]
    assert listed("latestOnly=true&deleted=true") == [(f"{name}-a", 2), (f"{name}-b", 1)]
    assert listed("offset=1&limit=1") == [(f"{name}-a", 2)]


def tags(path: str, *names: str, kind: str = "sr_field") -> dict[str, Any]:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}


def test_tags_make_a_version(registry: Registry, name: str) -> None:
    register(registry, name)
    path = f"/subjects/{name}/versions"
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"]}
    body = {"tagsToAdd": [tags("User.x", "PII", "X")], "rulesToMerge": {"domainRules": [rule]}}
    status, made = registry.ask("POST", f"{path}/latest/tags", {"newVersion": 2, **body})
    assert (status, made["version"]) == (200, 2)
    found = registry.ask("GET", f"{path}/2?findTags=PII")[1]
    assert found["schemaTags"] == [tags("User.x", "PII", "X")]
    assert json.loads(found["schema"])["fields"][0]["confluent:tags"] == ["PII", "X"]
    assert found["metadata"] == {"properties": {"confluent:version": "2"}}
    assert found["ruleSet"] == {"domainRules": [rule]}
    assert registry.ask("GET", f"/schemas/ids/{made['id']}?findTags=*")[1]["schemaTags"] == found["schemaTags"]
    assert registry.ask("GET", f"/schemas/ids/{made['id']}?findTags=OTHER")[1]["schemaTags"] == []
    assert "schemaTags" not in registry.ask("GET", f"{path}/2")[1]
    fewer = {"tagsToRemove": [tags("User.x", "X")], "rulesToRemove": ["r"]}
    assert registry.ask("POST", f"{path}/2/tags", fewer)[1]["version"] == 3
    found = registry.ask("GET", f"{path}/3?findTags=*")[1]
    assert found["schemaTags"] == [tags("User.x", "PII")]
    assert found["metadata"] == {"properties": {"confluent:version": "3"}} and found["ruleSet"] == {"domainRules": []}
    assert code(registry.ask("POST", f"{path}/3/tags", {"tagsToAdd": [tags("User.gone", "X")]})) == 42201
    assert code(registry.ask("POST", f"{path}/3/tags", {"newVersion": 7, **body})) == 42201
    assert code(registry.ask("POST", f"{path}/9/tags", body)) == 40402
    assert code(registry.ask("POST", f"{path}/3/tags", {"tagsToAdd": [{"tags": ["X"]}]})) == 42201
    assert code(registry.ask("POST", f"{path}/3/tags", {**body, "ruleSet": {}})) == 42210


def test_tags_may_come_with_a_schema(registry: Registry, name: str) -> None:
    more = {"schemaTagsToAdd": [tags("User", "T", kind="sr_record")]}
    register(registry, name, **more)
    found = registry.ask("GET", f"/subjects/{name}/versions/1")[1]
    assert json.loads(found["schema"])["confluent:tags"] == ["T"]
    assert found["metadata"] == {"properties": {"confluent:version": "1"}}
    looked_up = registry.ask("POST", f"/subjects/{name}", {"schema": USER, **more})[1]
    assert looked_up["version"] == 1
    assert register(registry, name, USER, **more) == looked_up["id"]
    assert registry.ask("GET", f"/subjects/{name}/versions") == (200, [1])
    assert code(registry.ask("POST", f"/subjects/{name}", {"schema": USER})) == 40403


def test_a_name_without_a_context_finds_what_only_other_contexts_have(registry: Registry, name: str) -> None:
    there, mine = f":.{name}:{name}", f'{{"type":"fixed","name":"G{name[2:]}","size":2}}'
    register(registry, f"{name}-own")
    schema_id = register(registry, there, mine)
    own = register(registry, f"{name}-own-2", f'{{"type":"fixed","name":"F{name[2:]}","size":1}}')
    assert registry.ask("GET", f"/subjects/{name}/versions/latest")[1]["subject"] == there
    assert registry.ask("POST", f"/subjects/{name}", {"schema": mine})[1]["subject"] == there
    assert registry.ask("GET", f"/schemas/ids/{schema_id}?subject={name}")[1]["schema"] == mine
    assert registry.ask("GET", f"/schemas/ids/{schema_id}")[1]["schema"] != mine
    assert registry.ask("GET", f"/schemas/ids/{schema_id}/subjects?subject={name}") == (200, [there])
    assert registry.ask("GET", f"/schemas/ids/{own}?subject={name}-unheard")[0] == 200
    assert code(registry.ask("GET", f"/schemas/ids/{own}?subject=:.{name}:other")) == 40403
    assert code(registry.ask("GET", f"/subjects/{name}-gone/versions/1")) == 40401


def test_references_are_told_with_their_context(registry: Registry, name: str) -> None:
    within = f":.{name}:"
    register(registry, f"{within}place", '{"type":"record","name":"Place","fields":[]}')
    trip = '{"type":"record","name":"Trip","fields":[{"name":"to","type":"Place"}]}'
    reference = {"name": "Place", "subject": "place", "version": 1}
    schema_id = register(registry, f"{within}trip", trip, references=[reference])
    for path in (f"/schemas/ids/{schema_id}?subject={within}&", f"/subjects/{within}trip/versions/1?"):
        assert registry.ask("GET", path)[1]["references"] == [reference]
        told = registry.ask("GET", f"{path}referenceFormat=qualified")[1]["references"]
        assert told == [{**reference, "subject": f"{within}place"}]


def test_schemas_are_listed_by_rules_associations_and_aliases(registry: Registry, name: str) -> None:
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    register(registry, f"{name}-ruled", ruleSet=rules)
    register(registry, f"{name}-bound")
    register(registry, f"other-{name}")
    assert registry.ask("POST", "/associations", wish(name, one(f"{name}-bound")))[0] == 200
    registry.ask("PUT", f"/config/{name}-alias", {"alias": f"other-{name}"})

    def listed(query: str) -> list[str]:
        return [each["subject"] for each in registry.ask("GET", f"/schemas?subjectPrefix={name}&{query}")[1]]

    assert listed("") == [f"{name}-bound", f"{name}-ruled"]
    assert listed("ruleType=CEL") == [f"{name}-ruled"] and listed("ruleType=ENCRYPT") == []
    assert listed("associationType=value") == [f"{name}-bound"] and listed("associationType=key") == []
    assert listed("lifecycle=WEAK&resourceType=topic") == [f"{name}-bound"] and listed("lifecycle=STRONG") == []
    assert listed("lifecycle=NONE") == [f"{name}-ruled"]
    assert listed("lifecycle=NONE&lifecycle=WEAK") == [f"{name}-bound", f"{name}-ruled"]
    assert listed("aliases=true") == [f"other-{name}", f"{name}-bound", f"{name}-ruled"]
    found = registry.ask("GET", f"/schemas?subjectPrefix={name}-alias&aliases=true")[1]
    assert [each["aliases"] for each in found] == [[f"{name}-alias"]]
    bound = registry.ask("GET", f"/schemas?subjectPrefix={name}&lifecycle=WEAK")[1][0]
    assert [each["resourceName"] for each in bound["associations"]] == [name]


def test_reserved_names_stay_reserved_where_fields_are_checked(registry: Registry, name: str) -> None:
    reserved = {"metadata": {"properties": {"confluent:reserved": "y, w"}}}
    assert registry.ask("PUT", f"/config/{name}", {"validateFields": True, "compatibility": "NONE"})[0] == 200
    register(registry, name, USER, **reserved)
    told = registry.ask("POST", f"/subjects/{name}/versions", {"schema": OTHER, **reserved})
    assert code(told) == 40901 and "conflicts with the reserved field y" in told[1]["message"]
    freed = {"metadata": {"properties": {"confluent:reserved": "w"}}}
    path = f"/compatibility/subjects/{name}/versions?verbose=true"
    found = registry.ask("POST", path, {"schema": OTHER, **freed})[1]
    assert found["is_compatible"] is False and "reserved field y removed" in found["messages"][0]
    registry.ask("PUT", f"/config/{name}", {"validateFields": False})
    assert register(registry, name, OTHER, **freed) > 0


def test_the_mode_forward_takes_ids_as_they_come(registry: Registry, name: str) -> None:
    assert registry.ask("PUT", f"/mode/{name}", {"mode": "FORWARD"})[0] == 200
    fixed = f'{{"type":"fixed","name":"F{name[2:]}","size":1}}'
    assert code(registry.ask("POST", f"/subjects/{name}/versions", {"schema": fixed})) == 42205
    assert register(registry, name, fixed, id=900_001, version=3) == 900_001
    assert registry.ask("GET", f"/subjects/{name}/versions") == (200, [3])


def test_what_belongs_to_a_resource_is_not_deleted_or_built_upon(registry: Registry, name: str) -> None:
    place = f"{name}-value"
    register(registry, place, '{"type":"record","name":"Place","fields":[]}')
    assert registry.ask("POST", "/associations", wish(name, one(place, lifecycle="STRONG")))[0] == 200
    assert code(registry.ask("DELETE", f"/subjects/{place}")) == 40904
    assert code(registry.ask("DELETE", f"/subjects/{place}/versions/1")) == 40907
    trip = '{"type":"record","name":"Trip","fields":[{"name":"to","type":"Place"}]}'
    reference = {"name": "Place", "subject": place, "version": 1}
    body = {"schema": trip, "references": [reference]}
    assert code(registry.ask("POST", f"/subjects/{name}-trip/versions", body)) == 42205
    assert registry.ask("DELETE", f"/associations/resources/id-{name}")[0] == 204
    assert registry.ask("POST", f"/subjects/{name}-trip/versions", body)[0] == 200


def test_a_subject_that_refers_to_itself_can_be_deleted(registry: Registry, name: str) -> None:
    registry.ask("PUT", f"/config/{name}", {"compatibility": "NONE"})
    register(registry, name, '{"type":"record","name":"Place","fields":[]}')
    trip = '{"type":"record","name":"Trip","fields":[{"name":"to","type":"Place"}]}'
    register(registry, name, trip, references=[{"name": "Place", "subject": name, "version": 1}])
    assert code(registry.ask("DELETE", f"/subjects/{name}/versions/1")) == 42206
    assert registry.ask("DELETE", f"/subjects/{name}") == (200, [1, 2])
    assert registry.ask("DELETE", f"/subjects/{name}?permanent=true") == (200, [1, 2])


def test_old_java_clients_are_told_what_they_know(registry: Registry, name: str) -> None:
    old, young = {"User-Agent": "Java/1.8"}, {"User-Agent": "Java/17", "Confluent-Accept-Unknown-Properties": "true"}
    made = registry.ask("POST", f"/subjects/{name}/versions", {"schema": USER}, **old)[1]
    assert made.keys() == {"id"}
    assert registry.ask("POST", f"/subjects/{name}/versions", {"schema": USER}, **young)[1].keys() > {"id", "guid"}
    assert registry.ask("GET", f"/schemas/ids/{made['id']}", **old)[1] == {"schema": USER}
    whole = {"subject": name, "version": 1, "id": made["id"], "schema": USER}
    assert registry.ask("GET", f"/subjects/{name}/versions/1", **old)[1] == whole
    assert registry.ask("POST", f"/subjects/{name}", {"schema": USER}, **old)[1] == whole
    assert "guid" in registry.ask("GET", f"/subjects/{name}/versions/1", **young)[1]


def test_a_schema_beyond_the_bounds_is_refused(registry: Registry, name: str) -> None:
    fields = [{"name": f"f{number}", "type": "int", "doc": "x" * 90} for number in range(10_000)]
    large = {"schema": json.dumps({"type": "record", "name": "Large", "fields": fields})}
    assert code(registry.ask("POST", f"/subjects/{name}/versions", large)) == 42209
    assert code(registry.ask("POST", f"/subjects/{name}", large)) == 42209
    assert code(registry.ask("GET", f"/subjects/{name}/versions")) == 40401
    wide = {"schema": USER, "metadata": {"properties": {"note": "x" * 1_200_000}}}
    assert code(registry.ask("POST", f"/subjects/{name}/versions", wide)) == 42209
    assert register(registry, name) > 0


HALF = "\ud800"
RULE = {"name": f"r{HALF}", "kind": "CONDITION"}


@pytest.mark.parametrize(
    "more",
    [
        {"schema": json.dumps({"type": "enum", "name": "E", "symbols": ["A"], "doc": HALF})},
        {"schema": json.dumps({"type": "object", "description": HALF}), "schemaType": "JSON"},
        {"schema": f'"{HALF}"'},
        {"metadata": {"properties": {"note": HALF}}},
        {"ruleSet": {"domainRules": [RULE]}},
        {"references": [{"name": HALF, "subject": HALF, "version": 1}]},
        {"schemaTagsToAdd": [{"schemaEntity": {"entityPath": "User.x", "entityType": "sr_field"}, "tags": [HALF]}]},
    ],
)
def test_half_of_a_pair_of_surrogates_is_refused(registry: Registry, name: str, more: dict[str, Any]) -> None:
    """JSON can say it, UTF-8 cannot: it could not be written."""
    body = {"schema": USER, **more}
    assert code(registry.ask("POST", f"/subjects/{name}/versions", body)) == 42201
    assert register(registry, f"{name}-next") > 0, "the next write is not made to pay for it"
    assert registry.ask("POST", f"/subjects/{name}", body)[0] in (404, 422)
    assert registry.ask("POST", f"/compatibility/subjects/{name}/versions", body)[0] == 422
    latin = json.dumps(body, ensure_ascii=False).encode("utf-16", "surrogatepass")
    assert registry.ask("POST", f"/subjects/{name}/versions", latin)[0] == 422


def test_half_of_a_pair_of_surrogates_is_refused_in_settings(registry: Registry, name: str) -> None:
    register(registry, name)
    for path, body in ((f"/config/{name}", {"alias": HALF}), (f"/config/{name}", {"defaultRuleSet": {"x": [RULE]}})):
        assert code(registry.ask("PUT", path, body)) == 42201
    assert code(registry.ask("POST", "/associations", wish(f"{name}{HALF}", one(name)))) == 42201
    assert registry.ask("PUT", f"/config/{name}", {"compatibility": "FULL"})[0] == 200


def test_all_that_can_be_read_has_the_shape_that_is_described(registry: Registry, name: str) -> None:
    """Of a schema with everything that there is to tell of one."""
    rule = {
        "name": "r",
        "kind": "TRANSFORM",
        "mode": "WRITEREAD",
        "type": "ENCRYPT",
        "tags": ["PII"],
        "params": {"a": "b"},
    }
    more = {"metadata": {"properties": {"k": "v"}, "tags": {"x": ["PII"]}}, "ruleSet": {"domainRules": [rule]}}
    register(registry, f"{name}-part", '{"type":"record","name":"Part","fields":[]}')
    whole = '{"type":"record","name":"Whole","fields":[{"name":"x","type":"int"},{"name":"part","type":"Part"}]}'
    references = [{"name": "Part", "subject": f"{name}-part", "version": 1}]
    made = {"schema": whole, "references": references, "schemaTagsToAdd": [tags("Whole.x", "PII")], **more}
    status, told = registry.ask("POST", f"/subjects/{name}/versions", made)
    assert status == 200, told
    assert registry.ask("POST", "/associations", wish(name, one(name)))[0] == 200
    config = {
        "compatibility": "FULL",
        "alias": name,
        "defaultRuleSet": more["ruleSet"],
        "overrideMetadata": more["metadata"],
    }
    assert registry.ask("PUT", f"/config/{name}", config)[0] == 200
    assert registry.ask("PUT", f"/mode/{name}", {"mode": "READONLY"})[0] == 200
    given = {"subject": name, "version": "1", "id": str(told["id"]), "guid": told["guid"], "resourceId": f"id-{name}",
             "namespace": "-", "name": name}  # fmt: skip
    described = registry.ask("GET", "/openapi.json")[1]
    read = {path: operation for method, path, operation in operations(described) if method == "GET"}
    schemas = {path: shape(operation, 200, described_kind(operation)) for path, operation in read.items()}
    for path, schema in schemas.items():
        query = "" if path.endswith("/schema") else "?findTags=*&fetchMaxId=true&associationType=value&key=k&value=v"
        status, found = registry.ask("GET", path.format(**given) + query)
        assert status == 200, (path, found)
        assert [each.message for each in Draft202012Validator(schema).iter_errors(found)] == [], (path, found)
    assert sum(not schema for schema in schemas.values()) == 2, "the two that are schemas themselves"


def described_kind(operation: dict[str, Any]) -> str:
    return str(next(iter(operation["responses"]["200"]["content"])))


def test_whatever_is_asked_is_answered_as_described(registry: Registry) -> None:
    """The last: it changes settings of all subjects."""
    described = registry.ask("GET", "/openapi.json")[1]
    assert len(operations(described)) > 40
    check_answers(registry.url, described, 1500, {})

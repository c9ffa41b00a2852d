"""What the settings of the registry's subjects, contexts and of all do to each other, and to what is registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.support.broker import Broker
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")

USER = '{"type":"record","name":"User","fields":[{"name":"x","type":"int"}]}'
OTHER = '{"type":"record","name":"User","fields":[{"name":"y","type":"int"}]}'


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("settings")
    with (
        Broker(folder / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
        Registry(folder / "registry", broker.address, QUICK) as found,
    ):
        yield found


@pytest.fixture
def registry(running: Registry) -> Iterator[Registry]:
    """With the settings of all as they are at first."""
    yield running
    running.ask("DELETE", "/mode")
    running.ask("DELETE", "/config")


@pytest.fixture
def name() -> str:
    return f"s-{uuid4().hex[:8]}"


def register(registry: Registry, subject: str, schema: str = USER, **more: Any) -> tuple[int, Any]:
    return registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})


def version(registry: Registry, subject: str, number: int | str = "latest") -> dict[str, Any]:
    status, found = registry.ask("GET", f"/subjects/{subject}/versions/{number}")
    assert status == 200, found
    return dict(found)


def set_config(registry: Registry, subject: str | None, **config: Any) -> None:
    path = "/config" if subject is None else f"/config/{subject}"
    assert registry.ask("PUT", path, config) == (200, config)


def code(answer: tuple[int, Any]) -> int:
    status, body = answer
    assert status == body["error_code"] // 100, answer
    return int(body["error_code"])


def owner(owner: str, **more: str) -> dict[str, Any]:
    return {"properties": {"owner": owner, **more}}


def rule(name: str, expression: str = "true") -> dict[str, str]:
    return {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": expression}


# -- levels and their companions ------------------------------------------------------------------------------------


def test_the_nearest_setting_counts(registry: Registry, name: str) -> None:
    context, subject = f":.{name}:", f":.{name}:s"
    levels = []
    for scope, level in ((None, "FULL"), (context, "FORWARD"), (subject, "NONE")):
        set_config(registry, scope, compatibility=level)
        levels.append(registry.ask("GET", f"/config/{subject}?defaultToGlobal=true")[1]["compatibilityLevel"])
    assert levels == ["FULL", "FORWARD", "NONE"]
    assert registry.ask("GET", f"/config/{name}?defaultToGlobal=true")[1] == {"compatibilityLevel": "FULL"}
    assert registry.ask("DELETE", f"/config/{subject}") == (200, {"compatibilityLevel": "NONE"})
    assert code(registry.ask("GET", f"/config/{subject}")) == 40408
    assert registry.ask("GET", f"/config/{subject}?defaultToGlobal=true")[1]["compatibilityLevel"] == "FORWARD"
    assert registry.ask("GET", f"/contexts/.{name}/config/s?defaultToGlobal=true")[1]["compatibilityLevel"] == "FORWARD"
    assert code(registry.ask("DELETE", f"/config/{subject}")) == 40401


def test_what_one_scope_leaves_out_comes_from_the_next(registry: Registry, name: str) -> None:
    set_config(registry, None, compatibility="NONE", normalize=True)
    set_config(registry, name, compatibilityPolicy="LENIENT")
    found = registry.ask("GET", f"/config/{name}?defaultToGlobal=true")[1]
    assert found == {"compatibilityLevel": "NONE", "normalize": True, "compatibilityPolicy": "LENIENT"}
    first = register(registry, name, '{"type":"int","b":1,"a":2}')[1]["id"]
    assert register(registry, name, '{"type":"int","a":2,"b":1}')[1]["id"] == first


def test_an_alias_stands_for_its_subject(registry: Registry, name: str) -> None:
    alias = f"{name}-alias"
    set_config(registry, alias, alias=name)
    first = register(registry, alias)[1]
    assert version(registry, name)["id"] == version(registry, alias)["id"] == first["id"]
    assert version(registry, alias)["subject"] == name
    assert registry.ask("GET", f"/subjects/{alias}/versions") == (200, [1])
    assert registry.ask("POST", f"/subjects/{alias}", {"schema": USER})[1]["subject"] == name
    path = f"/compatibility/subjects/{alias}/versions/latest"
    assert registry.ask("POST", path, {"schema": OTHER}) == (200, {"is_compatible": False})
    assert code(register(registry, alias, OTHER)) == 40901
    assert alias not in registry.ask("GET", "/subjects")[1]
    assert registry.ask("GET", f"/config/{alias}")[1]["alias"] == name
    assert code(registry.ask("DELETE", f"/subjects/{alias}")) == 40401
    assert registry.ask("DELETE", f"/config/{alias}")[0] == 200
    assert code(registry.ask("GET", f"/subjects/{alias}/versions")) == 40401


def test_defaults_and_overrides_make_the_metadata(registry: Registry, name: str) -> None:
    set_config(
        registry, name, compatibility="NONE", defaultMetadata=owner("all", tier="low"), overrideMetadata=owner("me")
    )
    first = register(registry, name)[1]
    assert version(registry, name)["metadata"] == owner("me", tier="low")
    assert register(registry, name, metadata=owner("ann", tier="high"))[1]["version"] == 2
    assert version(registry, name)["metadata"] == owner("me", tier="high")
    assert register(registry, name)[1]["version"] == 2, "without its own it has those of the version before"
    assert register(registry, name, metadata=owner("x", tier="low"))[1] == first
    assert registry.ask("GET", f"/subjects/{name}/metadata?key=tier&value=low")[1]["version"] == 1
    set_config(registry, f":.{name}:", defaultMetadata=owner("context"))
    register(registry, f":.{name}:s")
    assert version(registry, f":.{name}:s")["metadata"] == owner("context")


def test_defaults_and_overrides_make_the_rules(registry: Registry, name: str) -> None:
    defaults = {"domainRules": [rule("a", "default"), rule("b", "default")]}
    overrides = {"domainRules": [rule("c", "override")], "migrationRules": [rule("m")]}
    set_config(registry, name, defaultRuleSet=defaults, overrideRuleSet=overrides)
    own = {"domainRules": [rule("b", "own"), rule("c", "own")]}
    assert register(registry, name, ruleSet=own)[0] == 200
    assert version(registry, name)["ruleSet"] == {
        "domainRules": [rule("a", "default"), rule("b", "own"), rule("c", "override")],
        "migrationRules": [rule("m")],
    }
    assert code(registry.ask("PUT", f"/config/{name}", {"compatibilityPolicy": "KIND"})) == 42203


def test_versions_are_compared_within_their_group(registry: Registry, name: str) -> None:
    set_config(registry, name, compatibilityGroup="major")

    def major(number: int) -> dict[str, Any]:
        return {"metadata": {"properties": {"major": str(number)}}}

    assert register(registry, name, USER, **major(1))[0] == 200
    assert code(register(registry, name, OTHER, **major(1))) == 40901
    assert register(registry, name, OTHER, **major(2))[0] == 200
    third = USER.replace('"x"', '"z"')
    path = f"/compatibility/subjects/{name}/versions/latest"
    for number, fits in ((1, True), (2, False), (3, True)):
        assert registry.ask("POST", path, {"schema": third, **major(number)})[1] == {"is_compatible": fits}
    assert code(register(registry, name, third, **major(2))) == 40901


# -- modes ----------------------------------------------------------------------------------------------------------


def test_the_nearest_mode_counts_unless_all_is_overridden(registry: Registry, name: str) -> None:
    context, subject = f":.{name}:", f":.{name}:s"
    registry.ask("PUT", "/mode", {"mode": "READONLY"})
    assert code(register(registry, subject)) == 42205
    assert code(registry.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})) == 42205
    registry.ask("PUT", f"/mode/{context}", {"mode": "READWRITE"})
    assert register(registry, subject)[0] == 200
    registry.ask("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    assert code(registry.ask("DELETE", f"/subjects/{subject}")) == 42205
    registry.ask("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    assert registry.ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"}) == (200, {"mode": "READONLY_OVERRIDE"})
    for path in ("/mode", f"/mode/{subject}?defaultToGlobal=true", f"/mode/{name}?defaultToGlobal=true"):
        assert registry.ask("GET", path) == (200, {"mode": "READONLY_OVERRIDE"})
    assert code(register(registry, subject, OTHER)) == 42205
    assert registry.ask("DELETE", "/mode") == (200, {"mode": "READONLY_OVERRIDE"})
    assert registry.ask("GET", f"/mode/{subject}") == (200, {"mode": "READWRITE"})


def test_what_holds_schemas_is_imported_into_by_force_alone(registry: Registry, name: str) -> None:
    subject = f":.{name}:s"
    register(registry, subject)
    for path in (f"/mode/{subject}", f"/mode/:.{name}:", "/mode"):
        assert code(registry.ask("PUT", path, {"mode": "IMPORT"})) == 42205
        assert registry.ask("PUT", f"{path}?force=true", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
        assert registry.ask("PUT", path, {"mode": "IMPORT"})[0] == 200, "it is already"
        registry.ask("DELETE", path)
    assert registry.ask("PUT", f"/mode/:.{name}:other", {"mode": "IMPORT"})[0] == 200


def test_a_context_s_mode_is_deleted_with_those_inside(registry: Registry, name: str) -> None:
    context = f":.{name}:"
    inside, outside = (f"{context}a", f"{context}b"), (name, f":.{name}2:a")
    for each in (context, *inside, *outside):
        registry.ask("PUT", f"/mode/{each}", {"mode": "READONLY"})
    assert registry.ask("DELETE", f"/mode/{context}") == (200, {"mode": "READONLY"})
    assert [registry.ask("GET", f"/mode/{each}")[0] for each in inside] == [200, 200]
    registry.ask("PUT", f"/mode/{context}", {"mode": "READONLY"})
    assert registry.ask("DELETE", f"/mode/{context}?recursive=true") == (200, {"mode": "READONLY"})
    assert [code(registry.ask("GET", f"/mode/{each}")) for each in (context, *inside)] == [40409] * 3
    assert [registry.ask("GET", f"/mode/{each}")[0] for each in outside] == [200, 200]
    assert registry.ask("DELETE", "/mode?recursive=True")[0] == 200
    assert [registry.ask("GET", f"/mode/{each}")[0] for each in outside] == [404, 404]


# -- contexts -------------------------------------------------------------------------------------------------------


def test_an_empty_context_can_be_deleted(registry: Registry, name: str) -> None:
    register(registry, f":.{name}:s")
    assert registry.ask("GET", f"/contexts?contextPrefix=.{name}") == (200, [f".{name}"])
    for permanent in ("false", "true"):
        assert code(registry.ask("DELETE", f"/contexts/.{name}")) == 42211
        assert registry.ask("DELETE", f"/subjects/:.{name}:s?permanent={permanent}")[0] == 200
    assert registry.ask("DELETE", f"/contexts/.{name}") == (204, None)
    assert registry.ask("GET", f"/contexts?contextPrefix=.{name}") == (200, [])
    assert registry.ask("DELETE", f"/contexts/.{name}") == (204, None), "it is gone"
    assert registry.ask("DELETE", "/contexts/.")[0] in (204, 422)
    assert "." in registry.ask("GET", "/contexts")[1]
    assert register(registry, f":.{name}:s")[1]["id"] == 1


# -- what is no setting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"defaultMetadata": "x"}, 42201),
        ({"overrideMetadata": {"properties": 5}}, 42201),
        ({"defaultRuleSet": {"domainRules": [{}]}}, 42210),
        ({"overrideRuleSet": []}, 42210),
        ({"alias": 5}, 42203),
        ({"compatibilityGroup": []}, 42203),
        ({"normalize": "perhaps"}, 42203),
        ({"validateFields": 1}, 42203),
    ],
)
def test_what_is_no_setting_is_refused(registry: Registry, name: str, config: dict[str, Any], refused: int) -> None:
    assert code(registry.ask("PUT", f"/config/{name}", {"compatibility": "NONE", **config})) == refused
    assert code(registry.ask("GET", f"/config/{name}")) == 40408
    assert register(registry, name)[0] == 200


def test_settings_are_set_and_taken_away_one_by_one(registry: Registry, name: str) -> None:
    assert registry.ask("PUT", f"/config/{name}", {"normalize": "True", "unheard": 1}) == (200, {"normalize": True})
    assert registry.ask("PUT", f"/config/{name}", {"compatibilityGroup": "major"})[0] == 200
    known = {"compatibilityLevel": "BACKWARD", "normalize": True, "compatibilityGroup": "major"}
    assert registry.ask("GET", f"/config/{name}") == (200, known)
    assert registry.ask("PUT", f"/config/{name}", {"normalize": None})[0] == 200
    assert registry.ask("GET", f"/config/{name}")[1] == {
        "compatibilityLevel": "BACKWARD",
        "compatibilityGroup": "major",
    }

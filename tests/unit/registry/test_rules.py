"""The registry's rules without a broker: names in contexts, who is elected, what records amount to."""

from __future__ import annotations

import pytest

from moldau.registry.canonical import Canonical
from moldau.registry.election import Identity, elected
from moldau.registry.errors import RegistryError
from moldau.registry.records import PoisonedRecord, Record, Version, decoded, delete_subject_record
from moldau.registry.rules import Rules
from moldau.registry.state import State
from moldau.registry.subjects import beside, context_of, qualified, rewrite
from moldau.schemas.model import guid_of
from moldau.schemas.workshop import Workshop


def who(port: int, *, eligible: bool = True, leads: bool = False) -> dict[str, object]:
    return Identity("h", port, eligible, "http").as_json(leads=leads)


def test_the_one_that_led_goes_on_leading() -> None:
    assert elected({"a": who(1), "b": who(2)})["master"] == "a"
    assert elected({"a": who(1), "b": who(2, leads=True)})["master"] == "b"
    assert elected({"a": who(1, eligible=False), "b": who(2)})["master"] == "b"
    assert "master" not in elected({"a": who(1, eligible=False)})
    assert elected({"a": who(1), "b": who(1)})["error"] == 1


@pytest.mark.parametrize("content", [{}, {"host": "h"}, {"host": "h", "port": "x"}, {"host": "h", "port": 1e999}])
def test_who_does_not_say_where_it_is_is_not_elected_and_hinders_nobody(content: dict[str, object]) -> None:
    found = elected({"a": {**content, "leader": True}, "b": who(2)})
    assert (found["error"], found["master"]) == (0, "b")
    assert "master" not in elected({"a": content})


@pytest.mark.parametrize(
    ("path", "found", "query"),
    [
        ("contexts/.c/subjects/s/versions", "subjects/:.c:s/versions", {}),
        ("contexts/c/subjects", "subjects", {"subject": ":.c:", "subjectPrefix": ":.c:"}),
        ("contexts/:.c:/config", "config/:.c:", {}),
        ("contexts/.c/mode/s", "mode/:.c:s", {}),
        ("contexts/./subjects/s", "subjects/s", {}),
        ("contexts/.c/compatibility/subjects/s/versions/1", "compatibility/subjects/:.c:s/versions/1", {}),
        ("contexts/.c", "contexts/.c", {}),
        ("contexts", "contexts", {}),
        ("contexts/.c/schemas/ids/1", "schemas/ids/1", {"subject": ":.c:", "subjectPrefix": ":.c:"}),
    ],
)
def test_paths_of_a_context(path: str, found: str, query: dict[str, str]) -> None:
    given: dict[str, str] = {}
    assert "/".join(rewrite(tuple(path.split("/")), given)) == found
    assert given == query


def test_names_in_contexts() -> None:
    assert context_of(":.c:s") == ".c" and context_of("s") == "."
    assert qualified(":.:s") == "s"
    assert beside(":.c:s", "t") == ":.c:t" and beside("s", "t") == "t" and beside(":.c:s", ":.d:t") == ":.d:t"


def test_what_records_amount_to() -> None:
    state = State()
    first, second = Version("s", 1, 1, "AVRO", '"int"'), Version("s", 2, 2, "AVRO", '"long"')
    for each in (first, second, Version("t", 1, 1, "AVRO", '"int"')):
        state.apply(each.record())
    state.apply(delete_subject_record("s", 1))
    assert [each.version for each in state.versions("s")] == [2]
    assert state.content(".", 1) is not None
    state.apply(first.tombstone())
    state.apply(second.tombstone())
    assert "s" not in state.subjects and state.content(".", 2) is None
    assert state.content(".", 1) is not None and state.context(".").largest_id == 2


@pytest.mark.parametrize("gone", [1, 2])
def test_a_schema_with_two_ids_is_found_by_its_guid_until_both_are_gone(gone: int) -> None:
    """As it was imported."""
    state, first, second = State(), Version("s", 1, 1, "AVRO", '"int"'), Version("t", 1, 2, "AVRO", '"int"')
    state.apply(first.record())
    state.apply(second.record())
    guid = guid_of('"int"', (), None, None)
    assert state.context(".").id_of(guid) == 1
    state.apply((first, second)[gone - 1].tombstone())
    assert state.context(".").id_of(guid) == 3 - gone
    state.apply((second, first)[gone - 1].tombstone())
    assert state.context(".").id_of(guid) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"x", None), (None, b"{}"), (b"[]", None), (b'{"keytype":1}', None), (b'{"keytype":"SCHEMA"}', b"[]")],
)
def test_a_record_that_is_none_is_told(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PoisonedRecord):
        decoded(key, value, None)


def test_a_poisoned_schema_changes_nothing() -> None:
    state = State()
    with pytest.raises(PoisonedRecord):
        state.apply(Record({"keytype": "SCHEMA", "subject": "s", "version": 1}, {"id": "x", "schema": 1}))
    assert state.subjects == {}


def test_what_a_subject_has_is_found_although_it_would_be_refused_today() -> None:
    """Another registry wrote it, and checked less."""
    text = '{"type":"record","name":"A","fields":[{"name":"f","type":["null","int"],"default":"x"}]}'
    state = State()
    state.apply(Version("s", 1, 7, "AVRO", text).record())
    with Workshop(1) as workshop:
        rules = Rules(state, Canonical(state, workshop), "BACKWARD")
        known = rules.known("s", {"schema": text}, normalize=False)
        assert known is not None and (known["id"], known["version"]) == (7, 1)
        decision = rules.register("s", {"schema": text.replace(",", ", ")}, normalize=False)
        assert decision.answer == known and decision.records == []
        with pytest.raises(RegistryError, match="Invalid default"):
            rules.register("t", {"schema": text}, normalize=False)
        with pytest.raises(RegistryError, match="Invalid default"):
            rules.register("s", {"schema": text.replace('"x"', '"y"')}, normalize=False)


@pytest.mark.parametrize(
    ("kind", "text", "refused"),
    [
        ("AVRO", '{"type":"record","name":"A","fields":[]}', None),
        ("AVRO", '{"type":"record","name":"A","fields":[{"name":"f","type":"int"}]}', "incompatible"),
        ("AVRO", '{"type":"record","name":"A"}', "no fields"),
        ("JSON", '{"type":"objet"}', "#/type"),
    ],
)
def test_what_was_found_out_before_its_turn_needs_no_worker_in_it(kind: str, text: str, refused: str | None) -> None:
    """Nor does it have to wait for one, which other schemas may keep for long."""
    state, body = State(), {"schema": text, "schemaType": kind}
    state.apply(Version("s", 1, 1, "AVRO", '{"type":"record","name":"A","aliases":["B"],"fields":[]}').record())
    with Workshop(1, patience=0.01) as workshop:
        rules = Rules(state, Canonical(state, workshop), "BACKWARD")
        told = []
        for _ in range(2):
            try:
                told.append(rules.register("s", body, normalize=False).answer["version"])
            except RegistryError as error:
                told.append((error.code, error.message))
            workshop.close()
    assert told[0] == told[1]
    assert told[0] == 2 if refused is None else refused in told[0][1]


def test_who_waits_for_a_worker_in_vain_is_told() -> None:
    with Workshop(0, patience=0.01) as none:
        rules = Rules(State(), Canonical(State(), none), "BACKWARD")
        with pytest.raises(RegistryError, match="no process that reads schemas was free") as refused:
            rules.register("s", {"schema": '"int"'}, normalize=False)
    assert refused.value.code == 50002


def test_half_of_a_pair_of_surrogates_that_another_registry_has_stored_stays_escaped() -> None:
    text = '{"type":"enum","name":"E","symbols":["A"],"doc":"\\ud800"}'
    version, state = Version("s", 1, 7, "AVRO", text), State()
    state.apply(version.record())
    with Workshop(1) as workshop:
        found = Canonical(state, workshop).formatted(version, "resolved")
    assert "\\ud800" in found and found.encode()

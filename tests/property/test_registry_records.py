"""Records of the registry's topic that nobody of sound mind has written: skipped as a whole, or applied as a whole."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.registry.records import PoisonedRecord, Record, decoded
from moldau.registry.rules import Rules
from moldau.registry.state import State

NUMBERS = st.one_of(st.integers(-2, 5), st.sampled_from([2**31, 2**70, -(2**70)]), st.floats())
SIMPLE = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.sampled_from(["", "s", ":.c:s", ":.", "AVRO", '"int"', "\ud800"])
)
ANY = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "subject", "version", "mode", "tags", "properties"]), inner, max_size=4
        ),
    ),
    max_leaves=6,
)
KEYTYPES = ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONFIG", "MODE", "CONTEXT", "ASSOC", "NOOP", "NEW", 5)
KEYS = st.fixed_dictionaries(
    {"keytype": st.sampled_from(KEYTYPES)},
    optional=dict.fromkeys(("subject", "version", "context", "resourceName", "associationType"), ANY),
)
GOOD_KEYS = st.fixed_dictionaries(
    {
        "keytype": st.sampled_from(KEYTYPES[:-2]),
        "subject": st.sampled_from(["s", ":.c:s"]),
        "version": st.integers(1, 3),
    }
)
FIELDS = (
    "subject", "version", "id", "schema", "schemaType", "references", "metadata", "ruleSet", "deleted", "mode",
    "compatibilityLevel", "defaultMetadata", "context", "resourceName",
)  # fmt: skip
VALUES = st.one_of(st.none(), ANY, st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=8))
GOOD_VALUES = st.fixed_dictionaries(
    {"id": st.integers(1, 4), "schema": st.sampled_from(['"int"', '"long"'])},
    optional={
        "version": st.integers(0, 3),
        "references": st.lists(st.fixed_dictionaries(dict.fromkeys(("name", "subject", "version"), ANY)), max_size=2),
        **dict.fromkeys(("metadata", "ruleSet", "deleted", "mode"), ANY),
    },
)
RECORDS = st.lists(st.tuples(st.one_of(KEYS, GOOD_KEYS), st.one_of(VALUES, GOOD_VALUES)), max_size=8)


def seen(state: State) -> Any:
    return copy.deepcopy(
        [state.subjects, state.contexts, state.configs, state.modes, state.referring, state.associations]
    )


@settings(max_examples=200, deadline=None)
@given(RECORDS)
def test_a_poisoned_record_changes_nothing_and_stops_nobody(pairs: list[tuple[Any, Any]]) -> None:
    state = State()
    for key, value in pairs:
        before = seen(state)
        try:
            state.apply(decoded(json.dumps(key).encode(), json.dumps(value).encode(), 7))
        except PoisonedRecord:
            assert seen(state) == before
        everything_can_be_asked(state)
    state.apply(Record({"keytype": "SCHEMA", "subject": "t", "version": 1}, {"id": 9, "schema": '"int"'}))
    assert [each.id for each in state.versions("t")] == [9]


def everything_can_be_asked(state: State) -> None:
    for each in state.every(deleted=True):
        json.dumps(each.record().encoded()[0].decode())
        state.references_to(each.subject, each.version)
    rules = Rules(state, None, "BACKWARD")  # type: ignore[arg-type]
    for subject in {*state.subjects, "s"}:
        assert isinstance(rules.config(subject)["compatibilityLevel"], str)
        assert isinstance(rules.mode(subject), str)
    for name, context in state.contexts.items():
        assert context.largest_id >= max(context.by_id, default=0), name


@given(st.binary(), st.binary())
def test_bytes(key: bytes, value: bytes) -> None:
    with contextlib.suppress(PoisonedRecord):
        State().apply(decoded(key, value, None))

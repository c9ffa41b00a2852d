"""Pieces of the REST proxy that need nobody: streams cut into objects, rates, costs, records as they are sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config.definition import ConfigError
from moldau.rest import errors, preparing
from moldau.rest.documents import Documents
from moldau.rest.preparing import iso, read_time
from moldau.rest.rates import Rate, cost_of, read_costs
from moldau.rest.tail import read_id

TEXTS = st.text() | st.text('"\\{}[]a\u00e4', max_size=20)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(
    st.lists(st.dictionaries(TEXTS, ANYTHING, max_size=3), max_size=5),
    st.lists(st.integers(1, 40), min_size=1),
    st.sampled_from([b"", b" ", b"\r\n", b"\t\n"]),
    st.booleans(),
)
def test_objects_come_out_of_a_stream_however_it_is_cut(
    objects: list[dict[str, object]], cuts: list[int], between: bytes, ascii_only: bool
) -> None:
    text = between.join(json.dumps(each, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for each in objects)
    documents = Documents(1 << 20)
    found = []
    at = number = 0
    while at < len(text):
        size = cuts[number % len(cuts)]
        found += documents.feed(text[at : at + size])
        at, number = at + size, number + 1
    assert found == objects
    assert documents.finish() is None


@pytest.mark.parametrize("wrong", [b"[1]", b"{} x", b'{"a":}', b'{"a":NaN}', b"\xff", b'{"a"\0}', b'{"a":1}}'])
def test_what_is_no_object_ends_the_stream(wrong: bytes) -> None:
    documents = Documents(1000)
    found = list(documents.feed(wrong + b" "))
    assert isinstance(found[-1], errors.RestError) and found[-1].code == 400
    assert documents.failed
    assert list(documents.feed(b"{}")) == []


def test_a_stream_that_ends_too_early_and_one_that_is_too_large() -> None:
    documents = Documents(100)
    assert list(documents.feed(b'{"a":"')) == []
    ended = documents.finish()
    assert ended is not None and "ended within" in ended.message
    documents = Documents(100)
    (refused,) = documents.feed(b'{"a":"' + b"x" * 200)
    assert isinstance(refused, errors.RestError) and "larger than 100" in refused.message


def test_permits_come_in_evenly() -> None:
    now = [0.0]
    rate = Rate(10, lambda: now[0])
    assert [rate.take(1) for _ in range(10)] == [0.0] * 10
    assert rate.take(1) is None
    assert rate.take(1, patience_seconds=1.0) == pytest.approx(0.1)
    now[0] = 1.1
    assert rate.take(1) == 0.0
    # More than a second's worth is let through when there is a full one, and then paid off.
    now[0] = 10.0
    assert rate.take(25) == 0.0
    now[0] = 11.0
    assert rate.take(1) is None
    assert rate.take(0) == 0.0
    now[0] = 12.0
    assert rate.take(1) == 0.0


def test_the_most_exact_cost_wins() -> None:
    costs = read_costs(["api.v3.clusters.*=2", "api.v3.clusters.get=7", "api.v3.*=0"])
    assert [cost_of(name, costs, 1) for name in ("api.v3.clusters.get", "api.v3.clusters.list", "api.v3.x", "y")] == [
        7, 2, 0, 1,
    ]  # fmt: skip
    with pytest.raises(ConfigError):
        read_costs(["api.v3.clusters"])


def test_times_are_read_and_told() -> None:
    assert read_time("2026-01-31T12:00:00.123Z") == 1769860800123
    assert read_time("2026-01-31T13:00:00.123+01:00") == 1769860800123
    assert read_time("2026-01-31T12:00:00") == read_time(1769860800000)
    assert iso(1769860800123) == "2026-01-31T12:00:00.123Z"
    for wrong in ("soon", True, -1, [], "1969-01-01T00:00:00Z"):
        with pytest.raises(errors.RestError):
            read_time(wrong)


def test_ids_of_those_who_follow() -> None:
    assert read_id("0:12,1:7") == {0: 12, 1: 7}
    for wrong in ("x", "0:", ":1", "0:-1", "0:1,"):
        with pytest.raises(errors.RestError):
            read_id(wrong)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "XML", "data": 1},
        {"type": "BINARY", "schema_id": 1, "data": 1},
        {"type": "AVRO", "data": 1},
        {"schema": "{}", "data": 1},
        {"schema_id": 1, "schema_version": 1, "data": 1},
        {"subject": "s", "subject_name_strategy": "TOPIC_NAME", "data": 1},
        {"subject_name_strategy": "OTHER", "data": 1},
        {"schema_id": "x"},
        "text",
    ],
)
def test_parts_that_contradict_themselves_are_refused(part: object) -> None:
    with pytest.raises(errors.RestError) as refused:
        preparing.read("t", {"value": part})
    assert refused.value.code == 400

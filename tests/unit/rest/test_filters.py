"""Filters hold or do not, and none can be made to work for ever."""

from __future__ import annotations

import json

import pytest

from moldau.rest.errors import RestError
from moldau.rest.filters import LONGEST_JOINED, MOST_TIMES, Filter

RECORD = {"partition_id": 0, "offset": 7, "key": {"data": "a"}, "value": {"data": {"price": 120, "tags": ["x", "y"]}}}
DOUBLING = "[@,@][]"


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("value.data.price > `100` && key.data == 'a'", True),
        ("value.data.price > `200`", False),
        (" && ".join(["contains(value.data.tags, 'x')"] * 20), True),
        ("join('-', value.data.tags) == 'x-y'", True),
        ("value.data.{p: price, t: tags} | p == `120`", True),
        ("contains([key.data, value.data.price], 'a')", True),
        ("sort_by(value.data.tags[*].{t: @}, &t)[0].t == 'x'", True),
        ("abs(key.data)", False),
    ],
)
def test_they_hold_or_do_not(expression: str, holds: bool) -> None:
    assert Filter(expression).holds(RECORD) is holds


@pytest.mark.parametrize(
    "expression",
    [
        " | ".join([DOUBLING] * 30),
        "[@,@]" + ".[@,@]" * 30 + " == `1`",
        "map(&[@,@,@,@,@], value.data.tags)[]" + "[].[@,@,@,@,@][]" * 12,
        "{a: @, b: @}" + ".{a: @, b: @}" * 20,
        "to_string([" * 40 + "@" + "])" * 40,
        "key.data[",
        "a" * 3000,
    ],
)
def test_what_multiplies_without_end_is_refused(expression: str) -> None:
    with pytest.raises(RestError, match="filter"):
        Filter(expression)


def test_what_is_made_of_a_record_stays_within_the_bound() -> None:
    doubled = Filter(f"length({DOUBLING} | {DOUBLING} | {DOUBLING} | {DOUBLING} | {DOUBLING}) == `{2**5}`")
    assert doubled.holds({"key": "a"})
    assert MOST_TIMES >= 2**5


def test_texts_are_joined_up_to_a_length() -> None:
    record = {"glue": "g" * 1000, "texts": [""] * (LONGEST_JOINED // 1000 + 2)}
    assert len(json.dumps(record)) < LONGEST_JOINED
    assert not Filter("join(glue, texts)").holds(record)
    assert Filter("join(glue, texts[:10])").holds(record)

"""Where a group's offsets go: the rules without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.group.plan import parse_topics, read_offsets, shifted, step
from moldau.cli.output import CommandError
from moldau.types.ids import TopicPartition

HERE = TopicPartition("orders", 0)


@given(st.integers(), st.integers(0, 10**9), st.integers(0, 10**6))
def test_a_step_stays_within_its_partition(wanted: int, first: int, size: int) -> None:
    made = step(HERE, None, wanted, first, first + size)
    assert first <= made.offset <= first + size
    assert made.clipped == (not first <= wanted <= first + size)
    assert made.clipped or made.offset == wanted


def test_a_shift_needs_somewhere_to_shift_from() -> None:
    assert shifted([HERE], {HERE: 7}, -3) == {HERE: 4}
    with pytest.raises(CommandError, match="no committed offset"):
        shifted([HERE, TopicPartition("orders", 1)], {HERE: 7}, 1)


def test_topics_and_partitions() -> None:
    assert parse_topics(["a", "b:0,2"]) == {"a": None, "b": [0, 2]}
    for wrong in ("", ":1", "a:", "a:x", "a:1,"):
        with pytest.raises(CommandError, match="expected TOPIC"):
            parse_topics([wrong])


def test_offsets_of_the_named_group_or_of_the_only_one(tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text(
        '[{"group": "a", "offsets": [{"topic": "orders", "partition": 0, "offset": 1}]},'
        ' {"group": "b", "offsets": [{"topic": "orders", "partition": 0, "offset": 2},'
        ' {"topic": "orders", "partition": 1, "offset": null}]}]'
    )
    assert read_offsets(file, "a") == {HERE: 1}
    assert read_offsets(file, "b") == {HERE: 2}
    with pytest.raises(CommandError, match="several groups"):
        read_offsets(file, "c")
    file.write_text('{"group": "a", "offsets": [{"topic": "orders", "partition": 0, "offset": 1}]}')
    assert read_offsets(file, "c") == {HERE: 1}

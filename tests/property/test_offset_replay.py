"""Loading committed offsets the short way, and taking many at once when they are committed, leaves what the careful way
leaves, whatever stands between them.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinators.groups.offset_codec import (
    CommittedOffset,
    check_value,
    commit_record,
    offset_tombstone,
    read_value,
)
from moldau.coordinators.groups.offset_commits import OffsetCommit, WantedOffset, prepare
from moldau.coordinators.groups.offsets import OffsetTable
from moldau.coordinators.machine import ProducerStamp, StateRecord
from moldau.types.errors import ErrorCode
from moldau.wire.primitives import DecodeError
from moldau.work.slices import at_once

TOPIC_IDS = {"a": UUID(int=1), "topic": UUID(int=2)}
PRODUCER = ProducerStamp(7, 0)


def record_of(group: str, topic: str, partition: int, offset: int | None, tail: bytes, metadata: str) -> StateRecord:
    if offset is None:
        return offset_tombstone(group, topic, partition)
    committed = CommittedOffset(offset, -1, metadata, 1000, -1, TOPIC_IDS[topic])
    key, value = commit_record(group, topic, partition, committed)
    return StateRecord(key + tail, value)


RECORDS = st.builds(
    record_of,
    group=st.sampled_from(["g", "gg", "ü"]),
    topic=st.sampled_from(sorted(TOPIC_IDS)),
    partition=st.sampled_from([0, 1, 300]),
    offset=st.none() | st.integers(0, 1 << 40),
    tail=st.sampled_from([b"", b"", b"\x00\x00\x00\x01"]),
    metadata=st.sampled_from(["", "", "here"]),
)
#: A record, and whether it is of the producer's transaction; or the end of it.
STEPS = st.tuples(RECORDS, st.sampled_from([False] * 4 + [True])) | st.booleans()


@given(st.lists(STEPS, max_size=30))
def test_the_short_way_leaves_what_the_careful_way_leaves(steps: list[tuple[StateRecord, bool] | bool]) -> None:
    short, careful = OffsetTable(), OffsetTable()
    for step in steps:
        if isinstance(step, bool):
            for table in (short, careful):
                table.replay_end_of_transaction(PRODUCER.producer_id, step)
            continue
        record, is_transactional = step
        producer = PRODUCER if is_transactional else None
        if is_transactional or not short.replay_plain(record.key, record.value):
            short.replay(record, producer)
        careful.replay(record, producer)
        assert short.committed == careful.committed
        assert short.pending == careful.pending
        assert short.groups() == careful.groups()


def test_the_short_way_is_taken_for_what_comes_by_the_million() -> None:
    table = OffsetTable()
    for partition in range(3):
        record = record_of("g", "topic", partition, 5, b"", "")
        assert table.replay_plain(record.key, record.value)
    assert {place.partition: each.offset for place, each in table.of_group("g")} == {0: 5, 1: 5, 2: 5}


def test_a_value_that_nobody_could_read_is_refused_while_it_is_loaded() -> None:
    key, _ = record_of("g", "topic", 0, 5, b"", "")
    table = OffsetTable()
    for value in (b"\x00\x05" + bytes(40), b"\x00\x04" + bytes(10)):
        with pytest.raises(DecodeError):
            table.replay_plain(key, value)
        with pytest.raises(DecodeError):
            table.replay(StateRecord(key, value), PRODUCER)
    assert table.groups() == set()


@given(RECORDS, st.integers(0, 60), st.integers(0, 255), st.integers(0, 60))
def test_what_is_taken_without_a_look_can_be_read_later(record: StateRecord, at: int, byte: int, size: int) -> None:
    if record.value is None:
        return
    damaged = bytearray(record.value)
    damaged[at % len(damaged)] = byte
    value = bytes(damaged[:size] if size > 2 else damaged)
    try:
        read_value(value)
    except DecodeError:
        with pytest.raises(DecodeError):
            check_value(value)
    else:
        check_value(value)


#: Offset and metadata, by topic and partition.
WANTED = st.dictionaries(
    st.sampled_from(sorted(TOPIC_IDS)),
    st.dictionaries(
        st.sampled_from([0, 1, 300]), st.tuples(st.integers(0, 1 << 40), st.sampled_from(["", "here"])), min_size=1
    ),
)


@given(st.lists(st.tuples(st.sampled_from(["g", "gg"]), WANTED, st.booleans()) | st.booleans(), max_size=20))
def test_taking_a_commit_at_once_leaves_what_replaying_its_records_leaves(
    steps: list[tuple[str, dict[str, dict[int, tuple[int, str]]], bool] | bool],
) -> None:
    at_commit, replayed = OffsetTable(), OffsetTable()
    for step in steps:
        if isinstance(step, bool):
            for table in (at_commit, replayed):
                table.replay_end_of_transaction(PRODUCER.producer_id, step)
            continue
        group, wanted, is_transactional = step
        offsets = [
            WantedOffset(topic, TOPIC_IDS[topic], partition, offset, -1, metadata)
            for topic, partitions in wanted.items()
            for partition, (offset, metadata) in partitions.items()
        ]
        ready = at_once(prepare(OffsetCommit(group, "", None, -1, 9, offsets), 1000, 100))
        assert ready.codes == [ErrorCode.NONE] * len(offsets)
        if is_transactional and offsets:
            at_commit.commit_in_transaction(PRODUCER.producer_id, group, ready.offsets)
        else:
            at_commit.commit(group, ready.offsets)
        for record in ready.records:
            replayed.replay(record, PRODUCER if is_transactional else None)
        assert at_commit.committed == replayed.committed
        assert at_commit.pending == replayed.pending
        assert at_commit.readers == replayed.readers

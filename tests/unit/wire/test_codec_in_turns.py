"""Messages about thousands of partitions are read and written with yields in between."""

from __future__ import annotations

import pytest

from moldau.wire.codec import ELEMENTS_PER_TURN, decode_in_turns, encode_in_turns
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

TOPICS, PARTITIONS = 20, 50


@pytest.mark.parametrize("version", [1, 8])
def test_a_yield_every_so_many_elements_whatever_array_they_are_in(version: int) -> None:
    topics = [
        ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=at) for at in range(PARTITIONS)])
        for _ in range(TOPICS)
    ]
    message = ListOffsetsRequest(topics=topics)
    elements = TOPICS + TOPICS * PARTITIONS
    writing = encode_in_turns(message, version)
    yields = 0
    while True:
        try:
            next(writing)
            yields += 1
        except StopIteration as stop:
            written = stop.value
            break
    assert yields == elements // ELEMENTS_PER_TURN
    assert sum(1 for _ in decode_in_turns(ListOffsetsRequest, version, written)) == yields


def test_a_message_without_structs_is_read_in_one_go() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    assert list(encode_in_turns(message, 4)) == []

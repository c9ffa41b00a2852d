"""The hand-packed Fetch answer equals what the codec writes, at every version."""

from __future__ import annotations

import random
from dataclasses import dataclass
from uuid import UUID

import pytest

from moldau.wire.codec import encode
from moldau.wire.fetch_answer import FetchedPartition, NodeEndpoint, pack_fetch_answer
from moldau.wire.framing import frame_response
from moldau.wire.messages import fetch as messages
from moldau.work.slices import at_once


@dataclass
class Records:
    data: bytes

    @property
    def length(self) -> int:
        return len(self.data)


def random_partition(index: int, version: int, rng: random.Random) -> FetchedPartition[Records]:
    return FetchedPartition(
        index=index,
        error=rng.choice((0, 0, 6)),
        high_watermark=rng.randrange(1 << 40),
        last_stable_offset=rng.randrange(1 << 40),
        log_start_offset=rng.randrange(1 << 20) if version >= 5 else -1,
        aborted=rng.choice((None, [], [(7, 1), (8, 2)])),
        preferred_replica=rng.choice((-1, 3)) if version >= 11 else -1,
        records=rng.choice((None, Records(b""), Records(rng.randbytes(5)), Records(rng.randbytes(300)))),
        diverging=rng.choice((None, (4, 99))) if version >= 12 else None,
        current_leader=rng.choice((None, (1, 5))) if version >= 12 else None,
    )


def as_message(partition: FetchedPartition[Records]) -> messages.PartitionData:
    aborted = partition.aborted
    return messages.PartitionData(
        partition_index=partition.index,
        error_code=partition.error,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=None
        if aborted is None
        else [messages.AbortedTransaction(producer_id=p, first_offset=f) for p, f in aborted],
        preferred_read_replica=partition.preferred_replica,
        records=partition.records.data if partition.records else b"",
        diverging_epoch=messages.EpochEndOffset(epoch=partition.diverging[0], end_offset=partition.diverging[1])
        if partition.diverging
        else None,
        current_leader=messages.LeaderIdAndEpoch(
            leader_id=partition.current_leader[0], leader_epoch=partition.current_leader[1]
        )
        if partition.current_leader
        else None,
    )


@pytest.mark.parametrize("version", range(4, 19))
def test_hand_packed_equals_codec(version: int) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        topics: list[tuple[UUID | str, list[FetchedPartition[Records]]]] = []
        for number in range(rng.randrange(3)):
            key: UUID | str = UUID(bytes=rng.randbytes(16)) if version >= 13 else f"topic-{number}"
            topics.append((key, [random_partition(index, version, rng) for index in range(rng.randrange(4))]))
        endpoints = (
            [NodeEndpoint(1, "host", 9092, None), NodeEndpoint(2, "h", 1, "rack")] if version >= 16 and seed % 2 else []
        )
        sessions = version >= 7
        error, session_id = (rng.choice((0, 70)), rng.randrange(100)) if sessions else (0, 0)
        pieces = at_once(
            pack_fetch_answer(
                version, 17, topics, throttle_ms=3, error=error, session_id=session_id, endpoints=endpoints
            )
        )
        packed = b"".join(piece if isinstance(piece, bytes) else piece.data for piece in pieces)
        message = messages.FetchResponse(
            throttle_time_ms=3,
            error_code=error,
            session_id=session_id,
            responses=[
                messages.FetchableTopicResponse(
                    topic=key if isinstance(key, str) else "",
                    topic_id=key if isinstance(key, UUID) else UUID(int=0),
                    partitions=[as_message(partition) for partition in partitions],
                )
                for key, partitions in topics
            ],
            node_endpoints=[
                messages.NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port, rack=n.rack) for n in endpoints
            ],
        )
        assert packed == frame_response(17, version >= 12, encode(message, version)), seed

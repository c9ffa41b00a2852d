"""Commits that the kernels pack are what the codec and the coordinator make of them, and both kernels say the same of
anything.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinators.groups.offset_commits import OffsetCommit, WantedOffset, prepare
from moldau.kernels import offsets as twin
from moldau.types.errors import ErrorCode
from moldau.wire.codec import encode
from moldau.wire.framing import frame_response
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.wire.primitives import string
from moldau.wire.records import build_keyed_batch
from moldau.work.slices import at_once
from tests.support import kernel_twins

NOW = 1_700_000_000_000
MOST, LONGEST_NOTE, ROOM_FOR_NOTES = 6, 200, 600
IDS = {"a": UUID(int=1), "topic": UUID(int=2)}
PARTITIONS = 3
FLEXIBLE_FROM, IDS_FROM, EPOCHS_FROM, INSTANCE_FROM, NO_RETENTION_FROM = 8, 10, 6, 7, 5


class Topics(dict[bytes, tuple[str, bytes, int] | None]):
    def __missing__(self, key: bytes) -> None:
        return None


TOPICS = Topics()
for topic_name, topic_id in IDS.items():
    TOPICS[topic_name.encode()] = TOPICS[topic_id.bytes] = (topic_name, topic_id.bytes, PARTITIONS)

agreed = partial(kernel_twins.agreed, twin)

ENTRIES = st.builds(
    OffsetCommitRequestPartition,
    partition_index=st.integers(0, PARTITIONS - 1),
    committed_offset=st.integers(-1, 2**63 - 1),
    committed_leader_epoch=st.integers(-1, 5),
    committed_metadata=st.sampled_from(["", "", None, "a note", "n" * 130]),
)
ASKED = st.builds(
    lambda name, entries: OffsetCommitRequestTopic(name=name, topic_id=IDS[name], partitions=entries),
    st.sampled_from(sorted(IDS)),
    st.lists(ENTRIES, min_size=1, max_size=2),
)
REQUESTS = st.builds(
    OffsetCommitRequest,
    group_id=st.sampled_from(["g", "", "gr\u00fcn", "g" * 200]),
    generation_id_or_member_epoch=st.integers(-1, 3),
    member_id=st.sampled_from(["", "member"]),
    group_instance_id=st.none() | st.just("instance"),
    topics=st.lists(ASKED, min_size=1, max_size=2),
)


def frame_of(request: OffsetCommitRequest, version: int, client: str | None = "client") -> bytes:
    head = b"\x00\x08" + version.to_bytes(2, "big") + (77).to_bytes(4, "big")
    head += b"\xff\xff" if client is None else string(client)
    return head + (b"\x00" if version >= FLEXIBLE_FROM else b"") + encode(request, version)


def packed(frame: bytes, version: int) -> tuple[object, ...] | None:
    found: tuple[object, ...] | None = agreed(
        "pack_commit", frame, version, TOPICS, NOW, MOST, LONGEST_NOTE, ROOM_FOR_NOTES
    )
    return found


@given(REQUESTS, st.integers(2, 10))
def test_a_packed_commit_is_what_the_coordinator_would_write_and_answer(
    request: OffsetCommitRequest, version: int
) -> None:
    if version < INSTANCE_FROM:
        request.group_instance_id = None
    result = packed(frame_of(request, version), version)
    assert result is not None
    wanted = [
        WantedOffset(
            topic.name,
            IDS[topic.name],
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch if version >= EPOCHS_FROM else -1,
            each.committed_metadata,
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    ready = at_once(prepare(OffsetCommit(request.group_id, "", None, -1, version, wanted), NOW, 1000))
    group, generation, member, instance, batch, answer, offsets, count = result
    assert (group, generation, member, instance) == (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
    )
    keys, values = zip(*ready.records, strict=True)
    assert (batch, offsets, count) == (build_keyed_batch(keys, values, NOW), ready.offsets, len(wanted))
    assert answer == frame_response(77, version >= FLEXIBLE_FROM, encode(answer_to(request), version))


def answer_to(request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=ErrorCode.NONE)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@given(REQUESTS, st.integers(2, 10), st.data())
def test_both_kernels_say_the_same_of_damaged_requests(
    request: OffsetCommitRequest, version: int, choice: st.DataObject
) -> None:
    if version < INSTANCE_FROM:
        request.group_instance_id = None
    frame = bytearray(frame_of(request, version))
    for _ in range(choice.draw(st.integers(0, 3))):
        frame[choice.draw(st.integers(4, len(frame) - 1))] = choice.draw(st.integers(0, 255))
    end = choice.draw(st.integers(0, len(frame)) | st.just(len(frame)))
    packed(bytes(frame[:end]) + choice.draw(st.sampled_from([b"", b"", b"\0", b"\xff" * 9])), version)


@given(st.binary(max_size=80), st.integers(2, 10))
def test_both_kernels_say_the_same_of_noise(frame: bytes, version: int) -> None:
    packed(frame, version)


def one(**changed: object) -> OffsetCommitRequest:
    fields: dict[str, object] = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    names = {name: changed.pop(name) for name in tuple(changed) if name in fields}
    entry = OffsetCommitRequestPartition(**{**fields, **names})  # type: ignore[arg-type]
    topic = OffsetCommitRequestTopic(name="a", topic_id=IDS["a"], partitions=[entry])
    return OffsetCommitRequest(**{"group_id": "g", "topics": [topic], **changed})  # type: ignore[arg-type]


def test_what_is_not_common_is_left_to_the_long_way() -> None:
    unknown = OffsetCommitRequestTopic(name="?", topic_id=UUID(int=9), partitions=one().topics[0].partitions)
    for version in range(2, 11):
        assert packed(frame_of(one(), version), version) is not None
        assert packed(frame_of(one(), version, client=None), version) is not None
        refused = [
            one(partition_index=PARTITIONS),
            one(partition_index=-1),
            one(committed_metadata="\u00fc"),
            one(committed_metadata="n" * (LONGEST_NOTE + 1)),
            one(topics=[unknown]),
            one(topics=[]),
            one(topics=[OffsetCommitRequestTopic(name="a", topic_id=IDS["a"])]),
            one(topics=one().topics * (MOST + 1)),
            one(topics=one(committed_metadata="n" * LONGEST_NOTE).topics * 4),
        ]
        if version < NO_RETENTION_FROM:
            refused.append(one(retention_time_ms=5))
        for request in refused:
            assert packed(frame_of(request, version), version) is None
        assert packed(frame_of(one(), version) + b"\0", version) is None
        assert packed(frame_of(one(), version, client="\u00fc"), version) is None

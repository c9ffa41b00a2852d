"""Many offsets are committed and fetched a part at a time: each part is a write or a read of its own, and everybody
else is served in between. The offsets of a request are judged one by one anyway. A commit is one batch, as Apache Kafka
writes it, as long as that keeps nobody waiting for long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.groups.offset_commits import (
    FetchedOffset,
    FetchedTopic,
    OffsetFetch,
    PreparedOffsets,
    WantedOffset,
    WantedTopic,
)
from moldau.coordinators.machine import Write
from moldau.server.coordination.futures import answer_of
from moldau.server.coordination.service import CoordinatorService
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

#: More are looked at in turns.
OFFSETS_AT_ONCE = 64
OFFSETS_PER_BATCH = 1_000
#: A batch takes offsets up to here, far below what a log takes, and one more: they may carry long notes.
METADATA_PER_BATCH = 128 * 1024
OFFSETS_PER_FETCH = 64

Committed = Deferred[list[ErrorCode]]
Prepare = Callable[[Sequence[WantedOffset]], Work[PreparedOffsets]]
Commit = Callable[[GroupMachine, float, Sequence[WantedOffset], PreparedOffsets], Write[list[ErrorCode]]]


async def commit_in_parts(
    groups: CoordinatorService[GroupMachine],
    group_id: str,
    offsets: Sequence[WantedOffset],
    prepare: Prepare,
    commit: Commit,
) -> list[ErrorCode]:
    """A code for each offset. A part that is refused as a whole has that code at each of its offsets."""
    parts = await run(_cut(offsets))
    codes: list[ErrorCode] = []
    for part, begun in zip(parts, await run(_begin_all(groups, group_id, parts, prepare, commit)), strict=True):
        try:
            if isinstance(begun, KafkaError):
                raise begun
            found: list[ErrorCode] = await answer_of(begun)
            codes += found
        except KafkaError as error:
            codes += [error.code] * len(part)
    return codes


def _cut(offsets: Sequence[WantedOffset]) -> Work[list[Sequence[WantedOffset]]]:
    paused = pauses()
    parts: list[Sequence[WantedOffset]] = []
    begin = metadata = 0
    for end, offset in enumerate(offsets, start=1):
        metadata += len(offset.metadata or "")
        if end - begin == OFFSETS_PER_BATCH or metadata > METADATA_PER_BATCH or end == len(offsets):
            parts.append(offsets[begin:end])
            begin, metadata = end, 0
        if next(paused):
            yield
    return parts


def _begin_all(
    groups: CoordinatorService[GroupMachine],
    group_id: str,
    parts: Sequence[Sequence[WantedOffset]],
    prepare: Prepare,
    commit: Commit,
) -> Work[list[Committed | KafkaError]]:
    begun: list[Committed | KafkaError] = []
    for part in parts:
        prepared = yield from prepare(part)
        yield
        try:
            begun.append(
                groups.write(
                    group_id,
                    lambda machine, now, part=part, prepared=prepared: commit(machine, now, part, prepared),  # type: ignore[misc]
                )
            )
        except KafkaError as error:
            begun.append(error)
        yield
    return begun


async def fetch_in_parts(groups: CoordinatorService[GroupMachine], fetch: OffsetFetch) -> list[FetchedTopic]:
    """Raises KafkaError, as the coordinator does for the group as a whole."""
    wanted = fetch.topics
    if wanted is None:
        wanted = await answer_of(groups.read(fetch.group_id, lambda machine, _: machine.offsets.committed(fetch)))
    begun = await run(_begin_fetches(groups, fetch, wanted))
    found: list[FetchedTopic] = []
    for topic, parts in begun:
        partitions: list[FetchedOffset] = []
        for part in parts:
            (fetched,) = await answer_of(part)
            partitions += fetched.partitions
        found.append(FetchedTopic(topic, partitions))
    return found


def _begin_fetches(
    groups: CoordinatorService[GroupMachine], fetch: OffsetFetch, wanted: Sequence[WantedTopic]
) -> Work[list[tuple[str, list[Deferred[list[FetchedTopic]]]]]]:
    paused = pauses()
    begun = []
    for topic in wanted:
        parts = []
        for start in range(0, len(topic.partitions), OFFSETS_PER_FETCH):
            part = topic._replace(partitions=topic.partitions[start : start + OFFSETS_PER_FETCH])
            one = fetch._replace(topics=[part])
            parts.append(groups.read(fetch.group_id, lambda machine, _, one=one: machine.offsets.fetch(one)))  # type: ignore[misc]
            if len(part.partitions) == OFFSETS_PER_FETCH or next(paused):
                yield
        begun.append((topic.topic, parts))
    return begun

"""Hundreds of offsets are committed and fetched a part at a time: each part is a write or a read of its own, and
everybody else is served in between. The offsets of a request are judged one by one anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.machine import GroupMachine
from moldau.coordinators.groups.offset_commits import (
    FetchedOffset,
    FetchedTopic,
    OffsetFetch,
    WantedOffset,
    WantedTopic,
)
from moldau.coordinators.machine import Write
from moldau.server.coordination.futures import answer_of
from moldau.server.coordination.service import CoordinatorService
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.turns import Work, pauses, run

OFFSETS_PER_PART = 64

Committed = Deferred[list[ErrorCode]]
Commit = Callable[[GroupMachine, float, Sequence[WantedOffset]], Write[list[ErrorCode]]]


async def commit_in_parts(
    groups: CoordinatorService[GroupMachine], group_id: str, offsets: Sequence[WantedOffset], commit: Commit
) -> list[ErrorCode]:
    """A code for each offset. A part that is refused as a whole has that code at each of its offsets."""
    parts = [offsets[start : start + OFFSETS_PER_PART] for start in range(0, len(offsets), OFFSETS_PER_PART)]
    codes: list[ErrorCode] = []
    for part, begun in zip(parts, await run(_begin_all(groups, group_id, parts, commit)), strict=True):
        try:
            if isinstance(begun, KafkaError):
                raise begun
            found: list[ErrorCode] = await answer_of(begun)
            codes += found
        except KafkaError as error:
            codes += [error.code] * len(part)
    return codes


def _begin_all(
    groups: CoordinatorService[GroupMachine], group_id: str, parts: Sequence[Sequence[WantedOffset]], commit: Commit
) -> Work[list[Committed | KafkaError]]:
    begun: list[Committed | KafkaError] = []
    for part in parts:
        try:
            begun.append(groups.write(group_id, lambda machine, now, part=part: commit(machine, now, part)))  # type: ignore[misc]
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
        for start in range(0, len(topic.partitions), OFFSETS_PER_PART):
            part = topic._replace(partitions=topic.partitions[start : start + OFFSETS_PER_PART])
            one = fetch._replace(topics=[part])
            parts.append(groups.read(fetch.group_id, lambda machine, _, one=one: machine.offsets.fetch(one)))  # type: ignore[misc]
            if len(part.partitions) == OFFSETS_PER_PART or next(paused):
                yield
        begun.append((topic.topic, parts))
    return begun

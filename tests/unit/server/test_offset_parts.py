"""How many writes a commit becomes: one, as Apache Kafka writes it, up to a thousand offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.offset_commits import OffsetCommit, PreparedOffsets, WantedOffset, prepare
from moldau.coordinators.machine import Write
from moldau.server.coordination.offset_parts import METADATA_PER_BATCH, OFFSETS_PER_BATCH, commit_in_parts
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work


class Groups:
    """A coordinator whose log takes what it is given at once, unless a write is to be refused."""

    def __init__(self, refused_write: int | None = None) -> None:
        self.writes: list[int] = []
        self._refused_write = refused_write

    def write(self, group_id: str, operation: Callable[[Any, float], Write[list[ErrorCode]]]) -> Deferred[Any]:
        written = operation(None, 0.0)
        self.writes.append(len(cast(Any, written.answer)))
        if len(self.writes) - 1 == self._refused_write:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        deferred: Deferred[Any] = Deferred()
        deferred.succeed(written.answer)
        return deferred


def commit(groups: Groups, count: int, metadata: str = "") -> list[ErrorCode]:
    offsets = [WantedOffset("t", UUID(int=1), index, 5, -1, metadata) for index in range(count)]

    def prepared(part: Sequence[WantedOffset]) -> Work[PreparedOffsets]:
        return prepare(OffsetCommit("g", "", None, -1, 9, part), 0, 4096)

    return asyncio.run(
        commit_in_parts(cast(Any, groups), "g", offsets, prepared, lambda _, __, part, ready: Write(ready.codes))
    )


@pytest.mark.parametrize("count", [1, 64, 1000])
def test_a_commit_is_one_batch(count: int) -> None:
    groups = Groups()
    assert commit(groups, count) == [ErrorCode.NONE] * count
    assert groups.writes == [count]


def test_no_batch_is_too_large_for_the_log() -> None:
    groups = Groups()
    assert commit(groups, 100, "x" * 4000) == [ErrorCode.NONE] * 100
    assert sum(groups.writes) == 100
    assert 1 < max(groups.writes) < METADATA_PER_BATCH // 4000 + 2


def test_what_would_hold_the_loop_is_written_in_parts_which_are_refused_alone() -> None:
    groups = Groups(refused_write=1)
    codes = commit(groups, 2 * OFFSETS_PER_BATCH + 1)
    assert groups.writes == [OFFSETS_PER_BATCH, OFFSETS_PER_BATCH, 1]
    refused = [ErrorCode.NOT_COORDINATOR] * OFFSETS_PER_BATCH
    assert codes == [ErrorCode.NONE] * OFFSETS_PER_BATCH + refused + [ErrorCode.NONE]

"""What becomes of a leader's proposals: those that are refused are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metrics import Counter
from moldau.replication.leader import IsrChange
from moldau.server.peers.peer import PeerLostError
from moldau.server.replicas.isr_changes import IsrChanges
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from tests.support.loops import on_loop, until

CHANGE = IsrChange(UUID(int=1), 0, 1, 1, ((1, 5),))


class Led:
    """A partition with a proposal, and what it was told of it."""

    topic_partition = TopicPartition("t", 0)

    def __init__(self) -> None:
        self.pending: IsrChange | None = CHANGE
        self.told: list[ErrorCode | None] = []

    @property
    def leadership(self) -> Led:
        return self

    def isr_answered(self, _change: IsrChange, code: ErrorCode) -> bool:
        self.told.append(code)
        self.pending = None
        return False

    def isr_unanswered(self, _change: IsrChange) -> None:
        self.told.append(None)


@pytest.mark.parametrize(("code", "counted"), [(ErrorCode.NONE, 0), (ErrorCode.INELIGIBLE_REPLICA, 1)])
@on_loop
async def test_refusals_are_counted(code: ErrorCode, counted: int) -> None:
    asked: list[Sequence[IsrChange]] = []

    async def controller(changes: Sequence[IsrChange]) -> Sequence[ErrorCode]:
        asked.append(changes)
        if len(asked) == 1:
            raise PeerLostError("it has just died")
        return [code]

    led, refused = Led(), Counter()
    changes = IsrChanges(controller, (), refused)
    changes.propose(cast(Any, led), CHANGE)
    await until(lambda: code in led.told)
    await changes.stop()
    assert (led.told, refused.value) == ([None, code], counted), "no answer is no refusal"

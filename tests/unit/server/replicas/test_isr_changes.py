"""What becomes of a leader's proposals: those that are refused are counted."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metadata.store import StoreError
from moldau.metrics import Counter
from moldau.replication.leader import IsrChange
from moldau.server.peers.peer import PeerLostError
from moldau.server.replicas.isr_changes import IsrChanges
from moldau.server.replicas.replication import Replication
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


@pytest.mark.parametrize(
    "error",
    [PeerLostError("it has just died"), RuntimeError("a mistake of ours")],
    ids=["no answer", "a mistake"],
)
@pytest.mark.parametrize(("code", "counted"), [(ErrorCode.NONE, 0), (ErrorCode.INELIGIBLE_REPLICA, 1)])
@on_loop
async def test_refusals_are_counted(code: ErrorCode, counted: int, error: Exception) -> None:
    asked: list[Sequence[IsrChange]] = []

    async def controller(changes: Sequence[IsrChange]) -> Sequence[ErrorCode]:
        asked.append(changes)
        if len(asked) == 1:
            raise error
        return [code]

    led, refused = Led(), Counter()
    changes = IsrChanges(controller, (), refused)
    changes.propose(cast(Any, led), CHANGE)
    await until(lambda: code in led.told)
    await changes.stop()
    assert (led.told, refused.value) == ([None, code], counted), "no answer is no refusal"


@on_loop
async def test_a_store_that_is_away_leaves_a_proposal_of_the_controllers_own_undecided() -> None:
    async def away(*_: object) -> None:
        raise StoreError("no connection")

    decides = SimpleNamespace(is_active=True, alter_partition=away)
    replication = SimpleNamespace(_controller=decides, _broker_id=1, _broker_epoch=lambda: 5)
    replication._decide = lambda changes: Replication._decide(cast(Any, replication), changes)
    with pytest.raises(PeerLostError):
        await Replication._alter_partitions(cast(Any, replication), [CHANGE])

"""Changes of a sink's state that meet: each pauses for a time of its own before it tries again."""

from __future__ import annotations

from typing import Any, cast

import pytest

from moldau.client.cluster import Cluster
from moldau.client.errors import Fenced
from moldau.spark.writing.identity import SinkIdentity
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.markers import SinkState
from moldau.spark.writing.sink_state import (
    CHANGE_ATTEMPTS,
    CHANGE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    NO_MARKERS,
    SinkRegister,
)
from moldau.types.errors import ErrorCode, KafkaError

WANTED = SinkState(batch=1, run="run", tasks=1, open=True)


class DisturbedTransactions:
    def __init__(self, disturbances: int) -> None:
        self.left = disturbances

    def start(self) -> None:
        """Nobody else is seen yet."""

    def commit_offsets(self, *_: Any) -> None:
        if self.left:
            self.left -= 1
            raise Fenced("somebody else came in between")

    def end(self, commit: bool) -> None:
        assert commit


class EmptyStore:
    def make_room(self, task: int) -> None:
        """There is."""

    def state(self) -> None:
        return None


class UnstableStore(EmptyStore):
    """Somebody's change is under way whenever one looks, until it is ended."""

    def __init__(self) -> None:
        self.patience: list[float | None] = []

    def state(self, seconds: float | None = None) -> None:
        self.patience.append(seconds)
        if seconds is not None:
            raise KafkaError(ErrorCode.UNSTABLE_OFFSET_COMMIT)


class Register(SinkRegister):
    def __init__(self, disturbances: int, fraction: float, store: EmptyStore | None = None) -> None:
        self.pauses: list[float] = []
        self.disturbed = DisturbedTransactions(disturbances)
        super().__init__(
            cast("Cluster", None), SinkIdentity("prefix", "query", "sink"), cast("MarkerStore", store or EmptyStore()),
            1000, lambda: 0.0, self.pauses.append, lambda: fraction,
        )  # fmt: skip

    def _transactions(self, transactional_id: str) -> Any:
        return self.disturbed


def test_a_change_that_nobody_disturbs_does_not_pause() -> None:
    register = Register(0, fraction=0.5)
    assert register.change(lambda state: (WANTED, NO_MARKERS)) == WANTED
    assert register.pauses == []


def test_a_change_that_is_disturbed_pauses_for_a_share_of_a_growing_time() -> None:
    register = Register(3, fraction=0.5)
    assert register.change(lambda state: (WANTED, NO_MARKERS)) == WANTED
    assert register.pauses == pytest.approx([0.0025, 0.005, 0.01])


def test_a_change_that_is_always_disturbed_ends() -> None:
    register = Register(CHANGE_ATTEMPTS, fraction=1.0)
    with pytest.raises(Fenced, match="could not be changed"):
        register.change(lambda state: (WANTED, NO_MARKERS))
    assert max(register.pauses) == LONGEST_PAUSE_SECONDS


def test_each_change_that_is_ended_for_being_slow_gives_the_next_one_more_time() -> None:
    store = UnstableStore()
    register = Register(0, fraction=0.5, store=store)
    for _ in range(3):
        assert register.state() is None
    assert store.patience == [CHANGE_SECONDS, None, 2 * CHANGE_SECONDS, None, 4 * CHANGE_SECONDS, None]

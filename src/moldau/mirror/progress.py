"""What a flow knows of itself: its topics, which lanes it has, how each partition stands. Shared by its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moldau.kernels import murmur2
from moldau.mirror.topics import Pair, Survey
from moldau.types.ids import NO_OFFSET, TopicPartition

LANES: Final = 16
"""A lane is a transactional id and the partitions that belong to it, whoever copies them. The number is part of what
is stored in the target: another one would let two workers copy the same partition under two ids."""
RETRY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Clocks:
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def now_ms(self) -> int:
        return int(self.wall() * 1000)


class State(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    """It stands still, and says why; it is tried again every half minute."""


def lane_of(place: TopicPartition) -> int:
    return (murmur2(place.topic.encode()) + place.partition) % LANES


def transactional_id(flow: str, lane: int) -> str:
    return f"moldau-mirror-{flow}-{lane}"


@dataclass(slots=True)
class Progress:
    """One partition. Written by the thread that copies it."""

    place: TopicPartition
    remote: str
    state: State = State.STARTING
    reason: str = ""
    position: int = NO_OFFSET
    """Next offset of the source that is not yet committed in the target."""
    end: int = NO_OFFSET
    records: int = 0
    size: int = 0
    lost: int = 0
    """Offsets that the source had deleted before they were copied."""
    restarts: int = 0
    """How often it began anew, since a topic was another one than before."""
    room: int = 0
    """The largest batch that the target has been seen to take; 0 for the setting's."""
    retry_at: float = 0.0
    copied_at: float | None = None

    @property
    def lag(self) -> int | None:
        return max(0, self.end - self.position) if self.end >= 0 and self.position >= 0 else None

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "remote": self.remote,
            "state": str(self.state),
            "reason": self.reason,
            "position": self.position,
            "end": self.end,
            "lag": self.lag,
            "records": self.records,
            "bytes": self.size,
            "lost": self.lost,
            "restarts": self.restarts,
        }


@dataclass(slots=True)
class Shared:
    """What the threads of one flow tell each other."""

    clocks: Clocks = Clocks()
    stopping: threading.Event = field(default_factory=threading.Event)
    look_now: threading.Event = field(default_factory=threading.Event)
    """Somebody has found a topic gone: the next look at the topics shall not wait for its turn."""
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    lanes: frozenset[int] = frozenset()
    partitions: dict[TopicPartition, Progress] = field(default_factory=dict)
    transactions: int = 0
    resets: int = 0
    heartbeats: int = 0
    checkpoints: int = 0
    groups: int = 0
    error: str = ""
    """What keeps the whole flow from going on; empty while it does."""
    refused: str = ""
    """Why the other workers of the flow let this one copy nothing."""

    @property
    def leads(self) -> bool:
        """One worker looks after topics, groups and heartbeats: the one that has the first lane."""
        return 0 in self.lanes

    def found(self, survey: Survey) -> None:
        self.pairs, self.problems = survey.pairs, survey.problems
        wanted = {
            TopicPartition(pair.source, index) for pair in survey.pairs.values() for index in range(pair.partitions)
        }
        for place in [place for place in self.partitions if place not in wanted]:
            self.partitions.pop(place, None)

    def mine(self, lanes: Callable[[int], bool]) -> dict[TopicPartition, Pair]:
        """The partitions of those lanes that this worker has."""
        owned = {lane for lane in self.lanes if lanes(lane)}
        return {
            place: pair
            for pair in self.pairs.values()
            for index in range(pair.partitions)
            if lane_of(place := TopicPartition(pair.source, index)) in owned
        }

    def progress(self, place: TopicPartition, pair: Pair) -> Progress:
        return self.partitions.setdefault(place, Progress(place, pair.remote))

    def _state(self, failed: int, partitions: int) -> str:
        if self.error or self.refused or (failed and failed == partitions):
            return "FAILED"
        return "DEGRADED" if failed or self.problems else "RUNNING"

    def as_json(self, name: str) -> dict[str, Any]:
        partitions = sorted(self.partitions.values(), key=lambda each: each.place)
        lags = [each.lag for each in partitions if each.lag is not None]
        failed = sum(each.state is State.FAILED for each in partitions)
        return {
            "flow": name,
            "state": self._state(failed, len(partitions)),
            "error": self.refused or self.error,
            "lanes": sorted(self.lanes),
            "lag": sum(lags),
            "records": sum(each.records for each in partitions),
            "bytes": sum(each.size for each in partitions),
            "transactions": self.transactions,
            "resets": self.resets,
            "heartbeats": self.heartbeats,
            "checkpoints": self.checkpoints,
            "groups": self.groups,
            "topics": {name: pair.remote for name, pair in sorted(self.pairs.items())},
            "problems": dict(self.problems),
            "partitions": [each.as_json() for each in partitions],
        }

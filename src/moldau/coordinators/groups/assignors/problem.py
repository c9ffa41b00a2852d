"""What an assignor is given."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

#: Partitions by topic id.
Assignment = Mapping[UUID, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    member_id: str
    instance_id: str | None
    #: Topics that exist.
    topics: frozenset[UUID]
    #: What it was meant to have so far.
    current: Assignment


#: From subscribers and the number of partitions of each topic, in the order in which topics are to be dealt out.
#: Every subscriber is in the answer. Groups may be large: it yields now and then.
Assignor = Callable[[Sequence[Subscriber], Mapping[UUID, int]], Generator[None, None, dict[str, Assignment]]]

"""Who writes: the names under which a sink's tasks and their markers are known to the cluster. Pure.

transactional id of a task    <prefix>/<query>/<sink>/<task>
transactional id of the sink  <prefix>/<query>/<sink>/sink
group with the markers        __moldau_sink/<prefix>/<query>/<sink>
its partitions                those of the topic __moldau_sink_markers: 0 for the sink's state, task + 1 for a task
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from moldau.types.internal_topics import OWN_PREFIX

MARKER_TOPIC: Final = f"{OWN_PREFIX}_sink_markers"
GROUP_PREFIX: Final = f"{OWN_PREFIX}_sink/"
DEFAULT_PREFIX: Final = "moldau"
SINK_OF_TOPIC_COLUMN: Final = "topic-column"
STATE_PARTITION: Final = 0
SINK_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")


@dataclass(frozen=True, slots=True)
class SinkIdentity:
    prefix: str
    query: str
    sink: str

    @property
    def group(self) -> str:
        return f"{GROUP_PREFIX}{self.prefix}/{self.query}/{self.sink}"

    @property
    def state_transactional_id(self) -> str:
        return f"{self.prefix}/{self.query}/{self.sink}/sink"

    def transactional_id(self, task: int) -> str:
        return f"{self.prefix}/{self.query}/{self.sink}/{task}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to run one task of one batch."""

    run: str
    """The run of the query: a restart is another run."""
    write: str
    """The write within the run: the second write of one foreachBatch is another."""
    batch: int
    task: int


def marker_partition(task: int) -> int:
    return task + 1


def default_sink_id(topic: str | None) -> str:
    """Derived from the target, so that two sinks of one query differ unless they write to the same place."""
    return SINK_OF_TOPIC_COLUMN if topic is None else topic


def room_for(task: int) -> int:
    """How many tasks a sink makes room for when this one comes: powers of two, so that it grows seldom."""
    room = 1
    while room <= task:
        room *= 2
    return room

"""How flows stand, read off the clusters, wherever their workers run; and positions taken away, to begin anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.client.states import COMMITTED, EARLIEST, LATEST, StateReader, offsets_at
from moldau.kernels import murmur2
from moldau.mirror import topics
from moldau.mirror.copying import POSITIVE
from moldau.mirror.formats import Heartbeat, Position
from moldau.mirror.progress import Clocks, lane_of, transactional_id
from moldau.mirror.settings import Flow
from moldau.mirror.writing import Outgoing, Writer, records_piece
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record

CLOCKS: Final = Clocks()


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition of a flow."""

    topic: str
    partition: int
    remote: str
    position: int | None
    """Next offset to be copied; None where nothing was stored yet."""
    end: int
    lag: int
    state: str
    """CURRENT, BEHIND, NEW (nothing is stored yet), CUT (the source has deleted what was not copied), or OTHER (the
    position belongs to another topic, which was deleted)."""


@dataclass(frozen=True, slots=True)
class FlowStanding:
    flow: str
    problems: dict[str, str]
    partitions: tuple[Standing, ...]
    heartbeat_age_ms: int | None
    """How old the newest heartbeat of this pair in the target is; None without one."""

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "lag": self.lag,
            "heartbeat_age_ms": self.heartbeat_age_ms,
            "problems": self.problems,
            "partitions": [asdict(each) for each in self.partitions],
        }


def standing(flow: Flow, loops: Iterable[Flow] = (), clocks: Clocks = CLOCKS) -> FlowStanding:
    with (
        Cluster(ClientSettings.from_properties(flow.reading)) as source,
        Cluster(ClientSettings.from_properties(flow.writing)) as target,
    ):
        found = topics.survey(flow, source, target, leads=False, loops=loops)
        places = {
            TopicPartition(pair.source, index): pair
            for pair in found.pairs.values()
            for index in range(pair.partitions)
        }
        stored = positions(flow, target)
        firsts = offsets_at(source, places, EARLIEST)
        ends = offsets_at(source, places, LATEST, COMMITTED)
        rows = [
            judged(place, pair, stored.get(place), firsts[place], ends[place]) for place, pair in sorted(places.items())
        ]
        return FlowStanding(flow.name, dict(found.problems), tuple(rows), heartbeat_age(flow, target, clocks.now_ms()))


def judged(place: TopicPartition, pair: topics.Pair, stored: Position | None, first: int, end: int) -> Standing:
    position = None if stored is None else stored.next_offset
    if stored is None or position is None:
        state, lag = "NEW" if end > first else "CURRENT", end - first
    elif stored.source_id not in (None, pair.source_id) or stored.target_id not in (None, pair.remote_id):
        state, lag = "OTHER", end - first
    elif position < first:
        state, lag = "CUT", end - first
    else:
        lag = max(0, end - position)
        state = "BEHIND" if lag else "CURRENT"
    return Standing(place.topic, place.partition, pair.remote, position, end, lag, state)


def positions(flow: Flow, target: Cluster) -> dict[TopicPartition, Position]:
    found: dict[TopicPartition, Position] = {}
    if not topics.looked_up(target, [flow.positions_topic]):
        return found
    for record in StateReader(target, flow.positions_topic).new():
        if record.key is None:
            continue
        position = Position.read(flow.source, record.key, record.value or b'{"offset":0}', record.headers)
        if position is None:
            continue
        if record.value is None:
            found.pop(position.place, None)
        else:
            found[position.place] = position
    return found


def heartbeat_age(flow: Flow, target: Cluster, now_ms: int) -> int | None:
    if not topics.looked_up(target, ["heartbeats"]):
        return None
    newest = None
    for record in StateReader(target, "heartbeats", [0]).new():
        if record.key is not None and record.value is not None:
            beat = Heartbeat.read(record.key, record.value)
            if (beat.source, beat.target) == (flow.source, flow.target):
                newest = max(newest or 0, beat.time_ms)
    return None if newest is None else max(0, now_ms - newest)


def store(flow: Flow, changes: Iterable[Position | TopicPartition], clocks: Clocks = CLOCKS) -> None:
    """Writes positions, or takes away those of bare partitions, under their lanes' transactional ids: a worker that
    copies now is locked out, and finds the change when it comes back."""
    by_lane: dict[int, list[Record]] = {}
    now = clocks.now_ms()
    for change in changes:
        if isinstance(change, Position):
            record = Record(change.value(), change.key(flow.source), now, change.headers())
            by_lane.setdefault(lane_of(change.place), []).append(record)
        else:
            gone = Position(change, 0).key(flow.source)
            by_lane.setdefault(lane_of(change), []).append(Record(None, gone, now))
    with Cluster(ClientSettings.from_properties(flow.writing)) as target:
        topics.ensure_internal(
            target, flow.positions_topic, flow.number("offset.storage.partitions"),
            flow.number("offset.storage.replication.factor"),
        )  # fmt: skip
        partitions = len(target.topic(flow.positions_topic).partitions)
        for lane, records in by_lane.items():
            writer = Writer(
                target, transactional_id(flow.name, lane), flow.number("copy.transaction.timeout.ms"), clocks.monotonic
            )
            writer.open()
            by_partition: dict[int, list[Record]] = {}
            for record in records:
                by_partition.setdefault((murmur2(record.key or b"") & POSITIVE) % partitions, []).append(record)
            writer.write(
                Outgoing(TopicPartition(flow.positions_topic, index), records_piece(each))
                for index, each in by_partition.items()
            )
            writer.commit()

"""The way back to a cluster that failed, where names are kept: what it has already is not copied to it again.

With `DefaultReplicationPolicy` copies have names of their own, and nothing needs to be done. With
`IdentityReplicationPolicy` the standby's topic holds the copies and, behind them, what was written there since. Copied
back from its beginning it would double everything; so it is refused until a position says where the standby's own
records begin.

That is behind the last copy, which the position of the way forth tells. Positions of former versions do not: offset
syncs do then, unless the last of them were lost when the cluster failed.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.client.states import COMMITTED, EARLIEST, LATEST, StateReader, offsets_at
from moldau.mirror.formats import OffsetSync, Position
from moldau.mirror.settings import Flow
from moldau.mirror.topics import Survey, survey
from moldau.mirror.watching import positions
from moldau.types.ids import TopicPartition


class CannotReturn(ValueError):
    """Nobody knows where a standby's own records begin."""


@dataclass(frozen=True, slots=True)
class Return:
    """One partition on its way back."""

    position: Position
    """Where the standby's own records begin."""
    own: int
    """So many offsets are its own."""
    left_behind: int
    """So many of the cluster that failed were never copied to the standby; they stay where they are."""


def would_double(back: Flow, forth: Flow, found: Survey, source: Cluster, target: Cluster) -> dict[str, str]:
    """Topics of `back` that `forth` has filled, and that have no position yet; with what to do."""
    if not (back.policy.keeps_names and forth.policy.keeps_names):
        return {}
    filled = {place.topic for place in positions(forth, source)}
    placed = {place.topic for place in positions(back, target)}
    return {
        name: f"{forth.name} has filled it: copied back from its beginning it would be there twice. "
        f"`moldau mirror go-back FILE '{back.name}'` begins behind the copies"
        for name, pair in found.pairs.items()
        if pair.source == pair.remote and name in filled - placed
    }


def returns(back: Flow, forth: Flow) -> list[Return]:
    """What `go-back` stores. Both clusters are asked. Raises CannotReturn."""
    with (
        Cluster(ClientSettings.from_properties(back.reading)) as standby,
        Cluster(ClientSettings.from_properties(back.writing)) as home,
    ):
        found_pairs = survey(back, standby, home, leads=False).pairs
        pairs = {name: pair for name, pair in found_pairs.items() if pair.source == pair.remote}
        copied = {place: each for place, each in positions(forth, standby).items() if place.topic in pairs}
        begins = {place: each.target_end for place, each in copied.items() if each.target_end is not None}
        if len(begins) < len(copied):
            syncs = last_syncs(forth, standby if forth.syncs_in_target else home)
            begins |= {
                place: end_by(syncs.get(place), each, home) for place, each in copied.items() if place not in begins
            }
        standby_ends = offsets_at(standby, copied, LATEST, COMMITTED)
        home_ends = offsets_at(home, copied, LATEST, COMMITTED)
    return [
        Return(
            Position(place, begins[place], pairs[place.topic].source_id, pairs[place.topic].remote_id),
            max(0, standby_ends[place] - begins[place]),
            max(0, home_ends[place] - position.next_offset),
        )
        for place, position in sorted(copied.items())
    ]


def end_by(sync: OffsetSync | None, position: Position, home: Cluster) -> int:
    """Where the copies end by the last sync, if there is nothing between it and the position that could be a copy."""
    place = position.place
    told = 0 if sync is None else sync.upstream + sync.run
    if told < position.next_offset:
        first = offsets_at(home, [place], EARLIEST)[place]
        reader = StateReader(home, place.topic, [place.partition], {place.partition: max(told, first)})
        behind = next(iter(reader.new()), None)
        if first > told or (behind is not None and behind.offset < position.next_offset):
            raise CannotReturn(
                f"{place} was copied up to offset {position.next_offset}, but the offset syncs reach to {told} only: "
                "the others were lost with the cluster that failed, or its topic has deleted what they were of. Nobody "
                "knows where the standby's own records begin; copied back they would be there twice. Copy what is "
                "missing by hand, or give the topic another name"
            )
    return 0 if sync is None else sync.downstream + sync.run


def last_syncs(flow: Flow, keeper: Cluster) -> dict[TopicPartition, OffsetSync]:
    found: dict[TopicPartition, OffsetSync] = {}
    for record in StateReader(keeper, flow.syncs_topic, [0]).new():
        if record.key is not None and record.value is not None:
            sync = OffsetSync.read(record.key, record.value, record.headers)
            found[sync.place] = sync
    return found

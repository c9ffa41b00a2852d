"""The thread that copies: partitions by lanes, each lane in transactions that hold records and positions together.

A lane goes through these states:

    taken      its transactional id is opened: whoever had it is locked out, what was left open is settled
    placed     the positions of its partitions are read from the target, and the source is asked from there
    copying    pieces are written; with the last ones of an answer, or when enough has come, positions too, and commit
    dropped    after any error: what was not committed does not count, and it is taken again

so that nothing is ever copied twice or left out, whatever the error was.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, Fenced, TransactionLost
from moldau.client.settings import ClientSettings
from moldau.client.states import COMMITTED, EARLIEST, LATEST, StateReader, offsets_at
from moldau.kernels import murmur2
from moldau.mirror.batches import Cut, Piece, cut
from moldau.mirror.fetching import Fetcher, Part
from moldau.mirror.formats import OffsetSync, Position
from moldau.mirror.progress import RETRY_SECONDS, Progress, Shared, State, lane_of, transactional_id
from moldau.mirror.settings import Flow
from moldau.mirror.topics import Pair
from moldau.mirror.writing import Outgoing, Refused, Writer, produce, records_piece
from moldau.types.error_codes import RETRIABLE
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.batch import CorruptBatchError
from moldau.wire.records import Record

POLL_SECONDS: Final = 0.1
PAUSE_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 2.0
"""A transaction stays open for so long at most while there is more to copy."""
SMALLEST_ROOM: Final = 1024
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
GONE: Final = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID,
})  # fmt: skip
POSITIVE: Final = 0x7FFFFFFF

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Track:
    """A partition that is being copied."""

    pair: Pair
    progress: Progress
    next_offset: int
    stored: int
    """The position in the target; differs from `next_offset` while something is not committed."""
    target_end: int | None = None
    """Behind the last copy, where that is known."""


@dataclass(slots=True)
class Lane:
    number: int
    writer: Writer
    not_before: float = 0.0
    open: bool = False
    tracks: dict[TopicPartition, Track] = field(default_factory=dict)
    written: list[tuple[Track, Outgoing]] = field(default_factory=list)
    size: int = 0
    since: float = 0.0
    """When the first of what is not yet committed was written."""

    @property
    def unsaved(self) -> bool:
        return any(track.next_offset != track.stored for track in self.tracks.values())


class Copier(threading.Thread):
    """One of the flow's `tasks` threads: it has every lane whose number fits its own."""

    def __init__(self, flow: Flow, shared: Shared, number: int, tasks: int) -> None:
        super().__init__(name=f"{flow.name}-copier-{number}", daemon=True)
        self._flow = flow
        self._shared = shared
        self._clocks = shared.clocks
        self._number = number
        self._tasks = tasks
        self._lanes: dict[int, Lane] = {}
        self._positions: dict[TopicPartition, Position] = {}
        self._former: dict[TopicPartition, Position] = {}
        """Of a former name of the flow."""
        self._source_at = ClientSettings.from_properties(flow.reading)
        self._target_at = ClientSettings.from_properties(flow.writing)
        self._target = Cluster(self._target_at)
        self._source = Cluster(self._source_at)
        self._fetcher = Fetcher(self._source, flow.number("copy.fetch.max.bytes"), self._clocks.monotonic)
        self._reader = StateReader(self._target, flow.positions_topic)
        self._room = flow.number("copy.batch.max.bytes")
        self._by_lane: dict[int, dict[TopicPartition, Pair]] = {}
        self._seen: tuple[int, frozenset[int]] = (0, frozenset())
        self._seen_pairs: Mapping[str, Pair] = {}
        self._partitions = 0
        """Of the topic of positions."""

    def run(self) -> None:
        while not self._shared.stopping.is_set():
            try:
                self._step()
                self._shared.error = ""
            except (ClientError, KafkaError, TransactionLost, OSError) as error:
                self._trouble(error)
            except Exception as error:
                log.exception("%s: copying was interrupted", self._flow.name)
                self._trouble(error)
                for lane in self._lanes.values():
                    self._drop(lane)
        self._finish()

    def _step(self) -> None:
        self._adjust()
        parts = self._fetcher.poll(POLL_SECONDS)
        if parts:
            self._copy(parts)
        else:
            for lane in self._lanes.values():
                self._save(lane)

    def _trouble(self, error: Exception) -> None:
        self._shared.error = str(error)
        log.warning("%s: %s; trying again", self._flow.name, error)
        self._shared.stopping.wait(PAUSE_SECONDS)

    def _finish(self) -> None:
        for lane in self._lanes.values():
            self._save(lane)
        self._fetcher.close()
        self._source.close()
        self._target.close()

    # -- lanes and partitions ------------------------------------------------------------------------------------------

    def _adjust(self) -> None:
        """Takes lanes and partitions that are ours now, leaves those that are not."""
        by_lane = self._wanted()
        for number in [number for number in self._lanes if number not in by_lane]:
            lane = self._lanes.pop(number)
            self._save(lane)
            self._drop(lane)
        now = self._clocks.monotonic()
        fresh = [number for number in by_lane if not self._lane(number).open and now >= self._lanes[number].not_before]
        for number in fresh:
            self._take(self._lanes[number])
        missing = [
            (self._lanes[number], place, pair)
            for number, places in by_lane.items()
            if self._lanes[number].open
            for place, pair in places.items()
            if self._is_missing(self._lanes[number], place, pair, now)
        ]
        for number, lane in self._lanes.items():
            for place in [place for place in lane.tracks if place not in by_lane[number]]:
                self._leave(lane, place)
        if missing:
            self._place(missing)

    def _wanted(self) -> dict[int, dict[TopicPartition, Pair]]:
        """By lane; computed anew only where something has changed."""
        pairs, lanes = self._shared.pairs, self._shared.lanes
        if self._seen != (id(pairs), lanes):
            self._by_lane = {}
            for place, pair in self._shared.mine(lambda lane: lane % self._tasks == self._number).items():
                self._by_lane.setdefault(lane_of(place), {})[place] = pair
            self._seen, self._seen_pairs = (id(pairs), lanes), pairs
        return self._by_lane

    def _lane(self, number: int) -> Lane:
        if number not in self._lanes:
            timeout_ms = self._flow.number("copy.transaction.timeout.ms")
            writer = Writer(self._target, transactional_id(self._flow.name, number), timeout_ms, self._clocks.monotonic)
            self._lanes[number] = Lane(number, writer)
        return self._lanes[number]

    def _take(self, lane: Lane) -> None:
        """From here on no other worker writes into this lane's partitions."""
        lane.writer.open()
        lane.tracks.clear()
        lane.written.clear()
        lane.size = 0
        lane.open = True

    def _drop(self, lane: Lane, pause: float = 0.0) -> None:
        for place in list(lane.tracks):
            self._forget_track(lane, place)
        lane.written.clear()
        if lane.open:
            self._shared.resets += 1
        lane.open = False
        lane.not_before = self._clocks.monotonic() + pause

    def _leave(self, lane: Lane, place: TopicPartition) -> None:
        """What was written of it is in the open transaction, which therefore ends with its position first."""
        track = lane.tracks.get(place)
        if track is not None and track.next_offset != track.stored:
            self._save(lane)
        self._forget_track(lane, place)

    def _forget_track(self, lane: Lane, place: TopicPartition) -> None:
        lane.tracks.pop(place, None)
        self._fetcher.drop(place)

    def _is_missing(self, lane: Lane, place: TopicPartition, pair: Pair, now: float) -> bool:
        track = lane.tracks.get(place)
        if track is not None and track.pair == pair:
            return False
        if track is not None:
            self._leave(lane, place)
        return now >= self._shared.progress(place, pair).retry_at

    def _place(self, missing: Iterable[tuple[Lane, TopicPartition, Pair]]) -> None:
        """Finds where each partition goes on. Their lanes are open, so what is stored cannot change any more."""
        for record in self._reader.new():
            if record.key is not None and record.value is not None:
                position = Position.read(self._flow.source, record.key, record.value, record.headers)
                if position is not None:
                    self._positions[position.place] = position
                former = Position.read(self._flow.former_source, record.key, record.value, record.headers)
                if former is not None:
                    self._former[former.place] = former
            elif record.key is not None:
                self._forget(record.key)
        new = []
        for lane, place, pair in missing:
            stored = self._stored(place, pair)
            if stored is None:
                new.append((lane, place, pair))
            else:
                self._track(lane, place, pair, stored.next_offset, stored.next_offset)
                lane.tracks[place].target_end = stored.target_end
        if new:
            starts = offsets_at(self._source, [place for _, place, _ in new], self._start(), COMMITTED)
            for lane, place, pair in new:
                self._track(lane, place, pair, starts[place], -1 if self._start() == LATEST else starts[place])

    def _start(self) -> int:
        return LATEST if self._flow.reading.get("auto.offset.reset") == "latest" else EARLIEST

    def _forget(self, key: bytes) -> None:
        """A tombstone takes a position away."""
        gone = Position.read(self._flow.source, key, b'{"offset":0}')
        if gone is not None:
            self._positions.pop(gone.place, None)

    def _stored(self, place: TopicPartition, pair: Pair) -> Position | None:
        """Where to go on; None for the beginning. A position counts for the topics that it was made for: what was
        deleted and made anew, on either side, is another topic."""
        position = self._positions.get(place)
        if position is None:
            former = self._former.get(place)
            ids = None if former is None else (former.source_id, former.target_id)
            return former if ids == (pair.source_id, pair.remote_id) else None
        if position.source_id in (None, pair.source_id) and position.target_id in (None, pair.remote_id):
            return position
        which = (
            f"{self._flow.source}'s {pair.source}"
            if position.source_id != pair.source_id
            else (f"{self._flow.target}'s {pair.remote}")
        )
        self._shared.progress(place, pair).restarts += 1
        log.warning("%s: %s is another topic than before: %s is copied anew", self._flow.name, which, place)
        return None

    def _track(self, lane: Lane, place: TopicPartition, pair: Pair, position: int, stored: int) -> None:
        progress = self._shared.progress(place, pair)
        progress.remote = pair.remote
        progress.state, progress.reason = State.RUNNING, ""
        progress.position = position
        lane.tracks[place] = Track(pair, progress, position, stored)
        self._fetcher.seek(place, pair.source_id, position)

    # -- copying -------------------------------------------------------------------------------------------------------

    def _copy(self, parts: Sequence[Part]) -> None:
        waiting: dict[int, list[tuple[Track, Cut]]] = {}
        total = 0
        for part in parts:
            lane = self._lanes.get(lane_of(part.place))
            track = None if lane is None else lane.tracks.get(part.place)
            if lane is None or track is None:
                continue
            if part.error:
                self._source_refused(lane, track, part)
                continue
            track.progress.end = part.end
            if part.offset != track.next_offset:
                # An error has interrupted the use of an answer, while the fetcher went on behind it.
                self._fetcher.seek(part.place, track.pair.source_id, track.next_offset)
                continue
            if not memoryview(part.records).nbytes:
                continue
            total += memoryview(part.records).nbytes
            try:
                found = cut(part.records, part.aborted, track.next_offset, track.progress.room or self._room)
            except CorruptBatchError as error:
                self._fail(lane, track, f"the source holds bytes that are no records: {error}")
                continue
            waiting.setdefault(lane.number, []).append((track, found))
        caught_up = total < self._flow.number("copy.fetch.max.bytes") // 2
        for number, cuts in waiting.items():
            self._write(self._lanes[number], cuts)
        now = self._clocks.monotonic()
        for lane in self._lanes.values():
            if caught_up or is_due(lane.size, self._flow.number("copy.commit.bytes"), now - lane.since):
                self._save(lane)

    def _write(self, lane: Lane, cuts: Sequence[tuple[Track, Cut]]) -> None:
        cuts = [(track, found) for track, found in cuts if lane.tracks.get(track.progress.place) is track]
        written = [(track, outgoing_of(track, piece)) for track, found in cuts for piece in found.pieces]
        if self._guarded(lane, lambda: lane.writer.write(outgoing for _, outgoing in written)):
            if not lane.size:
                lane.since = self._clocks.monotonic()
            lane.written += written
            lane.size += sum(outgoing.piece.size for _, outgoing in written)
            for track, outgoing in written:
                track.target_end = outgoing.base_offset + outgoing.piece.count
            for track, found in cuts:
                track.next_offset = found.next_offset

    def _save(self, lane: Lane) -> None:
        """Ends the transaction with the positions that its records lead to."""
        if not lane.open or not lane.unsaved:
            return
        moved = [track for track in lane.tracks.values() if track.next_offset != track.stored]
        syncs = self._syncs(lane) if self._flow.flag("emit.offset-syncs.enabled") else []
        if not self._guarded(lane, lambda: self._commit(lane, moved, syncs)):
            return
        self._shared.transactions += 1
        now = self._clocks.wall()
        for track in moved:
            track.stored = track.progress.position = track.next_offset
        for track, outgoing in lane.written:
            track.progress.records += outgoing.piece.count
            track.progress.size += outgoing.piece.size
            track.progress.copied_at = now
        lane.written.clear()
        lane.size = 0
        if syncs and not self._flow.syncs_in_target:
            self._tell_source(syncs)

    def _tell_source(self, syncs: Sequence[OffsetSync]) -> None:
        """Not in the transaction, which is the target's: if they are lost, groups are taken to an earlier place."""
        try:
            produce(self._source, TopicPartition(self._flow.syncs_topic, 0), sync_records(syncs, self._clocks.now_ms()))
        except (ClientError, KafkaError) as error:
            log.warning("%s: offset syncs could not be written to %s: %s", self._flow.name, self._flow.source, error)

    def _commit(self, lane: Lane, moved: Sequence[Track], syncs: Sequence[OffsetSync]) -> None:
        topic = self._flow.positions_topic
        if not self._partitions:
            self._partitions = len(self._target.topic(topic).partitions)
        by_partition: dict[int, list[Record]] = {}
        now = self._clocks.now_ms()
        for track in moved:
            pair = track.pair
            position = Position(
                track.progress.place, track.next_offset, pair.source_id, pair.remote_id, track.target_end
            )
            key = position.key(self._flow.source)
            record = Record(position.value(), key, now, position.headers())
            by_partition.setdefault((murmur2(key) & POSITIVE) % self._partitions, []).append(record)
        batches = [Outgoing(TopicPartition(topic, index), records_piece(each)) for index, each in by_partition.items()]
        if syncs and self._flow.syncs_in_target:
            place = TopicPartition(self._flow.syncs_topic, 0)
            batches.append(Outgoing(place, records_piece(sync_records(syncs, self._clocks.now_ms()))))
        lane.writer.write(batches)
        lane.writer.commit()

    def _syncs(self, lane: Lane) -> list[OffsetSync]:
        """First and last record of each run that went on without a gap on either side."""
        runs: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        for track, outgoing in lane.written:
            piece, base = outgoing.piece, outgoing.base_offset
            known = runs.setdefault(track.progress.place, [])
            for upstream, downstream, run in runs_of(piece, base):
                if known and known[-1][0] + known[-1][2] == upstream and known[-1][1] + known[-1][2] == downstream:
                    known[-1] = (known[-1][0], known[-1][1], known[-1][2] + run)
                else:
                    known.append((upstream, downstream, run))
        found = []
        for place, listed in runs.items():
            for upstream, downstream, run in listed:
                found.append(OffsetSync(place, upstream, downstream, run))
                if run > 1:
                    found.append(OffsetSync(place, upstream + run - 1, downstream + run - 1))
        return found

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _guarded(self, lane: Lane, action: Callable[[], None]) -> bool:
        try:
            action()
            return True
        except Refused as error:
            self._target_refused(lane, error)
        except Fenced as error:
            log.info("%s: lane %d was taken over: %s", self._flow.name, lane.number, error)
            self._drop(lane, 2 * PAUSE_SECONDS)
        except (ClientError, KafkaError, TransactionLost) as error:
            log.warning("%s: lane %d does its transaction again: %s", self._flow.name, lane.number, error)
            self._drop(lane, PAUSE_SECONDS)
        return False

    def _target_refused(self, lane: Lane, error: Refused) -> None:
        track = next(
            (
                track
                for place, track in lane.tracks.items()
                if TopicPartition(track.pair.remote, place.partition) == error.place
            ),
            None,
        )
        self._drop(lane, PAUSE_SECONDS)
        if error.code in GONE:
            self._shared.look_now.set()
        if track is None or error.code in RETRIABLE:
            log.warning("%s: %s; trying again", self._flow.name, error)
        elif error.code in TOO_LARGE and (track.progress.room or self._room) > SMALLEST_ROOM:
            track.progress.room = max(SMALLEST_ROOM, (track.progress.room or self._room) // 2)
            log.info("%s: %s takes no batches of %d bytes", self._flow.name, error.place, self._room)
        else:
            self._fail(lane, track, explained(self._flow, error))

    def _source_refused(self, lane: Lane, track: Track, part: Part) -> None:
        if part.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(lane, track)
        elif part.error in GONE:
            self._leave(lane, part.place)
            track.progress.retry_at = self._clocks.monotonic() + PAUSE_SECONDS
            self._shared.look_now.set()
        elif part.error not in RETRIABLE:
            self._fail(lane, track, f"{self._flow.source} refuses to be read: {part.error.name}")

    def _out_of_range(self, lane: Lane, track: Track) -> None:
        place, position = track.progress.place, track.next_offset
        first = offsets_at(self._source, [place], EARLIEST)[place]
        last = offsets_at(self._source, [place], LATEST)[place]
        if position > last:
            self._fail(
                lane,
                track,
                f"the source ends at {last}, before the position {position}: its log was cut, by an unclean "
                "election or a restored disk. `moldau mirror reset` begins this partition anew",
            )
        elif position < first and self._flow.text("on.data.loss") == "fail":
            self._fail(
                lane,
                track,
                f"the source has deleted offsets {position} to {first - 1} before they were copied; "
                "on.data.loss=continue goes on without them",
            )
        elif position < first:
            track.progress.lost += first - position
            log.warning(
                "%s: %s: offsets %d to %d were deleted in the source before they were copied",
                self._flow.name, place, position, first - 1,
            )  # fmt: skip
            track.next_offset = first
            self._fetcher.seek(place, track.pair.source_id, first)

    def _fail(self, lane: Lane, track: Track, reason: str) -> None:
        progress = track.progress
        if progress.reason != reason:
            log.error("%s: %s stands still: %s", self._flow.name, progress.place, reason)
        progress.state, progress.reason = State.FAILED, reason
        progress.retry_at = self._clocks.monotonic() + RETRY_SECONDS
        self._leave(lane, progress.place)


def is_due(size: int, enough: int, seconds: float) -> bool:
    """Whether a transaction ends although more is waiting. One with little in it must not stay open while others have
    much to copy: it would run into its time-out, again and again."""
    return size >= enough or (size > 0 and seconds >= LONGEST_SECONDS)


def outgoing_of(track: Track, piece: Piece) -> Outgoing:
    place = TopicPartition(track.pair.remote, track.progress.place.partition)
    return Outgoing(place, piece, track.pair.remote_id)


def runs_of(piece: Piece, base: int) -> list[tuple[int, int, int]]:
    """Pairs of offsets that are known for certain, and how many records follow each other from there."""
    if piece.runs:
        return [(piece.first, base, piece.count)]
    return [(piece.first, base, 1), (piece.last, base + piece.count - 1, 1)]


def sync_records(syncs: Iterable[OffsetSync], now: int) -> list[Record]:
    return [Record(sync.value(), sync.key(), now, sync.headers()) for sync in syncs]


def explained(flow: Flow, error: Refused) -> str:
    match error.code:
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            hint = f"a record is larger than max.message.bytes of {error.place.topic} in {flow.target}; raise it there"
        case ErrorCode.INVALID_TIMESTAMP:
            hint = f"raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of {error.place.topic}"
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            hint = "the mirror needs WRITE on the topic and on transactional ids that begin with moldau-mirror-"
        case ErrorCode.INVALID_RECORD:
            hint = "a compacted topic takes no records without a key: is cleanup.policy another one in the source?"
        case _:
            hint = ""
    said = f"{flow.target} refuses {error.place}: {error.code.name}"
    return f"{said}; {hint}" if hint else f"{said} ({error})"

"""Changes of tables in PostgreSQL to topics, by logical replication: Debezium's PostgreSQL connector, under its
settings, with its topics, keys and envelopes.

A table is a stream. First its rows are read (`op` is `r`), then every change follows: `c`, `u`, `d` and a tombstone,
`t` where `skipped.operations` does not leave it out, in the order of their commits. Each change is sent once:

- All streams read one slot. It is only peeked at, between two places in the server's log, and moves on behind what
  every stream has committed, so a batch that is read again is the same.
- A table is read with a snapshot that shows exactly what was committed before a known place in the log, in batches
  ordered by its key. After a crash in the middle the rest is read with another snapshot, and of the changes that
  follow those are left out that the snapshot of their part has shown. A table without a key is one batch.
- A slot that was dropped, made anew or moved on by somebody else, or whose log the server has thrown away, makes the
  connector FAILED with that reason.

When a table changes its columns, or another is published, the connector looks at its tables again and goes on.
Changes of before are given under the columns of now; values of a column that was dropped or renamed since are left
out, with a warning.

Differences to Debezium: times in an envelope are those of the commit; `transaction` is null; the schemas of times and
texts have no names of Debezium's; an update that changes the key has no headers naming the other one; money, bits,
ranges and composites are texts; there are no signals, incremental snapshots or logical messages. Every table is a
Spark query that decodes the log for itself, so a few dozen tables are many. It needs PostgreSQL 13, `wal_level=logical`
and, while a table is first read, one more replication slot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.connect.connectors.postgres import settings
from moldau.connect.connectors.postgres.capture import Capture, Piece, Shown
from moldau.connect.connectors.postgres.catalog import make_publication, tables_of
from moldau.connect.connectors.postgres.envelope import READ, Envelopes, Place, Table, stream_of
from moldau.connect.connectors.postgres.server import Held, Slot, SlotLost, Slots, is_at_most, rows_of
from moldau.connect.interface import Position, RecordRefused, SourceConnector, SourceRecord, Stream, StreamsChanged
from moldau.version import VERSION

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger(__name__)
HEARTBEAT: Final = "heartbeat"
LSN, PIECES, CHUNK = "lsn", "pieces", "chunk"
IDLE_BYTES: Final = 4 << 20
"""So much of the log may lie behind a table without changes before its position moves all the same."""
NO_MODES: Final = (settings.NO_DATA, settings.NEVER)


class PostgresSource(SourceConnector):
    """A position: `lsn`, before which everything is read. While a table is first read also `pieces`, the last key and
    the place in the log of each part, and `chunk`, the rows of this batch."""

    CONFIG: ClassVar = settings.CONFIG

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        return settings.not_followed(config)

    def __init__(
        self,
        config: Any,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config)
        self._clock, self._monotonic = clock, monotonic
        self._login = settings.login_of(config)
        self._choice = settings.choice_of(config)
        self._modes = settings.modes_of(config)
        self._slots = Slots(self._login, config["slot.name"], config["publication.name"])
        self._database: Connection[tuple[Any, ...]] | None = None
        self._held: dict[str, Held] = {}
        self._looked: dict[str, int] = {}
        self._beats: dict[str, float] = {}
        self._told = 0

    def close(self) -> None:
        for held in self._held.values():
            held.close()
        if self._database is not None:
            self._database.close()

    def _connection(self) -> Connection[tuple[Any, ...]]:
        if self._database is None or self._database.closed:
            self._database = self._login.connect()
        return self._database

    # -- streams -----------------------------------------------------------------------------------------------------

    def streams(self) -> Sequence[Stream]:
        database = self._connection()
        make_publication(
            database, self.config["publication.name"], self.config["publication.autocreate.mode"], self._choice
        )
        if self.config["snapshot.mode"] != settings.INITIAL_ONLY and self._slots.state(database) is None:
            log.warning("slot %s was not there: it is made", self._slots.name)
            self._slots.make(database)
        return self._described()

    def _described(self) -> list[Stream]:
        prefix = self.config["topic.prefix"]
        tables = tables_of(self._connection(), self.config["publication.name"], self._choice, self._modes)
        if not tables:
            raise ValueError(
                f"publication {self.config['publication.name']} has none of the tables that are chosen: see "
                "table.include.list and schema.include.list"
            )
        streams = [stream_of(prefix, table) for table in tables]
        topics = [stream.topic for stream in streams]
        if twice := sorted({topic for topic in topics if topics.count(topic) > 1}):
            raise ValueError(f"several tables would go to the topic {', '.join(twice)}: leave out all but one")
        if self.config["heartbeat.interval.ms"] > 0:
            streams.append(heartbeat(prefix, self.config["topic.heartbeat.prefix"]))
        return streams

    def _table(self, stream: Stream) -> Table:
        """As it is now; raises StreamsChanged if the stream's type is of another time."""
        place = (stream.partition["schema"], stream.partition["table"])
        found = tables_of(self._connection(), self.config["publication.name"], self._choice, self._modes, place)
        if not found or (found[0].value_type, found[0].key_type) != (stream.value, stream.key):
            raise StreamsChanged(f"{'.'.join(place)} has changed")
        return found[0]

    # -- positions ---------------------------------------------------------------------------------------------------

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        if HEARTBEAT in stream.partition:
            return self._next_beat(stream, position)
        mode = self.config["snapshot.mode"]
        if position is not None and mode == settings.WHEN_NEEDED:
            position = self._unless_lost(position)
        if position is None and mode in NO_MODES:
            return self._beginning()
        if position is None or position.get(CHUNK, {}).get("to"):
            return self._next_chunk(stream, position)
        self._let_go(stream)
        return position if mode == settings.INITIAL_ONLY else self._next_changes(stream, position)

    def _beginning(self) -> Position:
        slot = self._slots.state(self._connection())
        if slot is None:
            raise SlotLost(f"there is no slot {self._slots.name} any more: restart the connector to have it made")
        return {LSN: slot.confirmed}

    def _unless_lost(self, position: Position) -> Position | None:
        try:
            self._slots.usable(self._connection(), position[LSN])
        except SlotLost as reason:
            log.warning("%s: the tables are read anew", reason)
            return None
        return position

    def _next_beat(self, stream: Stream, position: Position | None) -> Position | None:
        now, name = self._monotonic(), stream.topic
        if name in self._beats and now - self._beats[name] < self.config["heartbeat.interval.ms"] / 1000:
            return position
        self._beats[name] = now
        if query := self.config["heartbeat.action.query"]:
            self._connection().execute(query)
        return {"ts_ms": int(self._clock() * 1000)}

    def _next_chunk(self, stream: Stream, position: Position | None) -> Position:
        table = self._table(stream)
        held = self._snapshot(stream)
        pieces = list(position[PIECES]) if position else []
        after = position[CHUNK]["to"] if position else None
        to = held.bound(table, after, self.config["snapshot.batch.rows"])
        if pieces and pieces[-1][1] == held.lsn:
            pieces.pop()
        pieces.append([to, held.lsn])
        chunk = {"after": after, "to": to, "snapshot": held.name, LSN: held.lsn, "ts_us": held.time_micros}
        return {LSN: min(lsn for _, lsn in pieces), PIECES: pieces, CHUNK: chunk}

    def _snapshot(self, stream: Stream) -> Held:
        name = stream.topic
        if name not in self._held:
            self._held[name] = Held(self._login, self._slots.name)
        return self._held[name]

    def _let_go(self, stream: Stream) -> None:
        if held := self._held.pop(stream.topic, None):
            held.close()

    def _next_changes(self, stream: Stream, position: Position) -> Position:
        begin = int(position[LSN])
        slot = self._slots.usable(self._connection(), begin)
        upto = min(slot.flushed, begin + self.config["max.batch.wal.bytes"])
        if upto <= max(begin, self._looked.get(stream.topic, 0)):
            return position
        is_all = upto == slot.flushed and upto - begin < IDLE_BYTES
        if is_all and not self._has_changes(stream, position, upto):
            self._looked[stream.topic] = upto
            return position
        pieces = [each for each in pieces_of(position) if each.lsn > upto]
        return {LSN: upto, **({PIECES: position[PIECES]} if pieces else {})}

    def _has_changes(self, stream: Stream, position: Position, upto: int) -> bool:
        messages = self._changes(self._table(stream), position, upto)
        return next(messages, None) is not None

    def committed(self, streams: Sequence[tuple[Stream, Position | None]]) -> None:
        if self.config["snapshot.mode"] == settings.INITIAL_ONLY:
            return
        if by_topic(stream for stream, _ in streams) != by_topic(self._described()):
            raise StreamsChanged("the tables that are captured, or their columns, have changed")
        positions = [position for stream, position in streams if HEARTBEAT not in stream.partition]
        slot = self._slots.state(self._connection())
        if slot is None:
            return  # `latest` says so, where it counts
        known = [int(position[LSN]) for position in positions if position is not None]
        if len(known) == len(positions) and min(known) > slot.confirmed:
            self._slots.advance(self._connection(), min(known))
        self._tell_lag(slot)

    def _tell_lag(self, slot: Slot) -> None:
        lag = slot.flushed - slot.restart
        if slot.wal_status == "unreserved" or lag >= max(self.config["slot.lag.warn.bytes"], 2 * self._told):
            self._told = lag
            log.warning(
                "slot %s holds %d MiB of the server's log (%s): changes come faster than they are read, or a "
                "transaction is open for long; the disk of the server may fill up, or the slot be thrown away",
                self._slots.name,
                lag >> 20,
                slot.wal_status,
            )
        elif lag < self.config["slot.lag.warn.bytes"]:
            self._told = 0

    def validate_position(self, partition: Mapping[str, Any], position: Mapping[str, Any] | None) -> None:
        if set(partition) not in ({"server", "schema", "table"}, {"server", HEARTBEAT}):
            raise ValueError("Partition objects should contain the keys 'server', 'schema' and 'table'")
        if position is None or HEARTBEAT in partition:
            return
        if (
            not {LSN} <= set(position) <= {LSN, PIECES, CHUNK}
            or not isinstance(position[LSN], int)
            or position[LSN] < 0
        ):
            raise ValueError("Offset objects should either be null or contain the key 'lsn', a number")

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[SourceRecord | RecordRefused]:
        if HEARTBEAT in stream.partition:
            server = stream.partition["server"]
            return iter([SourceRecord({"ts_ms": end["ts_ms"]}, {"serverName": server})])
        table = self._table(stream)
        if CHUNK in end:
            return self._rows(table, end[CHUNK])
        return self._changes(table, begin, int(end[LSN])) if begin is not None else iter(())

    def _rows(self, table: Table, chunk: Mapping[str, Any]) -> Iterator[SourceRecord | RecordRefused]:
        make, place = self._envelopes(table), Place(chunk["ts_us"], chunk[LSN])
        for row in rows_of(self._login, table, chunk["snapshot"], chunk["after"], chunk["to"]):
            yield make.record_or_refusal(READ, place, after=row)

    def _changes(self, table: Table, begin: Position, upto: int) -> Iterator[SourceRecord | RecordRefused]:
        def ordered(key: Sequence[str], bound: Sequence[str]) -> bool:
            return is_at_most(self._connection(), table, list(key), list(bound))

        shown = Shown(pieces_of(begin), ordered)
        skipped = set(self.config["skipped.operations"]) - {"none"}
        capture = Capture(
            self._envelopes(table),
            int(begin[LSN]),
            upto,
            shown,
            skipped,
            tombstones=self.config["tombstones.on.delete"],
        )
        return capture.records(self._slots.messages(table, upto))

    def _envelopes(self, table: Table) -> Envelopes:
        return Envelopes(
            table,
            self.config["topic.prefix"],
            self.config["database.dbname"],
            VERSION,
            self.config["unavailable.value.placeholder"],
        )


def heartbeat(prefix: str, topic_prefix: str) -> Stream:
    return Stream(
        {"server": prefix, HEARTBEAT: "1"},
        f"{topic_prefix}.{prefix}",
        "struct<ts_ms: bigint NOT NULL>",
        "struct<serverName: string NOT NULL>",
        "io.debezium.connector.common.Heartbeat",
        "io.debezium.connector.common.ServerNameKey",
    )


def by_topic(streams: Iterable[Stream]) -> list[Stream]:
    return sorted(streams, key=lambda stream: stream.topic)


def pieces_of(position: Position) -> list[Piece]:
    """None where one snapshot has shown everything: then `lsn` says it."""
    found = [Piece(None if to is None else tuple(to), int(lsn)) for to, lsn in position.get(PIECES, ())]
    return found if len({piece.lsn for piece in found}) > 1 else []

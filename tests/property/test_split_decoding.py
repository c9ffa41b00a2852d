"""Rows of a split, whatever the log holds and wherever splits, answers and Arrow batches begin and end.

A log is made of batches of several producers, in transactions and outside, compressed or not, with markers, with
offsets that compaction took away. What a reader has to see is computed from the model, not from the bytes.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.kernels import Column, RecordColumns
from moldau.spark.fetching.decoding import SplitDecoder
from moldau.wire.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records import Record, build_batch

PRODUCERS = (7, 8, 9)


@dataclass
class Piece:
    """One batch: its bytes, its offsets, and which records it holds for whom."""

    data: bytes
    first: int
    last: int
    records: list[tuple[int, bytes]] = field(default_factory=list)
    transaction: Transaction | None = None
    marker: bool = False


@dataclass
class Transaction:
    producer: int
    first: int
    last: int = -1
    committed: bool | None = None


@dataclass
class Log:
    pieces: list[Piece] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    end: int = 0

    def visible(self, start: int, end: int, committed: bool) -> list[tuple[int, bytes]]:
        return [
            record
            for piece in self.pieces
            if not piece.marker
            and not (committed and piece.transaction is not None and not piece.transaction.committed)
            for record in piece.records
            if start <= record[0] < end
        ]

    @property
    def stable_end(self) -> int:
        """Where the first transaction that is still open begins."""
        return min([each.first for each in self.transactions if each.committed is None], default=self.end)

    def answer(self, offset: int, size: int, reach: int) -> tuple[bytes, list[tuple[int, int]]]:
        """What a broker sends from an offset on: at least one batch, then as many bytes as allowed, cut off."""
        pieces = [piece for piece in self.pieces if piece.last >= offset and piece.first < reach]
        data = b"".join(piece.data for piece in pieces)
        data = data[: max(size, len(pieces[0].data))] if pieces else b""
        whole, left = pieces[:1], len(data) - len(pieces[0].data) if pieces else 0
        for piece in pieces[1:]:
            left -= len(piece.data)
            if left < 0:
                break
            whole.append(piece)
        upper = whole[-1].last if whole else offset
        aborted = [
            (each.producer, each.first)
            for each in self.transactions
            if each.committed is False and each.last >= offset and each.first <= upper
        ]
        return data, aborted


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log(end=draw(st.integers(0, 3)))
    open_now: dict[int, Transaction] = {}
    for step in range(draw(st.integers(1, 14))):
        producer = draw(st.sampled_from((None, *PRODUCERS)))
        transaction = open_now.get(producer) if producer is not None else None
        if transaction is not None and draw(st.integers(0, 2)) == 0:
            end_transaction(log, transaction, draw(st.booleans()))
            del open_now[transaction.producer]
            continue
        if producer is not None and transaction is None:
            open_now[producer] = transaction = Transaction(producer, log.end)
            log.transactions.append(transaction)
        append(draw, log, transaction, step)
    for transaction in list(open_now.values()):
        if draw(st.integers(0, 3)):
            end_transaction(log, transaction, draw(st.booleans()))
    return log


def append(draw: st.DrawFn, log: Log, transaction: Transaction | None, step: int) -> None:
    count = draw(st.integers(1, 5))
    kept = draw(
        st.lists(st.sampled_from(range(count)), unique=True, max_size=count).map(sorted) | st.just(list(range(count)))
    )
    first, last = log.end, log.end + count - 1
    log.end += count
    if not kept and draw(st.booleans()):
        return  # compaction took the batch whole
    rows = [(first + index, b"%d-%d" % (step, index) + b"x" * draw(st.sampled_from([0, 30]))) for index in kept]
    data = build_batch(
        [Record(value=value, key=b"k", timestamp=1000) for _, value in rows],
        base_offset=first,
        offsets=[offset for offset, _ in rows],
        last_offset=last,
        codec=draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4])) if rows else 0,
        transactional=transaction is not None,
        producer_id=-1 if transaction is None else transaction.producer,
        producer_epoch=0,
        base_sequence=0,
    )
    log.pieces.append(Piece(data, first, last, rows, transaction))


def end_transaction(log: Log, transaction: Transaction, committed: bool) -> None:
    transaction.committed, transaction.last = committed, log.end
    marker = EndTransactionMarker(committed, 0)
    data = build_end_transaction_batch(
        marker, producer_id=transaction.producer, producer_epoch=0, timestamp=5, base_offset=log.end
    )
    log.pieces.append(Piece(data, log.end, log.end, marker=True))
    log.end += 1


def read(log: Log, start: int, end: int, *, committed: bool, sizes: list[int], room: int) -> list[tuple[int, bytes]]:
    """As a task does it: answer after answer until the position has passed the end."""
    columns = RecordColumns(Column.OFFSET | Column.VALUE)
    decoder = SplitDecoder(columns, start, end, committed=committed, check_crcs=True, batch_bytes=room)
    rows: list[tuple[int, bytes]] = []
    reach = log.stable_end if committed else log.end
    turn = 0
    while not decoder.done:
        before = decoder.position
        data, aborted = log.answer(decoder.position, sizes[turn % len(sizes)], reach)
        turn += 1
        if not data:
            break  # nothing is left up to the end of the log
        for _ in decoder.decode(data, aborted):
            rows += taken(columns)
        rows += taken(columns)
        assert decoder.position > before
    return rows


def taken(columns: RecordColumns) -> list[tuple[int, bytes]]:
    count, _, value, offset, *_ = columns.take()
    assert value is not None and offset is not None
    ends = struct.unpack(f"{count + 1}i", value[1])
    data = bytes(value[2])
    return list(zip(struct.unpack(f"{count}q", offset), (data[a:b] for a, b in itertools.pairwise(ends)), strict=True))


SIZES = st.lists(st.integers(1, 700), min_size=1, max_size=4)


@given(logs(), SIZES, st.sampled_from([1, 60, 10_000]), st.booleans(), st.data())
@settings(max_examples=300)
def test_every_split_sees_its_records(
    log: Log, sizes: list[int], room: int, committed: bool, data: st.DataObject
) -> None:
    reach = log.stable_end if committed else log.end
    start = data.draw(st.integers(0, reach))
    end = data.draw(st.integers(start, reach))
    assert read(log, start, end, committed=committed, sizes=sizes, room=room) == log.visible(start, end, committed)


@given(logs(), SIZES, st.booleans())
def test_splits_side_by_side_see_each_record_once(log: Log, sizes: list[int], committed: bool) -> None:
    """Cut at every offset: no record is doubled, none is lost between."""
    reach = log.stable_end if committed else log.end
    rows = [
        row
        for start in range(reach)
        for row in read(log, start, start + 1, committed=committed, sizes=sizes, room=10_000)
    ]
    assert rows == log.visible(0, reach, committed)

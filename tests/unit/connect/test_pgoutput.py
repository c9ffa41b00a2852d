"""Messages of pgoutput as PostgreSQL 18 sent them, and what becomes of them."""

from __future__ import annotations

import pytest

from moldau.connect.connectors.postgres.capture import Capture, Piece, Shown
from moldau.connect.connectors.postgres.envelope import Column, Envelopes, Table
from moldau.connect.connectors.postgres.pgoutput import (
    UNSENT,
    Begin,
    Commit,
    DecodingFailed,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
    WireColumn,
    decode,
)
from moldau.connect.connectors.postgres.values import (
    Modes,
    Type,
    array_items,
    interval_micros,
    parser_of,
    spark_type,
    variable_scale,
)

BEGIN = b"B\x00\x00\x00\x00\x01q\x81\xc8\x00\x03\x03\x96(\xb7\x9f#\x00\x00\x02\xf3"
COMMIT = b"C\x00\x00\x00\x00\x00\x01q\x81\xc8\x00\x00\x00\x00\x01q\x81\xf8\x00\x03\x03\x96(\xb7\x9f#"
RELATION = (
    b"R\x00\x00@\x00public\x00book\x00d\x00\x04\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff\x00title\x00\x00\x00\x00\x19"
    b"\xff\xff\xff\xff\x00price\x00\x00\x00\x06\xa4\x00\x06\x00\x06\x00body\x00\x00\x00\x00\x19\xff\xff\xff\xff"
)
INSERT = b"I\x00\x00@\x00N\x00\x04t\x00\x00\x00\x012t\x00\x00\x00\x05\xc3\x84\t\xc3\x9fnn"
UPDATE = b"U\x00\x00@\x00N\x00\x04t\x00\x00\x00\x011t\x00\x00\x00\tThe Trialt\x00\x00\x00\x049.50u"
MOVE = b"U\x00\x00@\x00K\x00\x04t\x00\x00\x00\x012nnnN\x00\x04t\x00\x00\x00\x013t\x00\x00\x00\x05\xc3\x84\t\xc3\x9fnn"
DELETE = b"D\x00\x00@\x00K\x00\x04t\x00\x00\x00\x013nnn"
TRUNCATE = b"T\x00\x00\x00\x01\x00\x00\x00@\x00"
LSN = 24216008


def test_what_the_server_sent_is_read() -> None:
    assert decode(BEGIN) == Begin(LSN, 1795053193232163, 755)
    assert decode(COMMIT) == Commit(LSN, 24216056)
    found = decode(RELATION)
    assert isinstance(found, Relation)
    assert (found.id, found.schema, found.table, found.identity) == (16384, "public", "book", "d")
    assert found.columns[0] == WireColumn("id", 23, -1, True)
    assert found.columns[2] == WireColumn("price", 1700, 393222, False)
    assert decode(INSERT) == Insert(16384, ("2", "Ä\tß", None, None))
    assert decode(UPDATE) == Update(16384, ("1", "The Trial", "9.50", UNSENT))
    assert decode(MOVE) == Update(16384, ("3", "Ä\tß", None, None), old_key=("2", None, None, None))
    assert decode(DELETE) == Delete(16384, old_key=("3", None, None, None))
    assert decode(TRUNCATE) == Truncate((16384,))
    assert decode(b"Y\x00") is None


@pytest.mark.parametrize("message", [BEGIN, COMMIT, RELATION, INSERT, UPDATE, MOVE, DELETE, TRUNCATE])
def test_a_message_that_is_cut_or_goes_on_is_refused(message: bytes) -> None:
    for end in range(1, len(message)):
        with pytest.raises(DecodingFailed):
            decode(message[:end])
    with pytest.raises(DecodingFailed, match="1 bytes are left behind"):
        decode(message + b"\0")


BOOK = Table(
    "public",
    "book",
    (
        Column("id", Type(23), True),
        Column("title", Type(25)),
        Column("price", Type(1700, 393222)),
        Column("body", Type(25)),
    ),
    ("id",),
)


def captured(*pieces: tuple[str | None, int], begin: int = 0, end: int = LSN + 1, skipped: str = "") -> list[str]:
    shown = Shown(
        [Piece(None if to is None else (to,), lsn) for to, lsn in pieces],
        lambda key, bound: int(key[0]) <= int(bound[0]),
    )
    capture = Capture(Envelopes(BOOK, "p", "db", "1"), begin, end, shown, skipped, tombstones=True)
    messages = [BEGIN, RELATION, INSERT, UPDATE, MOVE, DELETE, TRUNCATE, COMMIT]
    return [
        f"{record.key['id'] if record.key else ''}{record.value['op'] if record.value else '0'}"
        for record in capture.records(enumerate(messages))
    ]


def test_a_transaction_counts_by_the_place_of_its_commit() -> None:
    everything = ["2c", "1u", "2d", "20", "3c", "3d", "30", "t"]
    assert captured() == everything
    assert captured(begin=LSN) == everything
    assert captured(end=LSN) == captured(begin=LSN + 1) == []
    assert captured(skipped="ut") == ["2c", "2d", "20", "3c", "3d", "30"]


def test_what_the_snapshot_of_a_part_has_shown_is_left_out() -> None:
    after, before = LSN + 1, LSN - 1
    assert captured(("2", before), (None, after), skipped="t") == ["2c", "1u", "2d", "20"]
    assert captured(("2", after), (None, before), skipped="t") == ["3c", "3d", "30"]
    assert captured((None, after)) == []
    assert captured(("1", LSN), ("2", after), (None, LSN), skipped="t") == ["1u", "3c", "3d", "30"]


def value(oid: int, text: str, modifier: int = -1, **modes: str) -> object:
    return parser_of(Type(oid, modifier), Modes(**modes))(text)


def test_values_of_days_without_a_place_in_pythons_calendar() -> None:
    assert value(1082, "1970-01-01") == 0
    assert value(1082, "12024-02-29") == 3_672_207
    assert value(1082, "0001-12-31 BC") == -719163
    assert value(1114, "1969-12-31 23:59:59.999999") == -1
    assert value(1114, "2024-02-29 00:00:00", 0) == 1_709_164_800_000
    assert value(1184, "2024-02-29 12:00:00.5+00", 3) == "2024-02-29T12:00:00.500Z"
    with pytest.raises(ValueError, match="infinity is no date"):
        value(1082, "infinity")


def test_intervals_arrays_and_numbers() -> None:
    assert interval_micros("PT0S") == 0
    assert interval_micros("P1DT-2H-0.5S") == 79_199_500_000
    assert interval_micros("P1Y2M") == round(14 * 365.25 / 12 * 86_400_000_000)
    assert array_items('[0:1]={"a,b",NULL}') == ["a,b", None]
    assert array_items('{"NULL","","\\\\"}') == ["NULL", "", "\\"]
    assert array_items("{}") == []
    with pytest.raises(ValueError, match="several dimensions"):
        array_items("{{1},{2}}")
    assert variable_scale("-1.28") == {"scale": 2, "value": b"\x80"}
    assert variable_scale("1e3") == {"scale": 0, "value": b"\x03\xe8"}
    assert spark_type(Type(1700, 393222), Modes()) == "decimal(6,2)"
    assert spark_type(Type(1700, (50 << 16 | 2) + 4), Modes()) == "struct<scale: int, value: binary>"

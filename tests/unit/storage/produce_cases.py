"""Record sets a client may send, good and bad. What Apache Kafka answers to each is kept in produce_verdicts.json."""

from collections.abc import Callable
from struct import pack_into

from moldau.wire.batch import rewrite_crc
from moldau.wire.compression import compress
from moldau.wire.records import Record, assemble_batch, build_batch

HOUR = 3_600_000
DAY = 24 * HOUR

Case = tuple[str, Callable[[int], bytes]]


def _records(now: int, count: int = 3) -> list[Record]:
    return [Record(key=b"k%d" % n, value=b"value %d" % n, timestamp=now - 10 + n) for n in range(count)]


def _good(now: int, **options: object) -> bytearray:
    return bytearray(build_batch(_records(now), **options))  # type: ignore[arg-type]


def _patched(now: int, layout: str, position: int, *values: int, crc: bool = True, **options: object) -> bytes:
    batch = _good(now, **options)
    pack_into(layout, batch, position, *values)
    if crc:
        rewrite_crc(batch)
    return bytes(batch)


def _payload(payload: bytes, now: int, *, attributes: int = 0, count: int = 3, delta: int = 2) -> bytes:
    return assemble_batch(
        payload,
        base_offset=0,
        leader_epoch=-1,
        attributes=attributes,
        last_offset_delta=delta,
        base_timestamp=now - 10,
        max_timestamp=now - 8,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def _plain(now: int) -> bytes:
    return bytes(build_batch(_records(now))[61:])


def _gapped(now: int, codec: int) -> bytes:
    return build_batch(_records(now), offsets=[0, 1, 5], last_offset=2, codec=codec)


FRAMING: list[Case] = [
    ("empty", lambda _: b""),
    ("eleven bytes", lambda _: bytes(11)),
    ("length zero", lambda _: bytes(80)),
    ("length thirteen", lambda now: _patched(now, ">i", 8, 13, crc=False)),
    ("length negative", lambda now: _patched(now, ">i", 8, -1, crc=False)),
    ("shorter than a header", lambda now: _patched(now, ">i", 8, 40, crc=False)),
    ("cut off", lambda now: bytes(_good(now)[:-1])),
    ("magic 0", lambda now: _patched(now, ">b", 16, 0, crc=False)),
    ("magic 1", lambda now: _patched(now, ">b", 16, 1, crc=False)),
    ("magic 3", lambda now: _patched(now, ">b", 16, 3, crc=False)),
    ("magic -1", lambda now: _patched(now, ">b", 16, -1, crc=False)),
    ("two batches", lambda now: bytes(_good(now) * 2)),
    ("five bytes follow", lambda now: bytes(_good(now)) + bytes(5)),
    ("twenty zeros follow", lambda now: bytes(_good(now)) + bytes(20)),
    ("a cut off batch follows", lambda now: bytes(_good(now)) + bytes(_good(now)[:-3])),
    ("base offset 7", lambda now: bytes(_good(now, base_offset=7))),
    ("wrong crc", lambda now: _patched(now, ">I", 17, 12345, crc=False)),
    ("leader epoch set", lambda now: bytes(_good(now, leader_epoch=55))),
]

HEADER: list[Case] = [
    ("count too small", lambda now: _patched(now, ">i", 57, 2)),
    ("count too large", lambda now: _patched(now, ">i", 57, 4)),
    ("count zero", lambda now: _patched(now, ">i", 57, 0)),
    ("count negative", lambda now: _patched(now, ">i", 57, -1)),
    ("no records at all", lambda now: _payload(b"", now, count=0, delta=0)),
    ("last offset delta and count too large", lambda now: _payload(_plain(now), now, count=4, delta=3)),
    ("last offset delta and count too small", lambda now: _payload(_plain(now), now, count=2, delta=1)),
    ("last offset delta negative", lambda now: _patched(now, ">i", 23, -1)),
    ("control", lambda now: bytes(_good(now, control=True, transactional=True, producer_id=1, producer_epoch=0))),
    ("producer without sequence", lambda now: bytes(_good(now, producer_id=4000, producer_epoch=0))),
    ("producer with sequence", lambda now: bytes(_good(now, producer_id=4001, producer_epoch=0, base_sequence=0))),
    ("producer -2", lambda now: bytes(_good(now, producer_id=-2, producer_epoch=0, base_sequence=0))),
    ("delete horizon bit", lambda now: _patched(now, ">h", 21, 0x40)),
    ("unused bit", lambda now: _patched(now, ">h", 21, 0x80)),
    ("codec 5", lambda now: _payload(b"x" * 20, now, attributes=5)),
    ("codec 7", lambda now: _payload(b"x" * 20, now, attributes=7)),
]

RECORDS: list[Case] = [
    ("record length too large", lambda now: _payload(b"\x7e" + _plain(now)[1:], now)),
    ("record length too small", lambda now: _payload(b"\x04" + _plain(now)[1:], now)),
    ("record length negative", lambda now: _payload(b"\x01" + _plain(now)[1:], now)),
    ("bytes after the last record", lambda now: _payload(_plain(now) + b"\0\0", now)),
    ("offset deltas with a gap", lambda now: _gapped(now, 0)),
    ("offset deltas with a gap, lz4", lambda now: _gapped(now, 3)),
    ("offset deltas with a gap, gzip", lambda now: _gapped(now, 1)),
    *(
        (
            f"{what}, codec {codec}",
            lambda now, codec=codec, body=body: _payload(body(codec, now), now, attributes=codec),
        )
        for codec in (1, 2, 3, 4)
        for what, body in (
            ("compressed", lambda codec, now: compress(codec, _plain(now))),
            ("garbage", lambda codec, now: b"this is no compressed data at all"),
            ("nothing compressed", lambda codec, now: compress(codec, b"")),
            ("garbage compressed", lambda codec, now: compress(codec, b"\xff" * 40)),
            ("cut off", lambda codec, now: compress(codec, _plain(now) * 9)[:-9]),
            ("bytes after the last record", lambda codec, now: compress(codec, _plain(now) + b"\0\0\0")),
        )
    ),
    ("count too large, lz4", lambda now: _payload(compress(3, _plain(now)), now, attributes=3, count=4, delta=3)),
    ("count too small, lz4", lambda now: _payload(compress(3, _plain(now)), now, attributes=3, count=2, delta=1)),
]

KEYS_AND_TIMES: list[Case] = [
    ("good", lambda now: bytes(_good(now))),
    ("no key", lambda now: build_batch([Record(value=b"v", timestamp=now)])),
    (
        "keys and no keys",
        lambda now: build_batch(
            [Record(key=k, value=b"v", timestamp=now) for k in (b"", None, b"k", None, None, None)]
        ),
    ),
    ("no key, lz4", lambda now: build_batch([Record(value=b"v", timestamp=now)], codec=3)),
    ("no timestamp", lambda now: build_batch([Record(key=b"k", value=b"v", timestamp=-1)])),
    ("timestamp -2", lambda now: build_batch([Record(key=b"k", value=b"v", timestamp=-2)])),
    ("a day old", lambda now: build_batch([Record(key=b"k", value=b"v", timestamp=now - DAY)])),
    ("a day ahead", lambda now: build_batch([Record(key=b"k", value=b"v", timestamp=now + DAY)])),
    (
        "one of three a day ahead, lz4",
        lambda now: build_batch([*_records(now, 2), Record(key=b"k", timestamp=now + DAY)], codec=3),
    ),
    (
        "no key and a day ahead",
        lambda now: build_batch([Record(value=b"v", timestamp=now), Record(key=b"k", timestamp=now + DAY)]),
    ),
    ("false max timestamp", lambda now: _patched(now, ">q", 35, now - 5000)),
    ("false max timestamp, gzip", lambda now: _patched(now, ">q", 35, now - 5000, codec=1)),
    ("max timestamp a day ahead", lambda now: _patched(now, ">q", 35, now + DAY)),
    ("marked as log append time", lambda now: build_batch(_records(now), log_append_time=now)),
    ("marked as log append time, a day old", lambda now: build_batch(_records(now), log_append_time=now - DAY)),
    ("marked as log append time, a day ahead", lambda now: build_batch(_records(now), log_append_time=now + DAY)),
    ("snappy", lambda now: bytes(_good(now, codec=2))),
    ("zstd", lambda now: bytes(_good(now, codec=4))),
    ("large", lambda now: build_batch([Record(key=b"k", value=bytes(3000), timestamp=now)])),
    ("large, zstd", lambda now: build_batch([Record(key=b"k", value=bytes(3000), timestamp=now)], codec=4)),
    ("large with wrong crc", lambda now: build_batch([Record(key=b"k", value=bytes(3000), timestamp=now)])[:-1] + b"!"),
]

TOPICS: dict[str, tuple[dict[str, str], list[Case]]] = {
    "plain": ({}, FRAMING + HEADER + RECORDS + KEYS_AND_TIMES),
    "compacted": ({"cleanup.policy": "compact"}, KEYS_AND_TIMES),
    "append-time": ({"message.timestamp.type": "LogAppendTime"}, RECORDS + KEYS_AND_TIMES),
    "narrow": ({"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}, KEYS_AND_TIMES),
    "small": ({"max.message.bytes": "1000"}, FRAMING + KEYS_AND_TIMES),
    "gzip": ({"compression.type": "gzip"}, RECORDS + KEYS_AND_TIMES),
    "uncompressed": ({"compression.type": "uncompressed", "max.message.bytes": "1000"}, RECORDS + KEYS_AND_TIMES),
    "compacted-gzip": ({"cleanup.policy": "compact", "compression.type": "gzip"}, KEYS_AND_TIMES),
    "tiny-segments": ({"segment.bytes": "1048576"}, KEYS_AND_TIMES[:1]),
}

"""Produce: batches that are wrong in themselves, one fault each. The log must stay as it was."""

from tests.conformance import batches
from tests.conformance.batches import CODEC_NAMES, Record, encode_record, legacy_message_set, varint
from tests.conformance.scenario import scenario
from tests.conformance.session import Session

SERVED = range(3, 14)


@scenario("produce", versions=SERVED)
def batches_with_wrong_headers(s: Session, version: int) -> None:
    topic = s.create("a")

    def ask(step: str, *records: batches.Batch | bytes) -> None:
        s.offer(step, topic, *records)

    good = s.batch("x", "y")
    whole = good.encode()
    ask("wrong CRC", good.but(crc_error=1))
    ask("wrong CRC, compressed", good.but(crc_error=1, codec=batches.LZ4))
    for magic in (0, 1, 3, 127, -1):
        ask(f"magic {magic}", good.but(magic=magic))
    ask("message set of magic 0", legacy_message_set(b"old", 0, s.at(0)))
    ask("message set of magic 1", legacy_message_set(b"old", 1, s.at(0)))
    for cut in (1, 10, len(whole) - 61, len(whole) - 40, len(whole) - 12, len(whole) - 5):
        ask(f"cut to {len(whole) - cut} bytes", whole[:-cut])
    ask("length one too large", good.but(length_error=1))
    ask("length one too small", good.but(length_error=-1))
    ask("length negative", good.but(length_error=-1000))
    ask("length below the header", good.but(length_error=-len(whole) + 12 + 20))
    ask("two batches", whole, whole)
    ask("batch and trailing bytes", whole, b"\x00" * 5)
    ask("batch and trailing garbage", whole, b"\xff" * 70)
    ask("zeros", bytes(200))
    ask("no record, count 0", good.but(records=()))
    for codec in (5, 6, 7):
        ask(f"codec {codec}", good.but(codec=codec, payload=b"abc"))
    ask("control batch", good.but(flags=batches.CONTROL))
    ask("control and transactional", good.but(flags=batches.CONTROL | batches.TRANSACTIONAL))
    ask("transactional without a producer", good.but(flags=batches.TRANSACTIONAL))
    ask(
        "transactional without a transaction",
        s.batch("x", flags=16, producer_id=5, producer_epoch=0, base_sequence=0),
    )
    ask("unused attribute bits", good.but(flags=0x700))
    ask("delete horizon", good.but(flags=batches.DELETE_HORIZON))
    ask("producer without epoch", good.but(producer_id=5, producer_epoch=-1, base_sequence=0))
    ask("producer without sequence", good.but(producer_id=5, producer_epoch=0, base_sequence=-1))
    ask("sequence without producer", good.but(base_sequence=3))
    ask("negative producer", good.but(producer_id=-5, producer_epoch=0, base_sequence=0))


@scenario("produce", versions=SERVED)
def batches_that_lie_about_records(s: Session, version: int) -> None:
    topic = s.create("a")
    for codec in (batches.NONE, batches.GZIP, batches.SNAPPY, batches.LZ4, batches.ZSTD):
        if codec == batches.ZSTD and version < 7:
            continue
        good = s.batch("x", "y", "z", codec=codec)

        def ask(step: str, batch: batches.Batch, codec: int = codec) -> None:
            s.offer(f"{CODEC_NAMES[codec]}: {step}", topic, batch)

        ask("count one more", good.but(count=4))
        ask("count one less", good.but(count=2))
        ask("count and delta one more", good.but(count=4, last_offset_delta=3))
        ask("count and delta one less", good.but(count=2, last_offset_delta=1))
        ask("count 0", good.but(count=0))
        ask("count negative", good.but(count=-1))
        ask("count huge", good.but(count=2**31 - 1, last_offset_delta=2**31 - 2))
        ask("delta one more", good.but(last_offset_delta=3))
        ask("delta negative", good.but(last_offset_delta=-1))
        repeated = (Record(), Record(offset_delta=0))
        ask("offsets repeat", good.but(records=repeated))
        ask("offsets skip", good.but(records=(Record(), Record(offset_delta=5)), last_offset_delta=5))
        ask("offsets skip, delta does not", good.but(records=(Record(), Record(offset_delta=5))))
        ask(
            "first offset not 0",
            good.but(records=(Record(offset_delta=1), Record(offset_delta=2)), last_offset_delta=2),
        )
        ask("offset negative", good.but(records=(Record(offset_delta=-1), Record())))


@scenario("produce", versions=SERVED)
def batches_with_broken_records(s: Session, version: int) -> None:
    topic = s.create("a")
    record = encode_record(Record(b"key", b"value", 0, (("h", b"v"),)), 0)
    body = record[1:]
    payloads = {
        "empty": b"",
        "cut": record[:-3],
        "trailing byte": record + b"\x00",
        "length too large": varint(len(body) + 5) + body,
        "length too small": varint(len(body) - 1) + body,
        "length negative": varint(-1) + body,
        "length zero": varint(0),
        "length huge": varint(2**31 - 1) + body,
        "length varint endless": b"\xff" * 11,
        "key length beyond": varint(20) + b"\x00\x00\x00" + varint(100) + b"abcdefgh" * 2,
        "key length -2": varint(7) + b"\x00\x00\x00" + varint(-2) + varint(1) + b"v" + varint(0),
        "value length -2": varint(7) + b"\x00\x00\x00" + varint(1) + b"k" + varint(-2) + varint(0),
        "value length beyond": varint(7) + b"\x00\x00\x00" + varint(-1) + varint(50) + b"v" + varint(0),
        "header count negative": varint(6) + b"\x00\x00\x00" + varint(-1) + varint(-1) + varint(-1),
        "header count beyond": varint(6) + b"\x00\x00\x00" + varint(-1) + varint(-1) + varint(9),
        "header key null": varint(8) + b"\x00\x00\x00" + varint(-1) + varint(-1) + varint(1) + varint(-1) + varint(-1),
        "record attributes set": varint(6) + b"\x7f\x00\x00" + varint(-1) + varint(-1) + varint(0),
        "garbage": b"\x93\x11\xa7\xff\x00\x7c\x41\x08" * 8,
    }
    for codec in range(5):
        if codec == batches.ZSTD and version < 7:
            continue
        for label, payload in payloads.items():
            packed = s.batch("x", codec=codec).but(payload=batches.compress(codec, payload))
            s.offer(f"{CODEC_NAMES[codec]}: {label}", topic, packed)
    for codec in range(1, 5):
        good = batches.compress(codec, encode_record(Record(b"k", b"v" * 100), 0))
        for label, packed_payload in (
            ("not compressed", record),
            ("noise", b"\x93\x11\xa7\xff\x00\x7c\x41\x08" * 8),
            ("nothing", b""),
            ("cut", good[:-4]),
            ("trailing bytes", good + b"trailing"),
        ):
            batch = s.batch("x", codec=codec).but(payload=packed_payload)
            s.offer(f"payload of {CODEC_NAMES[codec]}: {label}", topic, batch)


@scenario("produce", versions=SERVED)
def batches_for_compacted_topics(s: Session, version: int) -> None:
    for policy in ("compact", "compact,delete"):
        topic = s.create(policy.replace(",", "-"), configs={"cleanup.policy": policy})
        keyless, keyed = Record(None, b"v"), Record(b"k", b"v")
        s.ask(f"{policy}: keyless", "produce", s.produce(topic, s.batch().but(records=(keyless,))))
        mixed = (keyed, keyless, keyed, keyless)
        s.ask(f"{policy}: two of four keyless", "produce", s.produce(topic, s.batch().but(records=mixed)))
        packed = s.batch(codec=batches.LZ4).but(records=mixed)
        s.ask(f"{policy}: two of four keyless, compressed", "produce", s.produce(topic, packed))
        s.ask(f"{policy}: keyed", "produce", s.produce(topic, s.batch("x")))
        s.ask(f"{policy}: tombstone", "produce", s.produce(topic, s.batch().but(records=(Record(b"k", None),))))
        s.ask(f"{policy}: empty key", "produce", s.produce(topic, s.batch().but(records=(Record(b"", b"v"),))))
        s.ask(f"{policy}: read back", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def batches_with_zstd(s: Session, version: int) -> None:
    topic = s.create("a")
    s.ask("zstd", "produce", s.produce(topic, s.batch("x", codec=batches.ZSTD)))
    s.ask("zstd, wrong CRC", "produce", s.produce(topic, s.batch("x", codec=batches.ZSTD, crc_error=1)))
    s.ask("two batches", "produce", s.produce(topic, s.batch("x"), s.batch("y", codec=batches.ZSTD)))

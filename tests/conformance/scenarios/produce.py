"""Produce: what is accepted, what it becomes on disk, and the refusals that need no look into the batch."""

from typing import Any

from tests.conformance import batches
from tests.conformance.batches import CODEC_NAMES, Record
from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic

SERVED = range(3, 14)


@scenario("produce", versions=SERVED)
def produce(s: Session, version: int) -> None:
    topic = s.create("a", partitions=2)
    s.ask("one record", "produce", s.produce(topic, s.batch("x")))
    s.ask("three records", "produce", s.produce(topic, s.batch("x", "y", "z", at=10)))
    s.ask("acks 1", "produce", s.produce(topic, s.batch("one"), acks=1))
    odd = (
        Record(None, b"no key"), Record(b"no value", None), Record(None, None), Record(b"", b""),
        Record(b"k", b"v", 5, (("h", b"1"), ("h", None), ("", b""))), Record(b"k", b"x" * 5000, -3),
    )  # fmt: skip
    s.ask("odd records", "produce", s.produce(topic, s.batch().but(records=odd)))
    for codec in range(5):
        if codec != batches.ZSTD or version >= 7:
            s.ask(f"codec {CODEC_NAMES[codec]}", "produce", s.produce(topic, s.batch("p", "q", codec=codec)))
    s.ask("base offset 77", "produce", s.produce(topic, s.batch("x", base_offset=77)))
    s.ask("leader epoch 9", "produce", s.produce(topic, s.batch("x", leader_epoch=9)))
    s.tell("produce", s.produce(topic, s.batch("unheard"), acks=0))
    s.ask("after acks 0", "produce", s.produce(topic, s.batch("heard")))
    s.ask("timeout 0", "produce", s.produce(topic, s.batch("x"), timeout=0))
    s.ask("other partition", "produce", s.produce(topic, s.batch("x"), partition=1))
    s.ask("what a reader finds", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def produce_to_several(s: Session, version: int) -> None:
    first, second, missing = s.create("a", 2), s.create("b"), Topic(s.topic_name("missing"), None)
    one, two, three = (s.produce(t, s.batch("x"))["topic_data"][0] for t in (first, second, missing))
    both = dict(one, partition_data=[*one["partition_data"], {"index": 1, "records": s.batch("y").encode()}])
    bad = dict(one, partition_data=[*one["partition_data"], {"index": 7, "records": s.batch("y").encode()}])
    corrupt = dict(two, partition_data=[{"index": 0, "records": s.batch("y", crc_error=1).encode()}])

    def ask(step: str, *data: Any) -> None:
        s.ask(step, "produce", {"acks": -1, "timeout": 5000, "topic_data": list(data)})

    ask("two partitions", both)
    ask("two topics", one, two)
    ask("one partition unknown", bad)
    ask("one topic unknown", one, three)
    ask("one batch corrupt", one, corrupt)
    ask("one topic without partitions", dict(one, partition_data=[]), two)
    again = {"index": 0, "records": s.batch("again").encode()}
    ask("a partition twice", dict(one, partition_data=[*one["partition_data"], again]))
    ask("a topic twice", one, two, dict(one, partition_data=[{"index": 1, "records": s.batch("z").encode()}]))
    stray = {"index": 0, "records": s.batch("y", flags=batches.TRANSACTIONAL).encode()}
    ask("one batch of a transaction", one, dict(two, partition_data=[stray]), three)
    s.ask("log", "fetch", s.fetch(first, 0), version=12)
    ask("nothing")


@scenario("produce", versions=SERVED)
def produce_refused_unread(s: Session, version: int) -> None:
    topic = s.create("a")
    missing = Topic(s.topic_name("missing"), "12345678-1234-4234-8234-123456789abc")
    s.ask("unknown topic", "produce", s.produce(missing, s.batch("x")))
    s.ask("illegal name or no id", "produce", s.produce(Topic("a b", None), s.batch("x")))
    s.ask("empty name or no id", "produce", s.produce(Topic("", None), s.batch("x")))
    for partition in (1, 100, -1, -(2**31), 2**31 - 1):
        s.ask(f"partition {partition}", "produce", s.produce(topic, s.batch("x"), partition=partition))
    for acks in (2, -2, 32767):
        s.ask(f"acks {acks}", "produce", s.produce(topic, s.batch("x"), acks=acks))
    s.ask("no records", "produce", s.produce(topic, b""))
    s.ask("null list", "produce", {"acks": -1, "timeout": 5000, "topic_data": None})
    s.ask("negative timeout", "produce", s.produce(topic, s.batch("x"), timeout=-1))
    s.tell("produce", s.produce(topic, s.batch("x", crc_error=1), acks=0))
    answer = s.client.receive(10)
    s.note("a refused batch with acks 0", answer if isinstance(answer, bytes) else answer.value)
    for internal in ("__cluster_metadata",):
        s.ask(f"topic {internal}", "produce", s.produce(Topic(internal, None), s.batch("x")))
    s.ask("log is still empty but for one", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def produce_with_too_few_replicas(s: Session, version: int) -> None:
    topic = s.create("a", configs={"min.insync.replicas": "2"})
    s.ask("acks all", "produce", s.produce(topic, s.batch("x")))
    s.ask("acks 1", "produce", s.produce(topic, s.batch("y"), acks=1))
    s.ask("acks all again", "produce", s.produce(topic, s.batch("z")))
    s.ask("what a reader sees", "fetch", s.fetch(topic, 0), version=12)
    latest = {"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    s.ask("latest offset", "list_offsets", {"replica_id": -1, "topics": [latest]}, version=7)


@scenario("produce", versions=[13])
def produce_that_swells(s: Session, version: int) -> None:
    """Small on the wire, large when unpacked."""
    topic = s.create("a")
    for megabytes in (8, 64):
        for codec in range(1, 5):
            swelling = s.batch("\0" * (megabytes << 20), codec=codec)
            if len(swelling.encode()) < 1_000_000:
                s.ask(f"{megabytes} MB by {CODEC_NAMES[codec]}", "produce", s.produce(topic, swelling))


@scenario("produce", versions=[13])
def produce_null_records(s: Session, version: int) -> None:
    s.ask("null records", "produce", s.produce(s.create("a"), None), seconds=2)


@scenario("produce", versions=SERVED)
def produce_times(s: Session, version: int) -> None:
    stamped = s.create("append-time", configs={"message.timestamp.type": "LogAppendTime"})
    s.ask("append time", "produce", s.produce(stamped, s.batch("x", "y")))
    s.ask("append time, compressed", "produce", s.produce(stamped, s.batch("x", "y", codec=batches.LZ4)))
    far = s.batch("x").but(base_timestamp=s.at(10 * 86400))
    s.ask("append time, from the future", "produce", s.produce(stamped, far))
    s.ask("append time read back", "fetch", s.fetch(stamped, 0), version=12)
    plain = s.create("create-time")
    s.ask("from the future", "produce", s.produce(plain, far))
    mixed = (Record(), Record(timestamp_delta=10 * 86400 * 1000), Record(), Record(timestamp_delta=20 * 86400 * 1000))
    s.ask("two of four from the future", "produce", s.produce(plain, s.batch().but(records=mixed)))
    s.ask("two of four from the future, compressed", "produce", s.produce(plain, s.batch(codec=1).but(records=mixed)))
    s.ask("from the past", "produce", s.produce(plain, s.batch("x").but(base_timestamp=1000)))
    s.ask("no time", "produce", s.produce(plain, s.batch("x").but(base_timestamp=-1)))
    s.ask("time -2", "produce", s.produce(plain, s.batch("x").but(base_timestamp=-2)))
    s.ask("max timestamp too high", "produce", s.produce(plain, s.batch("x", "y").but(max_timestamp=s.at(500))))
    s.ask("max timestamp too low", "produce", s.produce(plain, s.batch("x", "y").but(max_timestamp=s.at(-500))))
    s.ask("no max timestamp", "produce", s.produce(plain, s.batch("x", "y").but(max_timestamp=-1)))
    s.ask("claims append time", "produce", s.produce(plain, s.batch("x", flags=batches.LOG_APPEND_TIME)))
    strict = s.create(
        "strict", configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    )
    s.ask("too old", "produce", s.produce(strict, s.batch("x", "y")))
    s.ask(
        "too old, compressed", "produce", s.produce(strict, s.batch("x", "y", codec=batches.ZSTD if version > 6 else 1))
    )
    s.ask("read back", "fetch", s.fetch(plain, 0), version=12)


@scenario("produce", versions=SERVED)
def produce_recompressed(s: Session, version: int) -> None:
    """`compression.type` other than producer: the broker packs anew."""
    for wanted in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = s.create(wanted, configs={"compression.type": wanted})
        s.ask(f"plain to {wanted}", "produce", s.produce(topic, s.batch("x", "y")))
        s.ask(f"gzip to {wanted}", "produce", s.produce(topic, s.batch("x", "y", "z", at=9, codec=batches.GZIP)))
        s.ask(f"lz4 to {wanted}", "produce", s.produce(topic, s.batch("x", "y", at=9, codec=batches.LZ4)))
        s.ask(f"{wanted} read back", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def produce_sizes(s: Session, version: int) -> None:
    small = s.create("small", configs={"max.message.bytes": "500"})
    s.ask("fits", "produce", s.produce(small, s.batch("x" * 400)))
    s.ask("too large", "produce", s.produce(small, s.batch("x" * 600)))
    s.ask("too large but compressed", "produce", s.produce(small, s.batch("x" * 600, codec=batches.GZIP)))
    repacked = s.create("repacked", configs={"max.message.bytes": "500", "compression.type": "uncompressed"})
    s.ask("too large after unpacking", "produce", s.produce(repacked, s.batch("x" * 600, codec=batches.GZIP)))
    plain = s.create("plain")
    largest = 1048588 - len(s.batch("").encode()) - 6
    s.ask("default limit, near", "produce", s.produce(plain, s.batch("x" * largest)))
    s.ask("default limit, over", "produce", s.produce(plain, s.batch("x" * 1048588)))
    segment = s.create("segment", configs={"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    s.ask("larger than a segment", "produce", s.produce(segment, s.batch("x" * 1500000)))
    latest = [{"partition_index": 0, "timestamp": -1}]
    topics = [{"name": topic.name, "partitions": latest} for topic in (small, repacked, plain)]
    s.ask("offsets", "list_offsets", {"replica_id": -1, "topics": topics}, version=7)

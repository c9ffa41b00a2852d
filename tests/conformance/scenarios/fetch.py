"""Fetch: offsets, limits, epochs, isolation, topic ids. Sessions have a module of their own."""

from typing import Any

from tests.conformance import batches
from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic

UNKNOWN_ID = "12345678-1234-4234-8234-123456789abc"


def _filled(s: Session, label: str = "a") -> Topic:
    """Offsets 0, 1-3, 4-5 (gzip), 6; the second batch is the largest."""
    topic = s.create(label)
    s.fill(topic, s.batch("zero"), s.batch("one", "two" * 50, "three", at=10))
    s.fill(topic, s.batch("four", "five", at=20, codec=batches.GZIP), s.batch("six", at=30))
    return topic


@scenario("fetch")
def fetch_offsets(s: Session, version: int) -> None:
    topic = _filled(s)
    for offset in (0, 1, 2, 3, 4, 5, 6, 7, 8, 1000, -1, -2, 2**63 - 1, -(2**63)):
        s.ask(f"offset {offset}", "fetch", s.fetch(topic, offset))
    s.send("delete_records", {
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout": 5000,
    })  # fmt: skip
    for offset in (0, 1, 2, 3):
        s.ask(f"offset {offset} after the log starts at 2", "fetch", s.fetch(topic, offset))
    empty = s.create("empty")
    for offset in (0, 1):
        s.ask(f"offset {offset} of an empty log", "fetch", s.fetch(empty, offset))


@scenario("fetch")
def fetch_unknown(s: Session, version: int) -> None:
    topic, missing = s.create("a"), Topic(s.topic_name("missing"), UNKNOWN_ID)
    s.ask("unknown topic", "fetch", s.fetch(missing, 0))
    s.ask("illegal name or no id", "fetch", s.fetch(Topic("a b", None), 0))
    s.ask("empty name or no id", "fetch", s.fetch(Topic("", None), 0))
    for partition in (1, -1, 2**31 - 1):
        s.ask(f"partition {partition}", "fetch", s.fetch(topic, 0, partition=partition))
    good, bad = s.fetch(topic, 0)["topics"][0], s.fetch(missing, 0)["topics"][0]
    s.ask("one good, one unknown", "fetch", {**s.fetch(topic, 0), "topics": [good, bad]})
    s.ask("a topic twice", "fetch", {**s.fetch(topic, 0), "topics": [good, good]})
    twice = dict(good, partitions=good["partitions"] * 2)
    s.ask("a partition twice", "fetch", {**s.fetch(topic, 0), "topics": [twice]})
    s.ask("no partitions", "fetch", {**s.fetch(topic, 0), "topics": [dict(good, partitions=[])]})
    s.ask("nothing", "fetch", {**s.fetch(topic, 0), "topics": []})
    s.ask("null list", "fetch", {**s.fetch(topic, 0), "topics": None})
    s.send("delete_topics", {"topics": [{"name": topic.name}], "timeout": 5000})
    s.until(lambda: not s.is_known(topic.name), "deletion")
    s.ask("deleted topic", "fetch", s.fetch(topic, 0))


@scenario("fetch")
def fetch_limits(s: Session, version: int) -> None:
    topic = _filled(s)
    for limit in (1, 0, -1, 75, 100, 300, 2**31 - 1, -(2**31)):
        s.ask(f"partition limit {limit}", "fetch", s.fetch(topic, 0, partition_max_bytes=limit))
        s.ask(f"limit {limit}", "fetch", s.fetch(topic, 0, max_bytes=limit))
    s.ask("limit 1 on the large batch", "fetch", s.fetch(topic, 2, partition_max_bytes=1, max_bytes=1))
    s.ask("limit that holds one batch and a half", "fetch", s.fetch(topic, 0, partition_max_bytes=150))
    s.ask("more asked than there is", "fetch", s.fetch(topic, 0, min_bytes=10_000, max_wait=50))
    s.ask("nothing there, waits", "fetch", s.fetch(topic, 7, min_bytes=1, max_wait=50))
    s.ask("nothing there, does not wait", "fetch", s.fetch(topic, 7, min_bytes=0, max_wait=10_000))
    s.ask("an error ends the wait", "fetch", s.fetch(topic, 99, min_bytes=1, max_wait=10_000))
    s.ask("negative wait", "fetch", s.fetch(topic, 7, min_bytes=1, max_wait=-1))
    s.ask("negative minimum", "fetch", s.fetch(topic, 7, min_bytes=-1, max_wait=10_000))
    other = _filled(s, "b")
    parts = [s.fetch(t, 0)["topics"][0] for t in (topic, other)]
    for limit in (1, 100, 400, 10_000):
        asked = {**s.fetch(topic, 0), "topics": parts, "max_bytes": limit}
        s.ask(f"two topics within {limit}", "fetch", asked)
    s.ask("empty one first, limit 1", "fetch", {
        **s.fetch(topic, 0, max_bytes=1), "topics": [s.fetch(topic, 7)["topics"][0], parts[1]],
    })  # fmt: skip


@scenario("fetch")
def fetch_epochs(s: Session, version: int) -> None:
    """Leader epochs the client believes in (from version 9) and those it has fetched (from version 12)."""
    topic = _filled(s)
    for epoch in (0, 1, 100, -1, -2):
        s.ask(f"current epoch {epoch}", "fetch", s.fetch(topic, 0, current_leader_epoch=epoch))
    for epoch in (0, 1, 100, -1, -2):
        s.ask(f"last fetched epoch {epoch}", "fetch", s.fetch(topic, 4, last_fetched_epoch=epoch))
    s.ask("last fetched epoch 0 at the end", "fetch", s.fetch(topic, 7, last_fetched_epoch=0))
    s.ask("last fetched epoch 0 past the end", "fetch", s.fetch(topic, 8, last_fetched_epoch=0))
    s.ask("last fetched epoch of an empty log", "fetch", s.fetch(s.create("empty"), 0, last_fetched_epoch=0))
    s.ask("both wrong", "fetch", s.fetch(topic, 99, current_leader_epoch=5, last_fetched_epoch=5))
    s.ask("log start given", "fetch", s.fetch(topic, 0, log_start_offset=3))


@scenario("fetch")
def fetch_readers(s: Session, version: int) -> None:
    topic = _filled(s)
    for level in (0, 1, 2, -1):
        s.ask(f"isolation level {level}", "fetch", s.fetch(topic, 0, isolation_level=level))
    s.ask("read committed at the end", "fetch", s.fetch(topic, 7, isolation_level=1))
    s.ask("read committed past the end", "fetch", s.fetch(topic, 8, isolation_level=1))
    s.ask("rack", "fetch", s.fetch(topic, 0, rack_id="somewhere"))
    for replica in (-2, -3, 99):
        as_replica = {"replica_id": replica, "replica_state": {"replica_id": replica, "replica_epoch": -1}}
        s.ask(f"replica {replica}", "fetch", {**s.fetch(topic, 0), **as_replica})
    s.ask("cluster id of another", "fetch", s.fetch(topic, 0, cluster_id="another-cluster"))


@scenario("fetch")
def fetch_that_waits(s: Session, version: int) -> None:
    """A record that arrives ends the wait of another connection's fetch."""
    topic = s.create("a")
    with s.waiting_for("woken by a record", "fetch", s.fetch(topic, 0, min_bytes=1, max_wait=20_000)):
        s.fill(topic, s.batch("x"))
    enough = 2 * len(s.batch("y").encode())
    with s.waiting_for("woken by the second record", "fetch", s.fetch(topic, 1, min_bytes=enough, max_wait=20_000)):
        s.fill(topic, s.batch("y"))
        s.fill(topic, s.batch("z"))


@scenario("fetch", versions=range(4, 19))
def fetch_batches(s: Session, version: int) -> None:
    """What was stored is what is served, at every version."""
    topic = s.create("a")
    for codec in range(5):
        s.fill(topic, s.batch("x", "y", at=codec, codec=codec))
    answer: Any = s.ask("every codec", "fetch", s.fetch(topic, 0))
    s.note("bytes", len(answer["responses"][0]["partitions"][0]["records"]))
    stamped = s.create("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    s.fill(stamped, s.batch("x", "y"), s.batch("x", "y", codec=batches.SNAPPY))
    s.ask("append time", "fetch", s.fetch(stamped, 0))

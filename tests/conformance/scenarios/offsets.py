"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from typing import Any

from tests.conformance import batches
from tests.conformance.batches import Record
from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic


def _listing(s: Session, *wanted: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    """Topic name, partition and timestamp each."""
    topics = [
        {"name": name, "partitions": [{"partition_index": index, "timestamp": time}]} for name, index, time in wanted
    ]
    return {"replica_id": -1, "topics": topics, "timeout": 5000, **more}


def _timed(s: Session) -> Topic:
    """Times that go up, down inside a batch, and up again; one batch is compressed."""
    topic = s.create("timed")
    s.fill(topic, s.batch("0", "1", "2", at=0))
    down = (Record(b"k", b"3", 100_000), Record(b"k", b"4", 50_000), Record(b"k", b"5", 100_000))
    s.fill(topic, s.batch(at=0).but(records=down, codec=batches.LZ4), s.batch("6", at=60), s.batch("7", "8", at=100))
    return topic


@scenario("list_offsets")
def list_offsets(s: Session, version: int) -> None:
    topic, empty = _timed(s), s.create("empty")
    for time in (-1, -2, -3, -4, -5, -6, -7, -100):
        s.ask(f"special {time}", "list_offsets", _listing(s, (topic.name, 0, time)))
        s.ask(f"special {time} of an empty log", "list_offsets", _listing(s, (empty.name, 0, time)))
    for seconds in (-10, 0, 0.5, 1, 2, 2.001, 50, 60, 99, 100, 100.5, 101, 102, 5000):
        s.ask(f"time T+{seconds}", "list_offsets", _listing(s, (topic.name, 0, s.at(seconds))))
    s.ask("time 0", "list_offsets", _listing(s, (topic.name, 0, 0)))
    s.ask("largest time", "list_offsets", _listing(s, (topic.name, 0, 2**63 - 1)))
    s.ask("time 0 of an empty log", "list_offsets", _listing(s, (empty.name, 0, 0)))
    s.send("delete_records", {
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 4}]}], "timeout": 5000,
    })  # fmt: skip
    for time in (-1, -2, -3, -4):
        s.ask(f"special {time} after the log starts at 4", "list_offsets", _listing(s, (topic.name, 0, time)))
    s.ask("time before the start", "list_offsets", _listing(s, (topic.name, 0, s.at(0))))
    s.ask(
        "time of a record before the start in the first batch", "list_offsets", _listing(s, (topic.name, 0, s.at(90)))
    )


@scenario("list_offsets")
def list_offsets_refused(s: Session, version: int) -> None:
    topic = s.create("a", 2)
    s.fill(topic, s.batch("x", "y"))
    for time in (-1, -2, 0, -3):
        s.ask(f"unknown topic, {time}", "list_offsets", _listing(s, (s.topic_name("missing"), 0, time)))
        s.ask(f"unknown partition, {time}", "list_offsets", _listing(s, (topic.name, 9, time)))
    s.ask("negative partition", "list_offsets", _listing(s, (topic.name, -1, -1)))
    s.ask("illegal name", "list_offsets", _listing(s, ("a b", 0, -1)))
    s.ask("empty name", "list_offsets", _listing(s, ("", 0, -1)))
    s.ask("two topics", "list_offsets", _listing(s, (topic.name, 0, -1), (s.topic_name("missing"), 0, -1)))
    one = {"partition_index": 0, "timestamp": -1}
    s.ask(
        "a partition twice",
        "list_offsets",
        {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [one, one]}]},
    )
    s.ask("a partition twice, differently", "list_offsets", {
        "replica_id": -1, "topics": [{"name": topic.name, "partitions": [one, {**one, "timestamp": -2}]}],
    })  # fmt: skip
    s.ask("both partitions", "list_offsets", {
        "replica_id": -1, "topics": [{"name": topic.name, "partitions": [one, {**one, "partition_index": 1}]}],
    })  # fmt: skip
    other = {"name": s.create("b").name, "partitions": [one]}
    scattered = [{"name": topic.name, "partitions": [one, {**one, "partition_index": 1}]}, other]
    scattered += [{"name": topic.name, "partitions": [one]}, {"name": other["name"], "partitions": []}]
    s.ask("a topic twice", "list_offsets", {"replica_id": -1, "topics": scattered})
    s.ask("a topic twice, isolation level 2", "list_offsets", {
        "replica_id": -1, "topics": scattered, "isolation_level": 2,
    })  # fmt: skip
    for index in (0, 9):
        twice = [{"partition_index": index, "timestamp": time} for time in (-77, -1)]
        content = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": twice}]}
        s.ask(f"partition {index} twice, once with an unknown time", "list_offsets", content)
    for epoch in (0, 1, -1, -2, 50):
        partition = {**one, "current_leader_epoch": epoch}
        content = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [partition]}]}
        s.ask(f"current epoch {epoch}", "list_offsets", content)
    for level in (0, 1, 2, -1):
        s.ask(f"isolation level {level}", "list_offsets", _listing(s, (topic.name, 0, -1), isolation_level=level))
    for replica in (-2, -3, 99, 1):
        s.ask(f"replica {replica}", "list_offsets", _listing(s, (topic.name, 0, -1), replica_id=replica))
    s.ask("no partitions", "list_offsets", {"replica_id": -1, "topics": [{"name": topic.name, "partitions": []}]})
    s.ask("nothing", "list_offsets", {"replica_id": -1, "topics": []})
    s.ask("null list", "list_offsets", {"replica_id": -1, "topics": None})


@scenario("list_offsets")
def list_offsets_by_append_time(s: Session, version: int) -> None:
    topic = s.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    s.fill(topic, s.batch("x", "y"))
    s.let_the_clock_tick()
    s.fill(topic, s.batch("z"))
    for time in (-1, -2, -3, 0):
        s.ask(f"time {time}", "list_offsets", _listing(s, (topic.name, 0, time)))
    s.ask("time of the client", "list_offsets", _listing(s, (topic.name, 0, s.at(0))))
    s.ask("tomorrow", "list_offsets", _listing(s, (topic.name, 0, s.at(86400))))


@scenario("offset_for_leader_epoch")
def offset_for_leader_epoch(s: Session, version: int) -> None:
    topic, empty = s.create("a", 2), s.create("empty")
    s.fill(topic, s.batch("x", "y", "z"))

    def ask(step: str, name: str, partition: int, epoch: int, current: int = -1, replica: int = -1) -> None:
        wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        content = {"replica_id": replica, "topics": [{"topic": name, "partitions": [wanted]}]}
        s.ask(step, "offset_for_leader_epoch", content)

    for epoch in (0, 1, 5, -1, -2, 2**31 - 1):
        ask(f"epoch {epoch}", topic.name, 0, epoch)
        ask(f"epoch {epoch} of an empty log", empty.name, 0, epoch)
    for current in (0, 1, -2, 7):
        ask(f"current epoch {current}", topic.name, 0, 0, current)
    for replica in (-2, -3, 99):
        ask(f"replica {replica}", topic.name, 0, 0, replica=replica)
    ask("unknown topic", s.topic_name("missing"), 0, 0)
    ask("unknown partition", topic.name, 9, 0)
    ask("negative partition", topic.name, -1, 0)
    ask("illegal name", "a b", 0, 0)
    ask("empty name", "", 0, 0)
    both = [{"partition": index, "leader_epoch": 0} for index in (0, 1, 1)]
    s.ask(
        "both and one twice",
        "offset_for_leader_epoch",
        {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": both}]},
    )
    s.ask("nothing", "offset_for_leader_epoch", {"replica_id": -1, "topics": []})
    s.ask("null list", "offset_for_leader_epoch", {"replica_id": -1, "topics": None})
    s.send("delete_records", {
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout": 5000,
    })  # fmt: skip
    ask("epoch 0 after the log starts at 2", topic.name, 0, 0)


@scenario("delete_records")
def delete_records(s: Session, version: int) -> None:
    topic = s.create("a", 2)
    s.fill(topic, s.batch("0", "1", "2"), s.batch("3", "4"), s.batch("5"))

    def ask(step: str, name: str, offset: int, partition: int = 0, timeout: int = 5000) -> None:
        wanted = {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}
        s.ask(step, "delete_records", {"topics": [wanted], "timeout": timeout})

    ask("to the start", topic.name, 0)
    ask("into a batch", topic.name, 1)
    s.ask("earliest is 1", "list_offsets", _listing(s, (topic.name, 0, -2)), version=7)
    s.ask("reads on from 1", "fetch", s.fetch(topic, 1), version=12)
    s.ask("offset 0 is gone", "fetch", s.fetch(topic, 0), version=12)
    ask("back to 0", topic.name, 0)
    ask("past the end", topic.name, 7)
    ask("far past the end", topic.name, 2**63 - 1)
    ask("offset -2", topic.name, -2)
    ask("to the end", topic.name, -1)
    s.ask("is empty", "list_offsets", _listing(s, (topic.name, 0, -2)), version=7)
    s.fill(topic, s.batch("6"))
    ask("exactly the end", topic.name, 7)
    ask("unknown topic", s.topic_name("missing"), 0)
    ask("unknown partition", topic.name, 0, partition=9)
    ask("negative partition", topic.name, 0, partition=-1)
    ask("illegal name", "a b", 0)
    ask("empty name", "", 0)
    ask("timeout 0", topic.name, 0, partition=1, timeout=0)
    ask("negative timeout", topic.name, 0, partition=1, timeout=-1)
    for policy in ("compact", "compact,delete"):
        compacted = s.create(policy.replace(",", "-"), configs={"cleanup.policy": policy})
        s.fill(compacted, s.batch("x", "y"))
        ask(f"policy {policy}", compacted.name, 1)
    parts = [{"partition_index": 1, "offset": 0}, {"partition_index": 9, "offset": 0}]
    s.ask(
        "one good, one unknown",
        "delete_records",
        {"topics": [{"name": topic.name, "partitions": parts}], "timeout": 5000},
    )
    s.ask("a partition twice", "delete_records", {
        "topics": [{"name": topic.name, "partitions": [parts[0], parts[0]]}], "timeout": 5000,
    })  # fmt: skip
    for first, second in ((-5, 0), (0, -5)):
        scattered = [{"name": topic.name, "partitions": [{"partition_index": 1, "offset": first}]}]
        scattered += [{"name": topic.name, "partitions": [{"partition_index": 1, "offset": second}, parts[1]]}]
        content = {"topics": scattered, "timeout": 5000}
        s.ask(f"a topic twice, a partition to {first} and to {second}", "delete_records", content)
    s.ask("no partitions", "delete_records", {"topics": [{"name": topic.name, "partitions": []}], "timeout": 5000})
    s.ask("nothing", "delete_records", {"topics": [], "timeout": 5000})
    s.ask("null list", "delete_records", {"topics": None, "timeout": 5000})

"""InitProducerId, sequences and epochs of producers, DescribeProducers, FindCoordinator."""

from tests.conformance.batches import Batch
from tests.conformance.scenario import scenario
from tests.conformance.session import Session

SERVED = range(3, 14)
SOME_ID = "EjRWeBI0QjSCNBI0VniavA"
LAST_SEQUENCE = 2**31 - 1


@scenario("init_producer_id")
def init_producer_id(s: Session, version: int) -> None:
    base = {"transactional_id": None, "transaction_timeout": 60_000}
    s.new_producer()
    s.ask("new id", "init_producer_id", base)
    s.ask("another id", "init_producer_id", base)
    s.ask("timeout 0", "init_producer_id", {**base, "transaction_timeout": 0})
    s.ask("timeout negative", "init_producer_id", {**base, "transaction_timeout": -1})
    s.ask("timeout of a year", "init_producer_id", {**base, "transaction_timeout": 2**31 - 1})
    s.ask("empty transactional id", "init_producer_id", {**base, "transactional_id": ""})
    s.ask("known id without transaction", "init_producer_id", {**base, "producer_id": 3, "producer_epoch": 2})
    s.ask("id without epoch", "init_producer_id", {**base, "producer_id": 3, "producer_epoch": -1})
    s.ask("epoch without id", "init_producer_id", {**base, "producer_id": -1, "producer_epoch": 2})
    s.ask("id -5", "init_producer_id", {**base, "producer_id": -5, "producer_epoch": -5})


def _sequenced(s: Session, producer: int, epoch: int, sequence: int, count: int = 1) -> Batch:
    values = [f"e{epoch} s{sequence + index}" for index in range(count)]
    return s.batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


@scenario("produce", versions=SERVED)
def producer_sequences(s: Session, version: int) -> None:
    topic, producer = s.create("a", 2), s.new_producer()

    def ask(step: str, sequence: int, count: int = 1, epoch: int = 0, partition: int = 0) -> None:
        s.ask(step, "produce", s.produce(topic, _sequenced(s, producer, epoch, sequence, count), partition=partition))

    ask("first", 0)
    ask("second, of three records", 1, 3)
    ask("third", 4)
    ask("duplicate of the third", 4)
    ask("duplicate of the second", 1, 3)
    ask("duplicate of the first", 0)
    ask("part of the second", 2)
    ask("second with fewer records", 1, 2)
    ask("a gap", 6)
    ask("a gap of many", 1000)
    ask("overlaps the end", 4, 2)
    ask("fourth", 5)
    for sequence in (6, 7, 8, 9):
        ask(f"sequence {sequence}", sequence)
    ask("duplicate older than five batches", 0)
    ask("duplicate of the oldest kept", 5)
    ask("duplicate just too old", 4)
    ask("other partition starts at 0", 0, partition=1)
    ask("negative sequence", -1)
    ask("sequence -2", -2)
    s.ask("log", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def producers_and_append_times(s: Session, version: int) -> None:
    """A batch that comes again, or too early, where the broker has put its own time into the first."""
    producer = s.new_producer()
    topic = s.create("a", configs={"message.timestamp.type": "LogAppendTime"})

    def ask(step: str, sequence: int, epoch: int = 0) -> None:
        s.ask(step, "produce", s.produce(topic, _sequenced(s, producer, epoch, sequence)))

    ask("first", 0)
    ask("duplicate of the first", 0)
    ask("second", 1)
    ask("duplicate of the second", 1)
    ask("a gap", 3)
    ask("newer epoch", 0, epoch=1)
    ask("older epoch", 2)
    ask("newer epoch goes on", 1, epoch=1)
    s.ask("log", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def producer_epochs(s: Session, version: int) -> None:
    topic, producer = s.create("a"), s.new_producer()

    def ask(step: str, epoch: int, sequence: int, count: int = 1) -> None:
        s.ask(step, "produce", s.produce(topic, _sequenced(s, producer, epoch, sequence, count)))

    ask("first, epoch 3", 3, 0)
    ask("older epoch", 2, 0)
    ask("older epoch, next sequence", 2, 1)
    ask("newer epoch, next sequence", 4, 1)
    ask("newer epoch, sequence 0", 4, 0)
    ask("newer epoch continues", 4, 1, 2)
    ask("back to epoch 3", 3, 1)
    ask("duplicate in the new epoch", 4, 0)
    ask("duplicate of the old epoch", 3, 0)
    ask("epoch -1", -1, 0)
    ask("largest epoch", 32767, 0)
    s.ask("log", "fetch", s.fetch(topic, 0), version=12)


@scenario("produce", versions=SERVED)
def producers_out_of_nowhere(s: Session, version: int) -> None:
    """Ids that were never given out, first sequences that are not 0, sequences that wrap."""
    topic = s.create("a")
    s.ask("unknown id, sequence 0", "produce", s.produce(topic, _sequenced(s, 7_000_000_001, 0, 0)))
    s.ask("unknown id, sequence 5", "produce", s.produce(topic, _sequenced(s, 7_000_000_002, 0, 5)))
    s.ask("it goes on", "produce", s.produce(topic, _sequenced(s, 7_000_000_002, 0, 6)))
    s.ask("unknown id, epoch 9, sequence 5", "produce", s.produce(topic, _sequenced(s, 7_000_000_003, 9, 5)))
    near = LAST_SEQUENCE - 1
    s.ask("near the end of sequences", "produce", s.produce(topic, _sequenced(s, 7_000_000_004, 0, near, 2)))
    s.ask("wraps to 0", "produce", s.produce(topic, _sequenced(s, 7_000_000_004, 0, 0)))
    s.ask("wraps inside a batch", "produce", s.produce(topic, _sequenced(s, 7_000_000_005, 0, LAST_SEQUENCE, 3)))
    s.ask("goes on after the wrap", "produce", s.produce(topic, _sequenced(s, 7_000_000_005, 0, 2)))
    s.ask("duplicate of the wrapped", "produce", s.produce(topic, _sequenced(s, 7_000_000_005, 0, LAST_SEQUENCE, 3)))
    two = s.produce(topic, _sequenced(s, 7_000_000_006, 0, 0), _sequenced(s, 7_000_000_006, 0, 1))
    s.ask("two batches in a request", "produce", two)
    named = s.produce(topic, _sequenced(s, 7_000_000_007, 0, 0), transactional_id="nobody")
    s.ask("a transactional id but a plain batch", "produce", named)


@scenario("describe_producers")
def describe_producers(s: Session, version: int) -> None:
    topic, producer = s.create("a", 2), s.new_producer()

    def ask(step: str, name: str, *partitions: int) -> None:
        s.ask(step, "describe_producers", {"topics": [{"name": name, "partition_indexes": list(partitions)}]})

    ask("no producer yet", topic.name, 0)
    s.fill(topic, s.batch("without id"))
    ask("none that counts", topic.name, 0)
    s.fill(topic, _sequenced(s, producer, 0, 0, 3), _sequenced(s, producer, 0, 3))
    ask("one producer", topic.name, 0, 1)
    s.fill(topic, _sequenced(s, producer, 1, 0), _sequenced(s, s.new_producer(), 0, 0, 2))
    s.ask(
        "two producers",
        "describe_producers",
        {"topics": [{"name": topic.name, "partition_indexes": [0]}]},
        ordered=False,
    )
    ask("unknown partition", topic.name, 9)
    ask("negative partition", topic.name, -1)
    ask("unknown topic", s.topic_name("missing"), 0)
    ask("illegal name", "a b", 0)
    ask("empty name", "", 0)
    ask("no partitions", topic.name)
    ask("a partition twice", topic.name, 1, 1)
    s.ask("no topics", "describe_producers", {"topics": []})
    s.ask("null list", "describe_producers", {"topics": None})


@scenario("find_coordinator")
def find_coordinator(s: Session, version: int) -> None:
    s.await_coordinator(0)
    s.await_coordinator(1)

    def ask(step: str, key_type: int, *keys: str) -> None:
        s.ask(
            step,
            "find_coordinator",
            {"key": keys[0] if keys else "", "key_type": key_type, "coordinator_keys": list(keys)},
        )

    ask("group", 0, "a-group")
    ask("empty group", 0, "")
    ask("transaction", 1, "a-transaction")
    ask("empty transaction", 1, "")
    ask("several groups", 0, "g1", "g2", "g3")
    ask("a group twice", 0, "g1", "g1")
    ask("no keys", 0)
    for key_type in (3, -1, 127):
        ask(f"type {key_type}", key_type, "k")
    s.ask("null list", "find_coordinator", {"key": "k", "key_type": 0, "coordinator_keys": None})


@scenario("find_coordinator")
def find_share_coordinator(s: Session, version: int) -> None:
    """Type 2 is for share groups, keys are group, topic id and partition. Only refusals: share groups come later."""

    def ask(step: str, *keys: str) -> None:
        s.ask(step, "find_coordinator", {"key": keys[0], "key_type": 2, "coordinator_keys": list(keys)})

    ask("malformed key", "a-group")
    ask("malformed partition", f"group:{SOME_ID}:x")
    ask("malformed id", "group:abc:0")
    ask("empty key", "")

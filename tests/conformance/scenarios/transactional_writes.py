"""Produce with a transactional id: what is verified with the coordinator, and what readers see of it."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session
from tests.conformance.transactors import (
    ADDS_PARTITIONS_FROM,
    Transactor,
    ask_until_settled,
    sorted_partitions,
    until_settled,
)

SERVED = range(3, 14)


@scenario("produce", versions=SERVED)
def transactional_writes(s: Session, version: int) -> None:
    topic = s.create("a", 3)
    one = Transactor(s, "one").begin()
    end_version = 5 if version >= ADDS_PARTITIONS_FROM else 4

    def ask(step: str, *values: str, partition: int = 0, **changes: Any) -> None:
        s.ask(step, "produce", one.produce(topic, *values, partition=partition, **changes))

    ask("without a word before", "a", "b")
    if version < ADDS_PARTITIONS_FROM:
        one.announce(topic, 0, 1)
        ask("announced", "a", "b")
    one.wrote(topic, 2)
    ask("goes on", "c")
    ask("goes on twice", "c")
    ask("another partition", "d", partition=1, base_sequence=0)
    ask("a third partition", "e", partition=2, base_sequence=0)
    nobody = s.produce(topic, one.batch("x", base_sequence=3), transactional_id=s.topic_name("nobody"))
    s.ask("another transactional id", "produce", nobody)
    ask("a plain batch in between", "plain", flags=0, base_sequence=4)
    ask("an older epoch", "old", producer_epoch=-1)
    ask("a later epoch", "later", producer_epoch=one.epoch + 1, base_sequence=0)
    ask("a later epoch elsewhere", "later", partition=2, producer_epoch=one.epoch + 1, base_sequence=0)
    ask("another producer", "other", producer_id=one.producer_id + 1_000_000, base_sequence=0)
    nobody = s.produce(topic, one.batch("x", base_sequence=0), partition=2, transactional_id=s.topic_name("nobody"))
    s.ask("another transactional id elsewhere", "produce", nobody)
    s.ask("an empty one", "produce", s.produce(topic, one.batch("x"), partition=2, transactional_id=""))
    s.ask("none", "produce", s.produce(topic, one.batch("x"), partition=2))
    unknown = one.produce(topic, "x", partition=9)
    s.ask("unknown partition", "produce", unknown)
    s.ask("state", "describe_transactions", one.itself(), version=0, edit=sorted_partitions)
    old_epoch = one.epoch
    one.finish(True, end_version)
    one.epoch = old_epoch
    ask("behind the end", "late", base_sequence=4)
    ask("behind the end elsewhere", "late", partition=2, base_sequence=1)
    s.ask("state at the end", "describe_transactions", one.itself(), version=0, edit=sorted_partitions)
    for partition in range(3):
        asked = s.fetch(topic, 0, partition=partition, isolation_level=1)
        s.ask(f"log {partition}", "fetch", asked, version=12)


@scenario("produce", versions=SERVED)
def writes_into_two_transactions(s: Session, version: int) -> None:
    """Interleaved in one partition: the last stable offset waits for the older one."""
    topic = s.create("a")
    one, two = Transactor(s, "one").begin(), Transactor(s, "two").begin()
    end_version = 5 if version >= ADDS_PARTITIONS_FROM else 4

    def look(step: str) -> None:
        s.ask(f"{step}: committed", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)
        latest = {"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
        asked = {"replica_id": -1, "isolation_level": 1, "topics": [latest]}
        s.ask(f"{step}: latest", "list_offsets", asked, version=7)

    s.fill(topic, s.batch("before"))
    one.write(topic, "1a", version=version)
    two.write(topic, "2a", "2b", version=version)
    s.fill(topic, s.batch("between"))
    one.write(topic, "1b", version=version)
    look("both open")
    two.finish(False, end_version)
    look("second aborted")
    two.write(topic, "2c", version=version)
    one.finish(True, end_version)
    look("first committed")
    one.write(topic, "1c", version=version)
    two.finish(True, end_version)
    look("second committed")
    one.finish(False, end_version)
    look("all ended")
    middle = s.fetch(topic, 4, isolation_level=1)
    s.ask("from the middle", "fetch", middle, version=12)


@scenario("produce", versions=[11, 13])
def writes_of_a_fenced_producer(s: Session, version: int) -> None:
    topic = s.create("a")
    one = Transactor(s, "one").begin()
    one.write(topic, "lost", version=version)
    successor = Transactor(s, "one").begin()
    s.ask("writes on", "produce", one.produce(topic, "zombie"))
    s.ask("announces", "add_partitions_to_txn", one.add(3, (topic, [0])), version=3)
    s.ask("commits", "end_txn", one.end(True), version=4 if version < 12 else 5)
    me = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
    ask_until_settled(s, "asks who it is", "init_producer_id", one.init(**me), version=5)
    successor.write(topic, "kept", version=version)
    s.ask("writes again", "produce", one.produce(topic, "zombie", base_sequence=0))
    successor.finish(True, 4 if version < 12 else 5)
    until_settled(s, lambda: s.send("init_producer_id", successor.init()))
    s.ask("log", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)

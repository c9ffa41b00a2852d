"""DescribeTransactions, ListTransactions, WriteTxnMarkers."""

from typing import Any

from tests.conformance.messages import Plain
from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic
from tests.conformance.transactors import Transactor, sorted_partitions


@scenario("describe_transactions")
def describe_transactions(s: Session, version: int) -> None:
    topic, other = s.create("a", 3), s.create("b")
    one = Transactor(s, "one").begin()

    def ask(step: str, *ids: str) -> None:
        s.ask(step, "describe_transactions", {"transactional_ids": list(ids)}, edit=sorted_partitions)

    ask("empty", one.transactional_id)
    one.write(topic, "x", partition=2)
    one.write(topic, "x")
    one.write(other, "x")
    ask("ongoing", one.transactional_id)
    one.finish(True)
    ask("committed", one.transactional_id)
    one.write(topic, "y")
    one.finish(False)
    ask("aborted", one.transactional_id)
    ask("unknown", s.topic_name("unknown"))
    ask("empty id", "")
    ask("nobody")
    ask("twice", one.transactional_id, one.transactional_id)


@scenario("list_transactions")
def list_transactions(s: Session, version: int) -> None:
    topic = s.create("a")
    _, ended, open_one = (Transactor(s, label).begin() for label in ("empty", "ended", "open"))
    ended.write(topic, "x")
    ended.finish(False)
    open_one.write(topic, "y")

    def own(answer: Plain) -> Plain:
        states = [
            state for state in answer["transaction_states"] if state["transactional_id"].startswith(s.normaliser.prefix)
        ]
        return {**answer, "transaction_states": states}

    def ask(step: str, **content: Any) -> None:
        s.ask(step, "list_transactions", {"state_filters": [], "producer_id_filters": [], **content}, edit=own)

    ask("all")
    ask("ongoing", state_filters=["Ongoing"])
    ask("two states", state_filters=["Empty", "CompleteAbort"])
    ask("unknown states", state_filters=["Empty", "Nonsense", "empty", "Nonsense"])
    ask("only unknown states", state_filters=["Nonsense"])
    ask("every state", state_filters=[
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence", "Unknown",
    ])  # fmt: skip
    ask("by producer", producer_id_filters=[ended.producer_id])
    ask("by producer and state", producer_id_filters=[ended.producer_id], state_filters=["Ongoing"])
    ask("unknown producer", producer_id_filters=[9_000_000_000])
    if version >= 1:
        s.let_the_clock_tick()
        for duration in (-5, -1, 0, 1, 3_600_000):
            ask(f"running for {duration}", duration_filter=duration)
    if version >= 2:
        prefix = s.normaliser.prefix
        for label, pattern in {
            "a pattern": ".*-open", "a prefix": prefix, "an alternative": f"{prefix}(open|empty)", "empty": "",
            "broken": "(", "a look ahead": "(?=x)", "a back reference": r"(a)\1", "none": None, "classes": r".*\pL+",
            "a name in the middle": "open",
        }.items():  # fmt: skip
            ask(f"pattern: {label}", transactional_id_pattern=pattern)
    open_one.finish(True)


@scenario("write_txn_markers")
def write_txn_markers(s: Session, version: int) -> None:
    topic, missing = s.create("a", 2), Topic(s.topic_name("missing"), None)
    one = Transactor(s, "one").begin().begin()

    def marker(commit: bool, *topics: tuple[Topic, list[int]], **changes: Any) -> Any:
        named = [{"name": name.name, "partition_indexes": indexes} for name, indexes in topics]
        return {
            "producer_id": one.producer_id, "producer_epoch": one.epoch, "coordinator_epoch": 5,
            "transaction_result": commit, "topics": named, **changes,
        }  # fmt: skip

    def ask(step: str, *markers: Any) -> None:
        s.ask(step, "write_txn_markers", {"markers": list(markers)})

    ask("nothing")
    ask("no topics", marker(True))
    ask("unknown topic", marker(True, (missing, [0])))
    ask("unknown partition", marker(True, (topic, [0, 9])))
    ask("a partition without a transaction", marker(False, (topic, [1])))
    ask("twice", marker(False, (topic, [1])))
    one.write(topic, "x", version=11)
    ask("an older producer epoch", marker(False, (topic, [0]), producer_epoch=0))
    ask("no producer epoch", marker(False, (topic, [0]), producer_epoch=-1))
    ask("an older coordinator", marker(False, (topic, [0, 1]), coordinator_epoch=4))
    ask("the end", marker(False, (topic, [0]), coordinator_epoch=6))
    ask("the end from an older coordinator", marker(True, (topic, [0]), coordinator_epoch=5))
    ask("a later producer epoch", marker(True, (topic, [0]), coordinator_epoch=6, producer_epoch=3))
    ask("the producer's epoch, behind a later one", marker(True, (topic, [0]), coordinator_epoch=6))
    ask("a producer never seen", marker(True, (topic, [1]), producer_id=8_000_000_001))
    ask("negative", marker(True, (topic, [1]), producer_id=-1))
    ask("two markers", marker(True, (topic, [0]), producer_epoch=3, coordinator_epoch=6), marker(True, (topic, [1])))
    for index in (0, 1):
        s.ask(f"log {index}", "fetch", s.fetch(topic, 0, partition=index, isolation_level=1), version=12)
    s.ask("producers", "describe_producers", {"topics": [{"name": topic.name, "partition_indexes": [0, 1]}]}, version=0)


@scenario("write_txn_markers", versions=[2])
def write_txn_markers_of_the_second_kind(s: Session, version: int) -> None:
    """Each transaction has an epoch of its own, and its markers carry the next one."""
    topic = s.create("a")
    one = Transactor(s, "one").begin()

    def ask(step: str, epoch: int, transaction_version: int = 2) -> None:
        wanted = {
            "producer_id": one.producer_id, "producer_epoch": epoch, "coordinator_epoch": 0,
            "transaction_result": False, "transaction_version": transaction_version,
            "topics": [{"name": topic.name, "partition_indexes": [0]}],
        }  # fmt: skip
        s.ask(step, "write_txn_markers", {"markers": [wanted]})

    ask("nothing is open", 0)
    ask("nothing is open, again", 0)
    ask("nothing is open, next", 1)
    one.begin().begin()
    one.write(topic, "x")
    ask("an older one", 1)
    ask("the epoch of the records", 2)
    ask("the next epoch", 3)
    ask("the next epoch again", 3)
    ask("the next epoch, the first kind", 3, 1)
    ask("the epoch of the records, the first kind", 2, 1)
    ask("of a kind to come", 4, 9)
    s.ask("log", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)

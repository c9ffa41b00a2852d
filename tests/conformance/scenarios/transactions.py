"""Transactional ids and their transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session, Topic
from tests.conformance.transactors import Transactor, ask_until_settled, sorted_partitions, until_settled

EXPECTED_FROM = 3


@scenario("init_producer_id")
def init_transactional_producer(s: Session, version: int) -> None:
    one = Transactor(s, "one").begin()

    def ask(step: str, who: Transactor = one, **content: Any) -> Any:
        return ask_until_settled(s, step, "init_producer_id", who.init(**content))

    ask("second epoch")
    for timeout in (0, -1, 900_000, 900_001, 2**31 - 1):
        ask(f"timeout {timeout}", timeout=timeout)
    ask("another id", Transactor(s, "two"))
    if version < EXPECTED_FROM:
        return
    three = Transactor(s, "three").begin()
    me = three.producer_id
    ask("who it is", three, producer_id=me, producer_epoch=0)
    ask("asked again", three, producer_id=me, producer_epoch=0)
    ask("who it is now", three, producer_id=me, producer_epoch=1)
    ask("two epochs ago", three, producer_id=me, producer_epoch=0)
    ask("an epoch to come", three, producer_id=me, producer_epoch=9)
    ask("another producer id", three, producer_id=me + 1_000_000, producer_epoch=2)
    ask("nobody asked for it", three)
    ask("whoever was there before that", three, producer_id=me, producer_epoch=2)
    ask("the epoch nobody asked for", three, producer_id=me, producer_epoch=3)
    ask("unknown but claims to be known", Transactor(s, "four"), producer_id=me, producer_epoch=5)
    ask("id without epoch", three, producer_id=me, producer_epoch=-1)
    ask("epoch without id", three, producer_id=-1, producer_epoch=4)


@scenario("init_producer_id")
def init_while_a_transaction_is_open(s: Session, version: int) -> None:
    """The open one is aborted; only the second try gets an epoch."""
    topic = s.create("a")
    for style, produce_version in (("announced", 11), ("added by the broker", 13)):
        one = Transactor(s, style).begin()
        one.write(topic, "lost", version=produce_version)
        s.ask(f"{style}: at once", "init_producer_id", one.init())
        answer = ask_until_settled(s, f"{style}: aborted", "init_producer_id", one.init())
        s.ask(f"{style}: old epoch ends", "end_txn", one.end(True), version=4)
        one.become(answer)
        one.write(topic, "kept", version=produce_version)
        if version >= EXPECTED_FROM:
            past = {"producer_id": one.producer_id, "producer_epoch": one.epoch - 1}
            s.ask(f"{style}: an older epoch asks meanwhile", "init_producer_id", one.init(**past))
            ask_until_settled(s, f"{style}: and again", "init_producer_id", one.init(**past))
            now = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
            ask_until_settled(s, f"{style}: the owner recovers", "init_producer_id", one.init(**now))
    s.ask("log", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)


@scenario("end_txn")
def end_txn(s: Session, version: int) -> None:
    topic, style = s.create("a", 2), 13 if version >= 5 else 11
    one = Transactor(s, "one").begin()

    def ask(step: str, commit: bool, **changes: Any) -> Any:
        return ask_until_settled(s, step, "end_txn", one.end(commit, **changes))

    ask("unknown id", True, transactional_id=s.topic_name("unknown"))
    ask("empty id", True, transactional_id="")
    ask("another producer", True, producer_id=one.producer_id + 1_000_000)
    ask("an older epoch", True, producer_epoch=-1)
    ask("a later epoch", True, producer_epoch=5)
    ask("commit of nothing", True)
    aborted = ask("abort of nothing", False)
    if version >= 5:
        one.become(aborted)
    for commit, word in ((True, "commit"), (False, "abort")):
        one.write(topic, word, version=style)
        one.write(topic, word, partition=1, version=style)
        old = one.epoch
        answer = ask(word, commit)
        one.await_rest()
        ask(f"{word} again", commit)
        ask(f"the contrary of {word}", not commit)
        if version >= 5:
            one.become(answer)
            ask(f"{word} with the new epoch", True)
            one.await_rest()
            ask(f"{word} again, long ago", commit, producer_epoch=old)
            one.begin()
            ask(f"{word} after a new beginning", commit, producer_epoch=old)
    s.ask("log", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)
    s.ask("other log", "fetch", s.fetch(topic, 0, partition=1, isolation_level=1), version=12)


@scenario("end_txn", versions=[4, 5])
def many_transactions(s: Session, version: int) -> None:
    """How the epoch goes on."""
    topic, style = s.create("a"), 13 if version >= 5 else 11
    one = Transactor(s, "one").begin()
    for turn in range(4):
        one.write(topic, f"v{turn}", f"w{turn}", version=style)
        answer = ask_until_settled(s, f"end {turn}", "end_txn", one.end(turn != 2))
        one.await_rest()
        if version >= 5:
            one.become(answer)
    one.write(topic, "open", version=style)
    producers = {"topics": [{"name": topic.name, "partition_indexes": [0]}]}
    s.ask("producers", "describe_producers", producers, version=0)
    s.ask("read committed", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)
    s.ask("read uncommitted", "fetch", s.fetch(topic, 0), version=12)
    for level in (0, 1):
        latest = {"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
        asked = {"replica_id": -1, "isolation_level": level, "topics": [latest]}
        s.ask(f"latest offset at level {level}", "list_offsets", asked, version=7)
    one.finish(True, version)
    s.ask("producers at the end", "describe_producers", producers, version=0)


@scenario("add_partitions_to_txn")
def add_partitions_to_txn(s: Session, version: int) -> None:
    topic, missing = s.create("a", 3), Topic(s.topic_name("missing"), None)
    one = Transactor(s, "one").begin()

    def ask(step: str, *topics: tuple[Topic, list[int]], **changes: Any) -> None:
        ask_until_settled(s, step, "add_partitions_to_txn", one.add(version, *topics, **changes))

    ask("unknown id", (topic, [0]), transactional_id=s.topic_name("unknown"))
    ask("empty id", (topic, [0]), transactional_id="")
    ask("another producer", (topic, [0]), producer_id=one.producer_id + 1_000_000)
    ask("an older epoch", (topic, [0]), producer_epoch=-1)
    ask("a later epoch", (topic, [0]), producer_epoch=5)
    ask("unknown topic", (missing, [0]))
    ask("known and unknown", (topic, [0, 9]), (missing, [0]))
    ask("one", (topic, [0]))
    ask("the same again", (topic, [0]))
    ask("another", (topic, [1]))
    ask("nothing", (topic, []))
    ask("no topics")
    asked = one.itself()
    s.ask("state", "describe_transactions", asked, version=0, edit=sorted_partitions)
    if version >= 4:
        ask("verify known", (topic, [0, 1]), verify_only=True)
        ask("verify unknown", (topic, [1, 2]), verify_only=True)
        ask("verify another epoch", (topic, [0]), verify_only=True, producer_epoch=7)
        ask("verify another producer", (topic, [0]), verify_only=True, producer_id=one.producer_id + 1_000_000)
        ask("verify unknown id", (topic, [0]), verify_only=True, transactional_id=s.topic_name("unknown"))
        two = Transactor(s, "two").begin()
        both = [*one.add(version, (topic, [2]))["transactions"], *two.add(version, (topic, [2]))["transactions"]]
        s.ask("two transactions", "add_partitions_to_txn", {"transactions": both})
        s.ask("no transactions", "add_partitions_to_txn", {"transactions": []})
        two.finish(False)
    one.finish(True, 4)
    if version >= 4:
        ask("verify after the end", (topic, [0]), verify_only=True)
    ask("a new transaction", (topic, [2]))
    s.ask("new state", "describe_transactions", asked, version=0, edit=sorted_partitions)
    one.finish(False, 4)


@scenario("add_offsets_to_txn")
def add_offsets_to_txn(s: Session, version: int) -> None:
    group = s.topic_name("group")
    await_groups(s, group)
    one = Transactor(s, "one").begin()

    def ask(step: str, **changes: Any) -> None:
        content = {"group_id": group, **one.who(), **changes}
        ask_until_settled(s, step, "add_offsets_to_txn", content)

    ask("unknown id", transactional_id=s.topic_name("unknown"))
    ask("empty id", transactional_id="")
    ask("another producer", producer_id=one.producer_id + 1_000_000)
    ask("an older epoch", producer_epoch=-1)
    ask("a later epoch", producer_epoch=5)
    ask("empty group", group_id="")
    ask("a group")
    ask("again")
    one.finish(True, 4)


@scenario("init_producer_id", versions=[5])
def transactions_that_time_out(s: Session, version: int) -> None:
    topic = s.create("a")
    styles = (("announced", 11, 4), ("added", 13, 5))
    ones = [Transactor(s, style) for style, _, _ in styles]
    for one, (_, produce_version, _) in zip(ones, styles, strict=True):
        s.await_coordinator(1, one.transactional_id)
        one.become(until_settled(s, lambda: s.send("init_producer_id", one.init(timeout=200))))  # noqa: B023
        one.write(topic, "late", version=produce_version)
    for one, (style, produce_version, end_version) in zip(ones, styles, strict=True):
        one.await_rest()
        s.ask(f"{style}: state", "describe_transactions", one.itself(), version=0, edit=sorted_partitions)
        s.ask(f"{style}: commit", "end_txn", one.end(True), version=end_version)
        s.ask(f"{style}: abort", "end_txn", one.end(False), version=end_version)
        s.ask(f"{style}: another write", "produce", one.produce(topic, "later"), version=produce_version)
        s.ask(f"{style}: announced", "add_partitions_to_txn", one.add(3, (topic, [0])), version=3)
        me = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
        ask_until_settled(s, f"{style}: the producer asks", "init_producer_id", one.init(**me))
        ask_until_settled(s, f"{style}: begins anew", "init_producer_id", one.init())
    s.ask("producers", "describe_producers", {"topics": [{"name": topic.name, "partition_indexes": [0]}]}, version=0)

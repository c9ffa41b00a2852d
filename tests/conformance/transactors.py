"""A transactional producer made of single requests, so that each of them can be wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.batches import TRANSACTIONAL, Batch
from tests.conformance.messages import walk
from tests.conformance.session import Session, Topic

Plain = Any
ADDS_PARTITIONS_FROM = 12
#: What a coordinator says while it is busy: the request is sent again, and only what follows is recorded.
PASSING = frozenset((
    "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS",
))  # fmt: skip


@dataclass(slots=True)
class Transactor:
    session: Session
    label: str
    producer_id: int = -1
    epoch: int = -1
    #: The next one of each partition.
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def transactional_id(self) -> str:
        return self.session.topic_name(self.label)

    # -- requests --------------------------------------------------------------------------------------------------

    def init(self, *, timeout: int = 60_000, **expected: int) -> Plain:
        return {"transactional_id": self.transactional_id, "transaction_timeout": timeout, **expected}

    def who(self, **changes: Plain) -> dict[str, Plain]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            **changes,
        }

    def end(self, commit: bool, **changes: Plain) -> Plain:
        return {**self.who(**changes), "committed": commit}

    def add(self, version: int, *topics: tuple[Topic, Sequence[int]], **changes: Plain) -> Plain:
        named = [{"name": topic.name, "partitions": list(indexes)} for topic, indexes in topics]
        verify = {"verify_only": changes.pop("verify_only")} if "verify_only" in changes else {}
        who = self.who(**changes)
        if version >= 4:
            return {"transactions": [{**who, "topics": named, **verify}]}
        return {**{f"v3_and_below_{key}": value for key, value in who.items()}, "v3_and_below_topics": named}

    def itself(self) -> Plain:
        return {"transactional_ids": [self.transactional_id]}

    def batch(self, *values: str, **changes: Plain) -> Batch:
        given: dict[str, Plain] = {
            "producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": 0, "flags": TRANSACTIONAL,
        }  # fmt: skip
        return self.session.batch(*values, **{**given, **changes})

    def produce(self, topic: Topic, *values: str, partition: int = 0, **changes: Plain) -> Plain:
        next_sequence = self.sequences.get((topic.name, partition), 0)
        batch = self.batch(*values, **{"base_sequence": next_sequence, **changes})
        return self.session.produce(topic, batch, partition=partition, transactional_id=self.transactional_id)

    # -- steps that must work, not recorded ------------------------------------------------------------------------

    def begin(self) -> "Transactor":
        """A new epoch."""
        s = self.session
        s.await_coordinator(1, self.transactional_id)
        answer = until_settled(s, lambda: s.send("init_producer_id", self.init()))
        must_be_fine(answer)
        return self.become(answer)

    def become(self, answer: Plain) -> "Transactor":
        """Takes the id and epoch that an answer gives."""
        self.producer_id, self.epoch, self.sequences = answer["producer_id"], answer["producer_epoch"], {}
        return self

    def write(self, topic: Topic, *values: str, partition: int = 0, version: int = 13) -> None:
        """Announces the partition the old way, or lets the broker add it."""
        s = self.session
        if version < ADDS_PARTITIONS_FROM:
            self.announce(topic, partition)
        request = self.produce(topic, *values, partition=partition)
        must_be_fine(until_settled(s, lambda: s.send("produce", request, version=version)))
        self.wrote(topic, len(values), partition)

    def wrote(self, topic: Topic, count: int, partition: int = 0) -> None:
        self.sequences[topic.name, partition] = self.sequences.get((topic.name, partition), 0) + count

    def announce(self, topic: Topic, *partitions: int) -> None:
        s, request = self.session, self.add(3, (topic, partitions))
        must_be_fine(until_settled(s, lambda: s.send("add_partitions_to_txn", request, version=3)))

    def finish(self, commit: bool, version: int = 5) -> None:
        """Ends the transaction and waits until all markers are written."""
        s = self.session
        answer = until_settled(s, lambda: s.send("end_txn", self.end(commit), version=version))
        must_be_fine(answer)
        if version >= 5:
            self.become(answer)
        self.await_rest()

    def await_rest(self) -> None:
        """Until no transaction is open or being ended."""

        def at_rest() -> bool:
            (state,) = self.session.send("describe_transactions", self.itself())["transaction_states"]
            return state["transaction_state"] in ("Empty", "CompleteCommit", "CompleteAbort")

        self.session.until(at_rest, "the end of a transaction")


def error_codes(answer: Plain) -> set[str]:
    return {
        mapping[key] for mapping in walk(answer) for key in ("error_code", "partition_error_code") if key in mapping
    }


def must_be_fine(answer: Plain) -> None:
    if error_codes(answer) - {"NONE"}:
        raise AssertionError(f"a step of the set-up failed: {answer}")


def until_settled(s: Session, send: Callable[[], Plain]) -> Plain:
    answers: list[Plain] = []

    def settled() -> bool:
        answers.append(send())
        return not error_codes(answers[-1]) & PASSING

    s.until(settled, "a coordinator that is not busy")
    return answers[-1]


def ask_until_settled(s: Session, step: str, name: str, content: Plain, version: int | None = None) -> Plain:
    """Records the first answer that is not a request to try again."""
    chosen = s.version if version is None else version
    answer = until_settled(s, lambda: s.send(name, content, version=chosen))
    s.note(step, s.normaliser.answer(answer))
    return answer


def sorted_partitions(answer: Plain) -> Plain:
    """DescribeTransactions names partitions in no order."""
    for mapping in walk(answer):
        if "partitions" in mapping:
            mapping["partitions"] = sorted(mapping["partitions"])
    return answer

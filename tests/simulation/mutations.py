"""Mistakes that Kafka once made, put into the rules for one run: the simulation has to find each of them.

The product knows nothing of this; what is replaced here are its functions, for as long as a run lasts. 1 to 10 are
from Kafka's history, 11 to 23 spares. Two of the spares are not found by any run:

11  It is no mistake in this product. A follower tells the epoch of its log in every fetch, and an epoch begins at the
    latest with its first record: the start of one in which nothing was written decides nothing about a log.
18  Nobody is harmed: a commit names the versions that it expects, so the same once more is refused, and whoever hears
    that looks at what there is. Tests of the store see that its caller is told the wrong outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from moldau.config.broker import BrokerConfig
from moldau.coordinators.transactions.machine import TransactionMachine
from moldau.metadata.controller import elections, in_sync, levels
from moldau.metadata.controller.elections import TopicRules
from moldau.metadata.controller.standing import Standing
from moldau.metadata.frames import Commit, encoding
from moldau.metadata.image import ClusterImage, PartitionImage, TopicImage
from moldau.metadata.store import Operation
from moldau.metadata.zookeeper.appending import Appender
from moldau.replication import follower
from moldau.replication.follower import Asked, Cut, FetchPlan, Followed, Phase
from moldau.replication.leader import Leadership
from moldau.replication.leases import Lease
from moldau.replication.partition import Partition
from moldau.server import core, fetching
from moldau.server.controller import Controller
from moldau.server.peers.links import Link, Links
from moldau.server.replicas.fetcher import ReplicaFetcher
from moldau.storage.log import PartitionLog
from moldau.storage.producer_state import ProducerEntry, ProducerStates
from moldau.types.ids import NO_EPOCH

Mutation = Callable[[], AbstractContextManager[Any]]


def truncate_to_the_mark() -> AbstractContextManager[Any]:
    """KAFKA-1211: a new follower truncates to its high watermark."""
    follow = ReplicaFetcher.follow

    def mutated(self: ReplicaFetcher, partition: Partition) -> None:
        follow(self, partition)
        followed = self.plan._followed[partition.topic_id, partition.topic_partition.partition]
        if partition.log is not None and partition.high_watermark < partition.log.log_end_offset:
            followed.phase = Phase.CUTTING
            self._start(self._cut(followed, partition.log, Cut(partition.high_watermark)))

    return patch.object(ReplicaFetcher, "follow", mutated)


@contextmanager
def truncate_once() -> Any:
    """KAFKA-6361: one step of truncation, to where the leader says, even if its epoch is unknown here."""
    was_cut: dict[Followed, int] = {}
    asks, resume = Followed.asks, FetchPlan.resume

    def cut_where_told(log: PartitionLog, _epoch: int, leader_end: int) -> int:
        return min(leader_end, log.log_end_offset)

    def mutated_resume(self: FetchPlan, followed: Followed) -> None:
        was_cut[followed] = followed.leader_epoch
        resume(self, followed)

    def mutated_asks(self: Followed, log: PartitionLog) -> Asked:
        asked = asks(self, log)
        return asked._replace(last_fetched_epoch=NO_EPOCH) if was_cut.get(self) == self.leader_epoch else asked

    with (
        patch.object(follower, "truncation_point", cut_where_told),
        patch.object(FetchPlan, "resume", mutated_resume),
        patch.object(Followed, "asks", mutated_asks),
    ):
        yield


def ignore_the_fetch_epoch() -> AbstractContextManager[Any]:
    """KAFKA-6880: Fetch ignores the current leader epoch."""
    return patch.object(Partition, "check_epoch", lambda self, told_epoch: None)


def join_below_the_epoch() -> AbstractContextManager[Any]:
    """KAFKA-7128: the in-sync set takes in who has reached the mark, but not the start of the epoch."""

    def mutated(self: Leadership, replica_id: int, mark: int) -> bool:
        return self.followers[replica_id].end_offset >= mark and self.is_eligible(replica_id)

    return patch.object(Leadership, "may_join", mutated)


def mark_follows_the_proposal() -> AbstractContextManager[Any]:
    """KIP-497: the mark follows a change of the in-sync set before it is accepted."""

    def mutated(self: Leadership, leader_end: int) -> Sequence[int]:
        members = self.term.isr if self.pending is None else self.pending.isr
        return [replica for replica in self.followers if replica in members]

    return patch.object(Leadership, "counted", mutated)


@contextmanager
def ignore_the_broker_epoch() -> Any:
    """KAFKA-14139: an earlier life of a broker counts for the next one."""

    def eligible(self: Leadership, replica_id: int) -> bool:
        return self._neighbours.registered_epoch(replica_id) is not None

    def may_be_in_sync(image: ClusterImage, partition: PartitionImage, broker_id: int, epoch: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    with (
        patch.object(Leadership, "is_eligible", eligible),
        patch.object(in_sync, "_is_eligible", may_be_in_sync),
    ):
        yield


@contextmanager
def mark_rises_with_too_few() -> Any:
    """KAFKA-15583: the mark rises while fewer than `min.insync.replicas` are in sync."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(Leadership, "has_enough_in_sync", lambda self, wanted: True))
        stack.enter_context(patch.object(Partition, "_starve_if_too_few", lambda self: None))
        yield


def use_answers_of_older_epochs() -> AbstractContextManager[Any]:
    """KAFKA-18991: an answer to a fetch of an older leader epoch is used."""

    def mutated(self: Followed, log: PartitionLog) -> bool:
        return self.phase is Phase.FETCHING

    return patch.object(Followed, "counts", mutated)


@contextmanager
def diverging_counts_as_progress() -> Any:
    """KAFKA-13141: the leader records a follower's offset although it answers that they have diverged."""
    read_partition = fetching.read_partition

    def mutated(broker: Any, partition: Partition, target: Any, limits: Any, left: int, is_first: bool) -> Any:
        fetched = read_partition(broker, partition, target, limits, left, is_first)
        if fetched.diverging is not None and limits.is_follower and limits.tells_progress:
            fetching.note_progress(broker, partition, target, limits)
        return fetched

    with patch.object(fetching, "read_partition", mutated):
        yield


def commit_without_check() -> AbstractContextManager[Any]:
    """KAFKA-6082: a controller that was deposed while it was paused still commits."""
    checks = Controller._checks

    def mutated(self: Controller, image: ClusterImage) -> Sequence[Operation]:
        checks(self, image)
        return ()

    return patch.object(Controller, "_checks", mutated)


def forget_the_epoch_start() -> AbstractContextManager[Any]:
    """KAFKA-7415: a new leader does not record where its epoch begins."""
    return patch.object(PartitionLog, "begin_epoch", lambda self, epoch: None)


def waits_survive_their_term() -> AbstractContextManager[Any]:
    """Who waits for an acknowledgement in one term gets it in another."""

    def mutated(self: Partition) -> tuple[list[Any], list[Any]]:
        staged, self.staged = self.staged, []
        if staged and self.log is not None:
            self.log.discard_staged()
        return staged, []

    return patch.object(Partition, "_interrupt", mutated)


def answer_without_a_lease() -> AbstractContextManager[Any]:
    """A leader that was deposed and cannot hear of it goes on answering reads and writes for ever."""
    return patch.object(Lease, "holds", lambda self, proven: True)


@contextmanager
def let_the_fenced_join() -> Any:
    """KAFKA-13916: a broker that is fenced or on its way out is taken into the in-sync set."""

    def eligible(self: Leadership, replica_id: int) -> bool:
        return True

    def may_be_in_sync(image: ClusterImage, partition: PartitionImage, broker_id: int, epoch: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and epoch in (in_sync.ANY_EPOCH, broker.epoch)

    with (
        patch.object(Leadership, "is_eligible", eligible),
        patch.object(in_sync, "_is_eligible", may_be_in_sync),
        patch.object(in_sync, "Standing", lambda image: Standing(image, joining=tuple(image.brokers))),
    ):
        yield


def forget_the_end_of_a_transaction() -> AbstractContextManager[Any]:
    """Ours: whoever coordinates a transaction next does not send the markers that were under way."""
    return patch.object(TransactionMachine, "loaded", lambda self, now: None)


def take_markers_of_old_coordinators() -> AbstractContextManager[Any]:
    """The epoch of a marker's coordinator is not checked."""
    end = ProducerStates._end_txn

    def mutated(self: ProducerStates, number: int, entry: ProducerEntry, *rest: Any) -> Any:
        return end(self, number, entry._replace(coordinator_epoch=NO_EPOCH), *rest)

    return patch.object(ProducerStates, "_end_txn", mutated)


def read_what_is_undecided() -> AbstractContextManager[Any]:
    """Readers of committed records are given all that is committed to the log."""
    return patch.object(Partition, "last_stable_offset", lambda self: self.high_watermark)


def repeat_under_another_name() -> AbstractContextManager[Any]:
    """Ours: a commit without an outcome is appended again as if it were a new one."""
    resume = Appender.resume

    def mutated(self: Appender, generation: int) -> None:
        if any(append.sent and append.place is None for append in self._open.values()):
            self._writer = self._new_writer()
            again, self._open = list(self._open.values()), {}
            for number, append in enumerate(again, 1):
                append.commit = Commit(self._writer, number, append.commit.operations)
                append.frame, append.place = encoded(append.commit), None
                self._open[number] = append
            self._next_number = len(again) + 1
        resume(self, generation)

    return patch.object(Appender, "resume", mutated)


def encoded(commit: Commit) -> bytes:
    work = encoding(commit)
    while True:
        try:
            next(work)
        except StopIteration as done:
            return bytes(done.value)


@contextmanager
def show_what_is_not_committed() -> Any:
    """A follower shows consumers all that it has (KIP-392 gives them what is below its mark)."""
    read_partition = fetching.read_partition

    def mutated(broker: Any, partition: Partition, target: Any, limits: Any, left: int, is_first: bool) -> Any:
        mark = partition.high_watermark
        if partition.log is not None and not partition.leads and not limits.is_follower:
            partition.high_watermark = partition.log.log_end_offset
        try:
            return read_partition(broker, partition, target, limits, left, is_first)
        finally:
            partition.high_watermark = mark

    with patch.object(fetching, "read_partition", mutated):
        yield


def count_the_first_partitions_replicas() -> AbstractContextManager[Any]:
    """Ours: how many of a partition's replicas have to be in sync is bound by the replicas of another one."""

    def mutated(topic: TopicImage, broker: BrokerConfig) -> TopicRules:
        found = elections.rules_of(topic, broker)
        return replace(found, min_in_sync=found.needed_of(topic.partitions[0].replicas))

    return patch.object(levels, "rules_of", mutated)


def forget_who_is_proposed() -> AbstractContextManager[Any]:
    """Ours: a lease does not count the follower whose joining was committed without the leader's having read it."""

    def mutated(self: Partition) -> None:
        if self.leadership is not None:
            term = self.leadership.term
            self.rivals = tuple(each for each in term.isr + term.elr if each != self.local_id)

    return patch.object(Partition, "_look_for_rivals", mutated)


def take_the_end_of_a_link_for_a_death() -> AbstractContextManager[Any]:
    """Ours: a broker counts as dead as soon as a link to it ends, before anybody has tried whether it answers."""
    changed = Links._changed

    def mutated(self: Links, link: Link) -> None:
        broker_id, known = link.endpoint.broker_id, link._judge._known
        if not link.is_open and known is not None and self._links.get(broker_id) is link:
            self._dead(broker_id, known)
        changed(self, link)

    return patch.object(Links, "_changed", mutated)


@contextmanager
def let_empty_logs_lead() -> Any:
    """Ours: who comes back without one of its log directories leads as the last leader, also what lay there."""

    def may_return(self: Standing, broker: int, partition: PartitionImage) -> bool:
        found = self._returns.get(broker)
        return found is None or not found.wiped

    with (
        patch.object(Standing, "may_return", may_return),
        patch.object(Standing, "located", lambda self, partition: partition),
        patch.object(core, "has_lost_directories", lambda image, broker_id, present: False),
    ):
        yield


MUTATIONS: dict[str, Mutation] = {
    "1": truncate_to_the_mark,
    "2": truncate_once,
    "3": ignore_the_fetch_epoch,
    "4": join_below_the_epoch,
    "5": mark_follows_the_proposal,
    "6": ignore_the_broker_epoch,
    "7": mark_rises_with_too_few,
    "8": use_answers_of_older_epochs,
    "9": diverging_counts_as_progress,
    "10": commit_without_check,
    "11": forget_the_epoch_start,
    "12": waits_survive_their_term,
    "13": answer_without_a_lease,
    "14": let_the_fenced_join,
    "15": forget_the_end_of_a_transaction,
    "16": take_markers_of_old_coordinators,
    "17": read_what_is_undecided,
    "18": repeat_under_another_name,
    "19": show_what_is_not_committed,
    "20": count_the_first_partitions_replicas,
    "21": forget_who_is_proposed,
    "22": take_the_end_of_a_link_for_a_death,
    "23": let_empty_logs_lead,
}

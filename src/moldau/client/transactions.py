"""One transactional id and its transactions, as the coordinator sees them.

Both forms of Kafka's transactions: version 2 (KIP-890; partitions and groups join a transaction by being written to,
and each end raises the epoch) where the cluster has finalized it, else version 1 (they are added first).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.client.errors import Fenced, TransactionTimedOut
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

T = TypeVar("T")

FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
ENDED: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
FEATURE: Final = "transaction.version"
VERSION_2: Final = 2
SMALLEST_TIMEOUT_MS: Final = 1000
# The last versions of the first form; the next ones mean the second.
V1_PRODUCE, V1_TXN_OFFSET_COMMIT, V1_END_TXN, V1_ADD_PARTITIONS = 11, 4, 4, 3


@dataclass(frozen=True, slots=True)
class ProducerId:
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What it takes to end a transaction from another process."""

    transactional_id: str
    producer: ProducerId
    version_2: bool


class Transactions:
    """The transactions of one transactional id, one after the other."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, timeout_ms: int, monotonic: Callable[[], float]
    ) -> None:
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._added: set[TopicPartition] = set()
        self._opened_at: float | None = None
        self.producer = ProducerId(-1, -1)
        self.version_2 = False

    def start(self) -> ProducerId:
        """InitProducerId: aborts what is open under this id and locks out whoever used it before."""
        while True:
            try:
                self.producer, self.version_2 = self._cluster.retrying(self._init)
                break
            except KafkaError as error:
                if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT or self._timeout_ms <= SMALLEST_TIMEOUT_MS:
                    raise
                self._timeout_ms = max(self._timeout_ms // 2, SMALLEST_TIMEOUT_MS)  # the broker allows less
        self._added.clear()
        self._opened_at = None
        return self.producer

    def _init(self) -> tuple[ProducerId, bool]:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)
        answer = self._cluster.to_coordinator(
            CoordinatorKind.TRANSACTION, self.transactional_id, request, InitProducerIdResponse
        )
        check(answer.error_code, f"InitProducerId of {self.transactional_id}")
        coordinator = self._cluster.coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
        features = self._cluster.connection(coordinator).finalized_features
        return ProducerId(answer.producer_id, answer.producer_epoch), features.get(FEATURE, 0) >= VERSION_2

    # -- within a transaction --------------------------------------------------------------------------------------

    @property
    def produce_version(self) -> int | None:
        """The highest Produce version that goes with this form; None for any."""
        return None if self.version_2 else V1_PRODUCE

    def will_write(self, partitions: Iterable[TopicPartition]) -> None:
        """Before the first batch goes to a partition."""
        self._begin()
        new = [partition for partition in partitions if partition not in self._added]
        if new and not self.version_2:
            self._guarded(lambda: self._add_partitions(new))
        self._added.update(new)

    def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in by_topic.items()
            ],
        )
        answer = self._cluster.to_coordinator(
            CoordinatorKind.TRANSACTION,
            self.transactional_id,
            request,
            AddPartitionsToTxnResponse,
            max_version=V1_ADD_PARTITIONS,
        )
        results = [result for topic in answer.results_by_topic_v3_and_below for result in topic.results_by_partition]
        # Where one partition is refused, the others carry OPERATION_NOT_ATTEMPTED, which says nothing.
        results.sort(key=lambda result: result.partition_error_code == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for result in results:
            check(result.partition_error_code, f"AddPartitionsToTxn of {self.transactional_id}")

    def commit_offsets(self, group: str, topic: str, metadata: Mapping[int, tuple[int, str]]) -> None:
        """Adds offsets of a group without members, by partition: (offset, metadata). They become valid with the
        transaction."""
        self._begin()
        if not self.version_2:
            self._guarded(lambda: self._add_group(group))
        self._guarded(lambda: self._commit_offsets(group, topic, metadata))

    def _add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            group_id=group,
        )
        answer = self._cluster.to_coordinator(
            CoordinatorKind.TRANSACTION, self.transactional_id, request, AddOffsetsToTxnResponse
        )
        check(answer.error_code, f"AddOffsetsToTxn of {self.transactional_id}")

    def _commit_offsets(self, group: str, topic: str, metadata: Mapping[int, tuple[int, str]]) -> None:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=text)
            for index, (offset, text) in metadata.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        answer = self._cluster.to_coordinator(
            CoordinatorKind.GROUP,
            group,
            request,
            TxnOffsetCommitResponse,
            max_version=None if self.version_2 else V1_TXN_OFFSET_COMMIT,
        )
        for found in answer.topics:
            for partition in found.partitions:
                check(partition.error_code, f"TxnOffsetCommit to {group}")

    def end(self, commit: bool) -> None:
        """Commits or aborts. A lost connection leaves the outcome open: the same request is safe to repeat."""
        self._guarded(lambda: self._end(commit))
        self._added.clear()
        self._opened_at = None

    def _end(self, commit: bool) -> None:
        answer = end_transaction(self._cluster, self.hand_over(), commit)
        if self.version_2 and answer.producer_id >= 0:
            self.producer = ProducerId(answer.producer_id, answer.producer_epoch)

    def hand_over(self) -> OpenTransaction:
        return OpenTransaction(self.transactional_id, self.producer, self.version_2)

    # -- errors ----------------------------------------------------------------------------------------------------

    def refused(self, error: KafkaError) -> Exception:
        """What an error within a transaction means."""
        if error.code not in FENCED and error.code not in ENDED:
            return error
        opened_at = self._monotonic() if self._opened_at is None else self._opened_at
        if (self._monotonic() - opened_at) * 1000 >= self._timeout_ms:
            return TransactionTimedOut(self.transactional_id)
        return Fenced(
            f"another attempt has taken over {self.transactional_id!r} ({error.code.name}); "
            "this one ends and the other stands"
        )

    def _begin(self) -> None:
        if self._opened_at is None:
            self._opened_at = self._monotonic()

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            return self._cluster.retrying(action)
        except KafkaError as error:
            raise self.refused(error) from error


def end_transaction(cluster: Cluster, transaction: OpenTransaction, commit: bool) -> EndTxnResponse:
    request = EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer.id,
        producer_epoch=transaction.producer.epoch,
        committed=commit,
    )
    answer = cluster.to_coordinator(
        CoordinatorKind.TRANSACTION,
        transaction.transactional_id,
        request,
        EndTxnResponse,
        max_version=None if transaction.version_2 else V1_END_TXN,
    )
    what = f"EndTxn of {transaction.transactional_id}"
    if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
        # So Apache Kafka 4.3 answers while somebody else's InitProducerId fences this one: its transition is pending.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{what}: UNKNOWN_SERVER_ERROR")
    check(answer.error_code, what)
    return answer

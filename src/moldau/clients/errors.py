"""What can go wrong in a client: each error names the topic, the partition, the cause and what to do.

All are `ClientError`s. `retriable` says that the same call may succeed later; `fatal` that this client can do no more
and has to be closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.client.errors import ClientError, SettingError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

__all__ = [
    "AuthorizationFailed",
    "BufferExhausted",
    "ClientError",
    "CommitFailed",
    "ConcurrentUse",
    "DeliveryFailed",
    "DeserializationFailed",
    "InvalidRecord",
    "KafkaFailure",
    "NoOffset",
    "ProducerFenced",
    "RecordTooLarge",
    "SerializationFailed",
    "SettingError",
    "TimedOut",
    "TransactionAborted",
    "UndeliveredRecords",
    "UnknownTopic",
    "Wakeup",
]

WHAT_TO_DO: Final = {
    "MSG_SIZE_TOO_LARGE": "send less, or raise max.request.size here and max.message.bytes of the topic",
    "_MSG_TIMED_OUT": "is the cluster up, and reachable under the addresses it advertises? delivery.timeout.ms says "
    "how long a record is tried",
    "_TIMED_OUT": "is the cluster up, and reachable under the addresses it advertises?",
    "_TRANSPORT": "is the cluster up, and reachable under the addresses it advertises?",
    "_ALL_BROKERS_DOWN": "is the cluster up, and reachable under the addresses it advertises?",
    "_UNKNOWN_TOPIC": "create the topic, or let the broker do it (auto.create.topics.enable)",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or let the broker do it (auto.create.topics.enable)",
    "_UNKNOWN_PARTITION": "the topic has fewer partitions: ask partitions_for(topic)",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync for min.insync.replicas: bring brokers back",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "too few replicas are in sync for min.insync.replicas: bring brokers back",
    "_QUEUE_FULL": "the buffer is full: send more slowly, raise buffer.memory, or look why the cluster is slow",
    "_FENCED": "another producer has taken over this transactional.id: close this one",
    "PRODUCER_FENCED": "another producer has taken over this transactional.id: close this one",
    "INVALID_PRODUCER_EPOCH": "another producer has taken over this transactional.id: close this one",
    "ILLEGAL_GENERATION": "the group went on without this member: process faster, or raise max.poll.interval.ms",
    "UNKNOWN_MEMBER_ID": "the group went on without this member: process faster, or raise max.poll.interval.ms",
    "REBALANCE_IN_PROGRESS": "poll again, so that the member joins the group, and commit what is still assigned",
    "FENCED_INSTANCE_ID": "another member has the same group.instance.id: close this one",
    "_AUTO_OFFSET_RESET": "seek to an offset that exists, or set auto.offset.reset to earliest or latest",
    "OFFSET_OUT_OF_RANGE": "seek to an offset that exists, or set auto.offset.reset to earliest or latest",
    "_NO_OFFSET": "seek to an offset, or set auto.offset.reset to earliest or latest",
    "TOPIC_AUTHORIZATION_FAILED": "give this principal the right to the topic (ACLs)",
    "GROUP_AUTHORIZATION_FAILED": "give this principal the right to the group (ACLs)",
    "CLUSTER_AUTHORIZATION_FAILED": "give this principal the right to the cluster (ACLs)",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "give this principal the right to the transactional id (ACLs)",
    "TOPIC_ALREADY_EXISTS": "choose another name, or use the topic that is there",
    "INVALID_REPLICATION_FACTOR": "the cluster has fewer brokers than replicas are asked for",
    "INVALID_PARTITIONS": "partitions can be added, never taken away",
    "TOPIC_EXCEPTION": "names have letters, digits, '.', '_' and '-', at most 249 of them",
    "NON_EMPTY_GROUP": "stop the members of the group first",
    "GROUP_ID_NOT_FOUND": "no group has this name: list_consumer_groups() shows those that are there",
    "SECURITY_DISABLED": "the brokers have no authorizer: set authorizer.class.name",
    "_AUTHENTICATION": "check security.protocol, sasl.mechanism and sasl.jaas.config",
    "_PURGE_QUEUE": "the producer was closed, or the transaction aborted, before the record was sent",
    "_PURGE_INFLIGHT": "the producer was closed, or the transaction aborted, before the record was acknowledged",
}


class KafkaFailure(ClientError):
    """Something that the cluster, or librdkafka, refused."""

    def __init__(
        self,
        what: str,
        *,
        cause: str,
        code: str = "",
        topic: str | None = None,
        partition: int | None = None,
        retriable: bool = False,
        fatal: bool = False,
    ) -> None:
        self.code = code
        self.topic = topic
        self.partition = partition
        self.cause = cause
        self.what_to_do = WHAT_TO_DO.get(code, "")
        self.retriable = retriable
        self.fatal = fatal
        place = placed(topic, partition)
        text = f"{what}{f' ({place})' if place else ''}: {cause}{f' [{code}]' if code else ''}"
        super().__init__(f"{text}; {self.what_to_do}" if self.what_to_do else text)


class DeliveryFailed(KafkaFailure):
    """A record was not stored, as far as is known."""


class RecordTooLarge(DeliveryFailed):
    """A record is larger than the producer or the topic allows. It is not tried again."""


class BufferExhausted(DeliveryFailed):
    """The buffer of unsent records was full for longer than max.block.ms."""


class UnknownTopic(KafkaFailure):
    """The topic, or the partition, does not exist."""


class TimedOut(KafkaFailure):
    """Nobody answered in time."""


class AuthorizationFailed(KafkaFailure):
    """The principal of this client may not do that."""


class CommitFailed(KafkaFailure):
    """Offsets were not committed."""


class NoOffset(KafkaFailure):
    """There is no offset to begin at, and auto.offset.reset is none."""


class ProducerFenced(KafkaFailure):
    """Another producer uses the transactional id; this one has to be closed."""


class TransactionAborted(KafkaFailure):
    """The transaction cannot be committed: it was aborted, and may be tried again from its beginning."""


class SerializationFailed(ClientError):
    """A key or value is not what its serializer takes; nothing was sent."""

    def __init__(self, topic: str, part: str, problem: object) -> None:
        super().__init__(f"{part} of a record for {topic}: {problem}")
        self.topic = topic


class DeserializationFailed(ClientError):
    """A key or value is not what its deserializer reads. The position stays at this record: seek past it to go on."""

    def __init__(self, topic: str, partition: int, offset: int, part: str, problem: object) -> None:
        super().__init__(
            f"{part} of {topic}-{partition} at offset {offset}: {problem}; seek to offset {offset + 1} to leave it out"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class InvalidRecord(ClientError):
    """A partitioner cannot place this record."""


class ConcurrentUse(ClientError):
    """Two threads use one consumer. Only `wakeup` may be called from another one."""


class Wakeup(ClientError):
    """`wakeup` was called: the poll ends without records."""


class UndeliveredRecords(ClientError):
    """Told at `close`: records were not delivered, and nobody had asked what became of them."""

    SHOWN: Final = 5

    def __init__(self, failures: Sequence[DeliveryFailed], count: int) -> None:
        self.failures = tuple(failures)
        self.count = count
        shown = "".join(f"\n  {failure}" for failure in failures[: self.SHOWN])
        rest = count - min(len(failures), self.SHOWN)
        more = f"\n  and {rest} more" if rest else ""
        super().__init__(f"{count} record{'s were' if count != 1 else ' was'} not delivered:{shown}{more}")


BY_CODE: Final[dict[str, type[KafkaFailure]]] = {
    "MSG_SIZE_TOO_LARGE": RecordTooLarge,
    "_TIMED_OUT": TimedOut,
    "REQUEST_TIMED_OUT": TimedOut,
    "_TRANSPORT": TimedOut,
    "UNKNOWN_TOPIC_OR_PART": UnknownTopic,
    "_UNKNOWN_TOPIC": UnknownTopic,
    "_UNKNOWN_PARTITION": UnknownTopic,
    "TOPIC_AUTHORIZATION_FAILED": AuthorizationFailed,
    "GROUP_AUTHORIZATION_FAILED": AuthorizationFailed,
    "CLUSTER_AUTHORIZATION_FAILED": AuthorizationFailed,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": AuthorizationFailed,
    "_FENCED": ProducerFenced,
    "PRODUCER_FENCED": ProducerFenced,
    "INVALID_PRODUCER_EPOCH": ProducerFenced,
    "_AUTO_OFFSET_RESET": NoOffset,
    "OFFSET_OUT_OF_RANGE": NoOffset,
    "_NO_OFFSET": NoOffset,
}


def placed(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return ""
    return f"{topic}-{partition}" if partition is not None and partition >= 0 else topic


def failure(
    error: KafkaError | KafkaException,
    what: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    kind: type[KafkaFailure] | None = None,
) -> KafkaFailure:
    """librdkafka's error as one of ours; a `kind` is used where nothing more exact is known."""
    found: Any = error.args[0] if isinstance(error, Exception) else error
    code = str(found.name())
    made = BY_CODE.get(code, kind or KafkaFailure)
    if kind is not None and not issubclass(made, kind) and issubclass(kind, DeliveryFailed):
        made = kind
    return made(
        what,
        cause=str(found.str()),
        code=code,
        topic=topic,
        partition=partition,
        retriable=bool(found.retriable()),
        fatal=bool(found.fatal()) or made is ProducerFenced,
    )

"""What librdkafka's admin client answers, as values; and partitions in its type and in ours."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.client.asking.answers import refuse as refuse
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal
    from confluent_kafka import TopicPartition as ClientPartition

SECONDS: Final = 30.0
# librdkafka's own timers end a call; the future is only watched a little longer.
GRACE_SECONDS: Final = 5.0

K = TypeVar("K")
V = TypeVar("V")


def outcome(future: Future[Any]) -> Any | Refusal:
    from confluent_kafka import KafkaException

    try:
        return future.result(SECONDS + GRACE_SECONDS)
    except KafkaException as error:
        refused: Refusal = error.args[0]
        return refused


def outcomes(futures: Mapping[K, Future[Any]]) -> dict[K, Any]:
    """Values, and Refusals in place of some."""
    return {key: outcome(future) for key, future in futures.items()}


def is_refusal(answer: object) -> bool:
    from confluent_kafka import KafkaError

    return isinstance(answer, KafkaError)


def demanded(answer: V | Refusal) -> V:
    """The answer, or the exception that says why there is none."""
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(answer, KafkaError):
        raise KafkaException(answer)
    return answer


def for_client(place: TopicPartition, offset: int | None = None) -> ClientPartition:
    from confluent_kafka import TopicPartition as ClientPartition

    return ClientPartition(*place) if offset is None else ClientPartition(*place, offset)


def place_of(partition: Any) -> TopicPartition:
    """From the client's own type, or anything with a topic and a partition."""
    return TopicPartition(str(partition.topic), int(partition.partition))

"""Where partitions begin, end, and stand at a time; and the deletion of what lies before an offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import SECONDS, for_client, is_refusal, outcomes, place_of
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal

    from moldau.cli.connection import Connection

NOTHING_THAT_LATE: Final = -1
"""The offset by a time behind the last record."""


class At(IntEnum):
    """Kafka's names for places in a log; any other number is a time in milliseconds."""

    END = -1
    START = -2
    LATEST_TIME = -3


def listed(
    cluster: Connection, places: Iterable[TopicPartition], at: int, read_committed: bool = False
) -> dict[TopicPartition, int | Refusal]:
    """One offset per partition; NOTHING_THAT_LATE where no record is that late."""
    from confluent_kafka import IsolationLevel

    level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    asked = {for_client(place): _spec(at) for place in places}
    if not asked:
        return {}
    found = outcomes(cluster.admin().list_offsets(asked, isolation_level=level, request_timeout=SECONDS))
    return {place_of(key): answer if is_refusal(answer) else int(answer.offset) for key, answer in found.items()}


def _spec(at: int) -> Any:
    from confluent_kafka.admin import OffsetSpec

    named: dict[int, Any] = {
        At.END: OffsetSpec.latest,
        At.START: OffsetSpec.earliest,
        At.LATEST_TIME: OffsetSpec.max_timestamp,
    }
    return named[at]() if at in named else OffsetSpec.for_timestamp(at)


def log_ranges(
    cluster: Connection, places: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """First and next offset of each partition; None where its leader does not answer."""
    wanted = list(places)
    first, following = listed(cluster, wanted, At.START), listed(cluster, wanted, At.END)
    return {place: (_known(first[place]), _known(following[place])) for place in wanted}


def _known(answer: int | Refusal) -> int | None:
    return answer if isinstance(answer, int) else None


def delete_records(cluster: Connection, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | Refusal]:
    """Delete what stands before each offset (-1: everything committed); answers with the new first offsets."""
    asked = [for_client(place, offset) for place, offset in before.items()]
    if not asked:
        return {}
    found = outcomes(cluster.admin().delete_records(asked, request_timeout=SECONDS, operation_timeout=SECONDS))
    return {place_of(key): done if is_refusal(done) else int(done.low_watermark) for key, done in found.items()}

"""The driver's view of a cluster through librdkafka, where only it can log in: OAUTHBEARER with a signed
assertion, and GSSAPI where the package gssapi is not there.

Imported only then: librdkafka is no part of what an ordinary planner process loads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import KafkaError as RdError
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from moldau.client.cluster import longer
from moldau.client.librdkafka import make_client, translate, uuid_of
from moldau.client.settings import ClientSettings
from moldau.spark.errors import ClusterUnavailable, SourceError, no_broker_answers
from moldau.spark.planning.catalog import GONE, PUBLISH_SECONDS, TopicView
from moldau.spark.planning.offsets import EARLIEST, LATEST
from moldau.types.error_codes import RETRIABLE
from moldau.types.ids import ZERO_TOPIC_ID, TopicPartition

K = TypeVar("K")
T = TypeVar("T")

LEAST_SECONDS: Final = 0.1
"""librdkafka wants to be given some time."""
UNKNOWN: Final = (*GONE, RdError._UNKNOWN_PARTITION, RdError._UNKNOWN_TOPIC)
AWAY: Final = (RdError._TIMED_OUT, RdError._TRANSPORT, RdError._ALL_BROKERS_DOWN, RdError._RESOLVE, RdError._NOENT)
"""The last one says that nobody told who leads."""
CONSUMER_ONLY: Final = frozenset(
    {"group.id", "isolation.level", "max.partition.fetch.bytes", "fetch.max.wait.ms", "check.crcs"}
)


class LibrdkafkaCatalog:
    def __init__(
        self,
        settings: ClientSettings,
        properties: Mapping[str, str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config: dict[str, Any] = {}
        self._config |= translate({name: value for name, value in properties.items() if name not in CONSUMER_ONLY})
        self._addresses = settings.bootstrap
        self._seconds = settings.total_seconds
        self._pause = settings.backoff_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._properties = properties
        self._admin: AdminClient = make_client(AdminClient, self._config, properties)

    def topics(self, names: frozenset[str] | None) -> dict[str, TopicView]:
        listed = self._asking("topics", lambda seconds: self._admin.list_topics(timeout=seconds).topics)
        return self.described([name for name in sorted(listed) if names is None or name in names])

    def described(self, names: list[str]) -> dict[str, TopicView]:
        """Those of a few topics that exist, without asking for all there are."""
        if not names:
            return {}

        def ask(seconds: float) -> dict[str, TopicView]:
            described = self._admin.describe_topics(TopicCollection(names), request_timeout=seconds)
            return {name: view_of(found) for name, found in settled(described)}

        return self._asking(f"topic {names[0]}", ask)

    def offsets(self, wanted: Mapping[TopicPartition, int], *, committed: bool) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {RdTopicPartition(*place): spec_of(time) for place, time in wanted.items()}

        def ask(seconds: float) -> dict[TopicPartition, int]:
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=seconds)
            return {TopicPartition(place.topic, place.partition): found.offset for place, found in settled(answers)}

        return self._asking(f"offsets of {next(iter(wanted))}", ask)

    def publish(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        config = self._config | {"group.id": group, "socket.timeout.ms": round(PUBLISH_SECONDS * 1000)}
        consumer: Consumer = make_client(Consumer, config, self._properties)
        try:
            places = [RdTopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
            for done in consumer.commit(offsets=places, asynchronous=False):
                if done.error is not None:
                    raise SourceError(f"group {group}, {done.topic}-{done.partition}: {done.error}")
        except KafkaException as error:
            raise SourceError(f"group {group}: {error}") from error
        finally:
            consumer.close()

    def _asking(self, what: str, ask: Callable[[float], T]) -> T:
        """librdkafka gives a request up when its connection is lost; whoever asks through it repeats it."""
        ends_at = self._monotonic() + self._seconds
        pause = self._pause
        while True:
            try:
                return ask(max(ends_at - self._monotonic(), LEAST_SECONDS))
            except KafkaException as error:
                code = error.args[0].code()
                if not (code in AWAY or code in RETRIABLE) or self._monotonic() + pause > ends_at:
                    raise self._failure(what, error) from error
            self._sleep(pause)
            pause = longer(pause)

    def _failure(self, what: str, error: KafkaException) -> SourceError:
        code = error.args[0].code()
        if code in AWAY:
            return no_broker_answers(self._addresses, f"{what}: {error}", self._seconds)
        return ClusterUnavailable(f"{what}: {error}") if code in RETRIABLE else SourceError(f"{what}: {error}")

    def close(self) -> None:
        """librdkafka closes its connections when the last reference is gone."""


def settled(answers: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
    """The results of what was asked for; what does not exist is left out."""
    for asked, future in answers.items():
        try:
            yield asked, future.result()
        except KafkaException as error:
            if error.args[0].code() not in UNKNOWN:
                raise


def spec_of(time: int) -> Any:
    if time == EARLIEST:
        return OffsetSpec.earliest()
    return OffsetSpec.latest() if time == LATEST else OffsetSpec.for_timestamp(time)


def view_of(description: Any) -> TopicView:
    leaders = {each.id: -1 if each.leader is None else each.leader.id for each in description.partitions}
    return TopicView(topic_id_of(description.topic_id), dict(sorted(leaders.items())), description.is_internal)


def topic_id_of(uuid: Any) -> UUID | None:
    found = uuid_of(uuid)
    return None if found == ZERO_TOPIC_ID else found

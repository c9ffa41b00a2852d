"""Where partitions begin and end, and what they hold at a time: asked of their leaders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from moldau.client.errors import SettingError
from moldau.clients.errors import failure
from moldau.clients.records import OffsetAndTimestamp, TopicPartition

OF_CONSUMERS: Final = (
    "auto.", "enable.", "fetch.", "group.", "isolation.", "max.p", "partition.", "queued.", "session.", "heartbeat.",
    "check.crcs", "client.rack", "allow.auto", "error_cb",
)  # fmt: skip


class OffsetLookup:
    def __init__(self, settings: Mapping[str, Any], seconds: float) -> None:
        """`settings` are the consumer's; a client for these questions is made with the first of them."""
        self._settings = {name: value for name, value in settings.items() if not name.startswith(OF_CONSUMERS)}
        self._read_committed = settings.get("isolation.level") == "read_committed"
        self._seconds = seconds
        reset = str(settings.get("auto.offset.reset", "latest"))
        self.starts_at_end = reset not in ("earliest", "beginning", "smallest")
        self._client: Any = None

    def beginnings(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return {place: found.offset for place, found in self._ask(dict.fromkeys(places, OffsetSpec.earliest())).items()}

    def ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """For a consumer that reads what is committed: where the first open transaction begins."""
        from confluent_kafka.admin import OffsetSpec

        return {place: found.offset for place, found in self._ask(dict.fromkeys(places, OffsetSpec.latest())).items()}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        from confluent_kafka.admin import OffsetSpec

        for place, timestamp in times.items():
            if timestamp < 0:
                raise SettingError("timestamp", f"{timestamp} for {place} is before 1970")
        found = self._ask({place: OffsetSpec.for_timestamp(timestamp) for place, timestamp in times.items()})
        return {
            place: OffsetAndTimestamp(each.offset, each.timestamp) if each.offset >= 0 else None
            for place, each in found.items()
        }

    def _ask(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        import confluent_kafka
        from confluent_kafka.admin import AdminClient

        if not wanted:
            return {}
        if self._client is None:
            self._client = AdminClient(dict(self._settings))
        level = confluent_kafka.IsolationLevel
        futures = self._client.list_offsets(
            {confluent_kafka.TopicPartition(*place): each for place, each in wanted.items()},
            isolation_level=level.READ_COMMITTED if self._read_committed else level.READ_UNCOMMITTED,
            request_timeout=self._seconds,
        )
        found = {}
        for place, future in futures.items():
            try:
                found[TopicPartition(place.topic, place.partition)] = future.result()
            except confluent_kafka.KafkaException as error:
                what = "cannot look up offsets"
                raise failure(error, what, topic=place.topic, partition=place.partition) from None
        return found

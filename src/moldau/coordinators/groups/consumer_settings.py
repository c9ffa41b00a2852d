"""The settings of one consumer group: its own where they are given, else the broker's."""

from __future__ import annotations

from moldau.config.broker import BrokerConfig
from moldau.metadata.image import NO_SETTINGS, ClusterImage


class ConsumerSettings:
    __slots__ = ("_config", "_own")

    def __init__(self, group_id: str, config: BrokerConfig, image: ClusterImage) -> None:
        self._config = config
        self._own = image.group_settings.get(group_id, NO_SETTINGS).values

    @property
    def session_seconds(self) -> float:
        return self._number("consumer.session.timeout.ms", self._config.group_consumer_session_timeout_ms) / 1000

    @property
    def heartbeat_interval_ms(self) -> int:
        return self._number("consumer.heartbeat.interval.ms", self._config.group_consumer_heartbeat_interval_ms)

    @property
    def assignment_interval_ms(self) -> int:
        return self._number("consumer.assignment.interval.ms", self._config.group_consumer_assignment_interval_ms)

    def _number(self, name: str, default: int) -> int:
        own = self._own.get(name)
        return default if own is None else int(own)

"""The broker's configuration as it is now: its properties under the dynamic settings that the metadata holds.

Subscribes to images before anybody who reads the configuration while an image is applied. What was stored passed all
checks, but properties may have changed since: a stored setting that no longer fits is left out, with a log line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.broker_checks import warnings
from moldau.metadata.image import NO_SETTINGS, ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta
from moldau.work.slices import Work, at_once

log = logging.getLogger("moldau.server.config")

Reconfigure: TypeAlias = Callable[[BrokerConfig, BrokerConfig], Work[None] | None]
"""Called with the configuration that was and the one that is; may return work to be done in turns."""


class DynamicConfig:
    def __init__(self, static: BrokerConfig) -> None:
        self._node_id = static.node_id
        self._current = static
        self._subscribers: list[Reconfigure] = []

    @property
    def current(self) -> BrokerConfig:
        return self._current

    def subscribe(self, reconfigure: Reconfigure) -> None:
        """Subscribers are called in their order, after `current` has changed."""
        self._subscribers.append(reconfigure)

    def load(self, image: ClusterImage) -> BrokerConfig:
        """At start: the configuration under what the image holds. Subscribers are told as of any other change."""
        at_once(self._change(image))
        return self._current

    def _change(self, image: ClusterImage) -> Work[None]:
        before = self._current
        settings = image.default_broker_settings.values, image.broker_settings.get(self._node_id, NO_SETTINGS).values
        if settings == (before.origins.cluster_default, before.origins.per_broker):
            return
        self._current = with_valid(before, *settings)
        for line in warnings(_new_names(before, self._current)):
            log.warning(line)
        for reconfigure in self._subscribers:
            work = reconfigure(before, self._current)
            if work is not None:
                yield from work

    def apply(self, _old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Work[None]:
        """A subscriber of images."""
        if delta.default_broker_settings or self._node_id in delta.broker_settings:
            yield from self._change(new)


def with_valid(config: BrokerConfig, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]) -> BrokerConfig:
    """The configuration under those of these settings that it accepts."""
    left = dict(cluster_default), dict(per_broker)
    while True:
        try:
            return config.with_dynamic(*left)
        except BrokerConfigError as error:
            if not any(left):
                raise
            refused = {problem.key for problem in error.problems}
            if not any(refused & layer.keys() for layer in left):
                # The culprit is not to be told: rather none of them than a broker that cannot start.
                refused = {*left[0], *left[1]}
            log.error("dynamic settings are left out: %s: %s", ", ".join(sorted(refused)), error)
            for layer in left:
                for name in refused:
                    layer.pop(name, None)


def reconfigured_topics(old: BrokerConfig, new: BrokerConfig, image: ClusterImage) -> Iterable[TopicImage]:
    """The topics whose settings may differ now: all, if anything has changed that topics inherit."""
    return () if old.topic_defaults == new.topic_defaults else image.topics.values()


def _new_names(before: BrokerConfig, after: BrokerConfig) -> dict[str, str]:
    known = {**before.origins.static, **before.origins.cluster_default, **before.origins.per_broker}
    dynamic = {**after.origins.cluster_default, **after.origins.per_broker}
    return {name: text for name, text in dynamic.items() if name not in known}

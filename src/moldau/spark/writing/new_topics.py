"""Topics that are missing, made by the writer with settings of their own, as Kafka Connect's topic.creation does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.cluster import Cluster, check
from moldau.spark.option_table import OptionError
from moldau.types.errors import ErrorCode
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

NAME: Final = "newTopics"
BROKERS_DEFAULT: Final = -1
CREATE_TIMEOUT_MS: Final = 30_000
KNOWN: Final = frozenset({"include", "exclude", "partitions", "replication", "configs"})


@dataclass(frozen=True, slots=True)
class NewTopics:
    """What topics get whose names match one of `include` and none of `exclude`."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    partitions: int = BROKERS_DEFAULT
    replication: int = BROKERS_DEFAULT
    configs: tuple[tuple[str, str], ...] = ()

    def matches(self, topic: str) -> bool:
        return matches_one(self.include, topic) and not matches_one(self.exclude, topic)

    def to_object(self) -> dict[str, Any]:
        return {
            "include": list(self.include),
            "exclude": list(self.exclude),
            "partitions": self.partitions,
            "replication": self.replication,
            "configs": dict(self.configs),
        }


def matches_one(patterns: Iterable[str], topic: str) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in patterns)


def to_option(rules: Iterable[NewTopics]) -> str:
    return json.dumps([rule.to_object() for rule in rules])


def read_new_topics(options: Mapping[str, str]) -> tuple[NewTopics, ...]:
    text = options.get(NAME.lower())
    if text is None:
        return ()
    try:
        given = json.loads(text)
        return tuple(rule_of(each) for each in given)
    except (ValueError, TypeError, AttributeError, re.error) as error:
        raise OptionError(NAME, f"is no JSON list of objects with {', '.join(sorted(KNOWN))}: {error}") from None


def rule_of(given: Mapping[str, Any]) -> NewTopics:
    if unknown := set(given) - KNOWN:
        raise ValueError(f"{', '.join(sorted(unknown))} is not known")
    include, exclude = tuple(given.get("include", (".*",))), tuple(given.get("exclude", ()))
    for pattern in (*include, *exclude):
        re.compile(pattern)
    configs = tuple((str(name), str(value)) for name, value in given.get("configs", {}).items())
    partitions, replication = (int(given.get(name, BROKERS_DEFAULT)) for name in ("partitions", "replication"))
    return NewTopics(include, exclude, partitions, replication, configs)


def rule_for(topic: str, rules: Iterable[NewTopics]) -> NewTopics | None:
    return next((rule for rule in rules if rule.matches(topic)), None)


def create(cluster: Cluster, topic: str, rule: NewTopics) -> None:
    """Another task may do the same at the same time; whoever comes second is content."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=rule.partitions,
        replication_factor=rule.replication,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in rule.configs],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=CREATE_TIMEOUT_MS)

    def ask() -> None:
        answer = cluster.to_broker(cluster.metadata([]).controller_id, request, CreateTopicsResponse).topics[0]
        if answer.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(answer.error_code, f"topic {topic!r} cannot be made", answer.error_message)

    cluster.retrying(ask)

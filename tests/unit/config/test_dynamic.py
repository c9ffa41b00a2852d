"""Descriptions of settings, compared with those that Apache Kafka 4.3 gave for the same configuration."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from moldau.config import dynamic
from moldau.config.broker import BrokerConfig
from moldau.config.dynamic import ConfigEntry, ConfigSource

KAFKA: dict[str, Any] = json.loads(Path(__file__).with_name("data").joinpath("described_by_kafka.json").read_text())
BROKER = BrokerConfig.load(KAFKA["properties"]).with_dynamic(KAFKA["cluster_default"], KAFKA["per_broker"])


def shown(entries: Iterable[ConfigEntry]) -> dict[str, list[Any]]:
    return {
        entry.name: [
            entry.value,
            entry.source,
            entry.type,
            entry.read_only,
            entry.sensitive,
            [list(synonym) for synonym in entry.synonyms],
        ]
        for entry in entries
    }


def test_a_broker_is_described_as_kafka_describes_it() -> None:
    ours = shown(dynamic.describe_broker(BROKER))
    # The one default that differs: an open port on every interface is not what a new broker should begin with.
    synonyms = ours["listeners"][-1]
    assert synonyms[-1] == ["listeners", "PLAINTEXT://localhost:9092", ConfigSource.DEFAULT_CONFIG]
    synonyms[-1][1] = "PLAINTEXT://:9092"
    assert ours == KAFKA["broker"]


def test_the_clusters_defaults_are_described_as_kafka_describes_them() -> None:
    assert shown(dynamic.describe_broker_defaults(BROKER)) == KAFKA["broker_defaults"]


def test_a_topic_is_described_as_kafka_describes_it() -> None:
    assert shown(dynamic.describe_topic(KAFKA["topic_overrides"], BROKER)) == KAFKA["topic"]
    assert shown(dynamic.describe_topic({}, BROKER)) == KAFKA["plain_topic"]


def test_a_group_is_described_as_kafka_describes_it() -> None:
    assert shown(dynamic.describe_group(KAFKA["group_overrides"], BROKER)) == KAFKA["group"]


def test_a_subscription_to_metrics_is_described_as_kafka_describes_it() -> None:
    assert shown(dynamic.describe_client_metrics(KAFKA["client_metrics_overrides"])) == KAFKA["client_metrics"]


@pytest.mark.parametrize(
    ("overrides", "recorded"), [(KAFKA["topic_overrides"], "created_topic"), ({}, "created_plain_topic")]
)
def test_a_created_topic_is_told_as_kafka_tells_it(overrides: dict[str, str], recorded: str) -> None:
    told = [list(config) for config in dynamic.created_topic_configs(overrides, BROKER)]
    assert told == KAFKA[recorded]


@pytest.mark.parametrize("names", [None, (), []])
def test_no_names_mean_all(names: tuple[str, ...] | None) -> None:
    assert len(dynamic.describe_topic({}, BROKER, names)) == 33


def test_only_what_is_asked_for_is_described() -> None:
    asked = ("segment.bytes", "nonsense")
    assert [entry.name for entry in dynamic.describe_topic({}, BROKER, asked)] == ["segment.bytes"]
    assert [entry.name for entry in dynamic.describe_broker(BROKER, ("node.id", "foo.bar"))] == ["foo.bar", "node.id"]
    assert [entry.name for entry in dynamic.describe_group({}, BROKER, ("share.isolation.level",))] == [
        "share.isolation.level"
    ]


def test_secrets_and_unknown_values_are_not_shown() -> None:
    broker = BrokerConfig.load({"ssl.key.password": "secret", "made.up": "secret"})
    for entry in dynamic.describe_broker(broker, ("ssl.key.password", "made.up")):
        assert (entry.value, entry.sensitive, entry.source) == (None, True, ConfigSource.STATIC_BROKER_CONFIG)
        assert all(synonym.value is None for synonym in entry.synonyms)


def test_documentation_is_given_for_every_known_setting() -> None:
    assert all(entry.documentation for entry in dynamic.describe_topic({}, BROKER))
    assert all(entry.documentation for entry in dynamic.describe_broker(BrokerConfig.load({})))

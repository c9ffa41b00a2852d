"""A broker's configuration follows the metadata, at once and past stored settings that no longer fit."""

from __future__ import annotations

import logging

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.config_changes import ResourceChanges, incremental_alter_configs
from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.server.dynamic_config import DynamicConfig, reconfigured_topics, with_valid
from moldau.types.errors import ErrorCode
from moldau.work.slices import at_once
from tests.support.metadata import Cluster


class Following:
    """A cluster and the configuration of its broker 1, as the node ties them together."""

    def __init__(self, **static: str) -> None:
        self.cluster = Cluster(**static)
        self.dynamic = DynamicConfig(self.cluster.config)
        self.told: list[tuple[BrokerConfig, BrokerConfig]] = []
        self.dynamic.subscribe(lambda old, new: self.told.append((old, new)))

    def set(self, broker: str, name: str, value: str | None) -> None:
        operation = AlterOperation.DELETE if value is None else AlterOperation.SET
        change = ResourceChanges(ResourceType.BROKER, broker, [SettingChange(name, operation, value)])
        old = self.cluster.image
        (answer,) = self.cluster.decide(lambda image: incremental_alter_configs(image, [change], self.dynamic.current))
        assert answer.code == ErrorCode.NONE, answer.message
        at_once(self.dynamic.apply(old, self.cluster.image, self.cluster.delta))


def test_a_brokers_own_setting_is_stronger_than_the_clusters() -> None:
    following = Following()
    following.set("", "message.max.bytes", "1000")
    assert following.dynamic.current.message_max_bytes == 1000
    following.set("1", "message.max.bytes", "2000")
    assert following.dynamic.current.message_max_bytes == 2000
    following.set("1", "message.max.bytes", None)
    assert following.dynamic.current.message_max_bytes == 1000
    following.set("", "message.max.bytes", None)
    assert following.dynamic.current.message_max_bytes == 1048588


def test_subscribers_are_told_old_and_new_once_per_change() -> None:
    following = Following()
    before = following.dynamic.current
    following.set("1", "max.connections", "7")
    ((old, new),) = following.told
    assert old is before
    assert new is following.dynamic.current
    assert new.max_connections == 7


def test_other_changes_leave_the_configuration_alone() -> None:
    following = Following()
    before, old = following.dynamic.current, following.cluster.image
    following.cluster.create(NewTopic("a"))
    at_once(following.dynamic.apply(old, following.cluster.image, following.cluster.delta))
    assert following.dynamic.current is before
    assert following.told == []


def test_a_restart_finds_what_was_stored() -> None:
    following = Following()
    following.set("", "log.retention.ms", "5000")
    following.set("1", "log.segment.bytes", "2000000")
    restarted = DynamicConfig(following.cluster.config).load(following.cluster.image)
    assert restarted.topic_defaults["retention.ms"] == 5000
    assert restarted.topic_defaults["segment.bytes"] == 2_000_000


def test_topics_are_reconfigured_only_if_they_inherit_what_changed() -> None:
    following = Following()
    following.cluster.create(NewTopic("a"), NewTopic("b"))
    following.set("1", "max.connections", "7")
    following.set("1", "log.retention.ms", "5000")
    changed = [{topic.name for topic in reconfigured_topics(*pair, following.cluster.image)} for pair in following.told]
    assert changed == [set(), {"a", "b"}]


def test_a_stored_setting_that_no_longer_fits_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.load({})
    stored = {"log.retention.ms": "0", "log.segment.bytes": "2000000"}
    effective = with_valid(config, {"message.max.bytes": "none"}, stored)
    assert effective.message_max_bytes == config.message_max_bytes
    assert effective.topic_defaults["retention.ms"] == config.topic_defaults["retention.ms"]
    assert effective.topic_defaults["segment.bytes"] == 2_000_000
    assert "message.max.bytes" in caplog.text
    assert "log.retention.ms" in caplog.text


def test_a_setting_without_effect_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    following = Following()
    with caplog.at_level(logging.WARNING, "moldau.server.config"):
        following.set("1", "background.threads", "11")
        following.set("1", "background.threads", "12")
        following.set("1", "message.max.bytes", "2000")
    assert [record.getMessage() for record in caplog.records] == [
        "Configuration background.threads is accepted but has no effect on this broker."
    ]

"""A topic's own settings over the broker's."""

import json
from pathlib import Path

import pytest

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError
from moldau.config.tables import topic_settings
from moldau.config.topic import TopicConfig, validate_overrides

REFUSED = json.loads(Path(__file__).with_name("data").joinpath("refused_by_kafka.json").read_text())


def test_without_settings_of_its_own_a_topic_has_the_brokers() -> None:
    broker = BrokerConfig.load(
        {
            "log.segment.bytes": "2000000",
            "log.roll.hours": "2",
            "log.roll.jitter.hours": "1",
            "log.flush.scheduler.interval.ms": "9",
            "message.max.bytes": "77",
            "log.cleanup.policy": "compact,delete",
            "log.index.size.max.bytes": "8",
            "log.segment.delete.delay.ms": "5",
        }
    )
    config = TopicConfig.resolve({}, broker)
    assert (config.segment_bytes, config.segment_ms, config.segment_jitter_ms) == (2_000_000, 7_200_000, 3_600_000)
    assert (config.flush_ms, config.max_message_bytes, config.segment_index_bytes) == (9, 77, 8)
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.compacted
    assert config.deletes
    assert config.file_delete_delay_ms == 5


def test_its_own_settings_are_stronger() -> None:
    broker = BrokerConfig.load({"log.retention.ms": "5"})
    config = TopicConfig.resolve(
        {"retention.ms": " -1 ", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": ".1", "unheard.of": "1"},
        broker,
    )
    assert config.retention_ms == -1
    assert (config.compacted, config.deletes) == (True, False)
    assert config.min_cleanable_dirty_ratio == 0.1
    assert TopicConfig.resolve({"cleanup.policy": ""}, broker).cleanup_policy == frozenset()


def test_the_internal_segment_size_knows_no_least() -> None:
    assert TopicConfig.resolve({"internal.segment.bytes": "100"}, BrokerConfig.load({})).segment_bytes == 100


def test_a_compacted_log_rolls_in_time_for_its_compaction() -> None:
    broker = BrokerConfig.load({})
    lag = {"max.compaction.lag.ms": "50", "segment.ms": "100"}
    assert TopicConfig.resolve(lag, broker).max_segment_ms == 100
    assert TopicConfig.resolve({**lag, "cleanup.policy": "compact"}, broker).max_segment_ms == 50


@pytest.mark.parametrize(
    ("overrides", "level"),
    [
        ({}, None),
        ({"compression.type": "snappy"}, None),
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": "4"}, 4),
        ({"compression.type": "lz4"}, 9),
        ({"compression.type": "zstd", "compression.zstd.level": "-7"}, -7),
    ],
)
def test_the_level_is_that_of_the_codec(overrides: dict[str, str], level: int | None) -> None:
    assert TopicConfig.resolve(overrides, BrokerConfig.load({})).compression_level == level


def test_the_time_of_records() -> None:
    broker = BrokerConfig.load({"log.message.timestamp.type": "LogAppendTime"})
    assert TopicConfig.resolve({}, broker).log_append_time
    assert not TopicConfig.resolve({"message.timestamp.type": "CreateTime"}, broker).log_append_time


def test_every_honoured_setting_has_an_attribute() -> None:
    honoured = {name for name, setting in topic_settings().items() if setting.honoured and not setting.internal}
    assert honoured <= {attribute.replace("_", ".") for attribute in TopicConfig.__slots__}


@pytest.mark.parametrize(("overrides", "message"), REFUSED["topic"])
def test_settings_are_refused_as_the_real_broker_does(overrides: dict[str, str | None], message: str | None) -> None:
    broker = BrokerConfig.load({})
    if message is None:
        validate_overrides(overrides, broker)
        return
    with pytest.raises(ConfigError) as refused:
        validate_overrides(overrides, broker)
    assert str(refused.value) == message


def test_a_topics_settings_must_agree_with_the_brokers() -> None:
    broker = BrokerConfig.load({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms \(6\) > max\.compaction\.lag\.ms \(5\)"):
        validate_overrides({"min.compaction.lag.ms": "6"}, broker)

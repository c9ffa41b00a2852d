"""The tables of settings."""

import pytest

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigType, Settings, Update
from moldau.config.synonyms import GROUP_TO_BROKER, TOPIC_TO_BROKER
from moldau.config.tables import (
    NOT_HONOURED,
    broker_settings,
    client_metrics_settings,
    group_settings,
    topic_settings,
)

TABLES = [broker_settings(), topic_settings(), group_settings(), client_metrics_settings()]


@pytest.mark.parametrize("settings", TABLES)
def test_every_default_obeys_its_own_rule(settings: Settings) -> None:
    for setting in settings.values():
        if setting.default is not None:
            assert setting.parse(setting.default) == setting.default_value


@pytest.mark.parametrize("settings", TABLES)
def test_a_setting_is_documented_exactly_if_it_is_honoured(settings: Settings) -> None:
    for setting in settings.values():
        assert setting.honoured == (setting.doc != NOT_HONOURED), setting.name
        assert setting.doc.endswith("."), setting.name


def test_what_the_broker_reads_is_not_called_without_effect() -> None:
    read = {name.replace("_", ".") for name in BrokerConfig.__annotations__} & set(broker_settings())
    assert "group.initial.rebalance.delay.ms" in read
    assert {name for name in read if not broker_settings()[name].honoured} == set()


def test_the_tables_hold_all_of_kafkas_settings() -> None:
    visible = [setting for setting in broker_settings().values() if not setting.internal]
    assert len(visible) == 340
    assert len([setting for setting in topic_settings().values() if not setting.internal]) == 33
    assert (len(group_settings()), len(client_metrics_settings())) == (17, 3)


def test_some_settings_are_as_kafka_defines_them() -> None:
    settings = broker_settings()
    assert settings["log.segment.bytes"].allowed() == "[1048576,...]"
    assert settings["log.segment.bytes"].update is Update.CLUSTER_WIDE
    assert settings["listeners"].update is Update.PER_BROKER
    assert settings["num.partitions"].read_only
    assert settings["ssl.key.password"].sensitive
    assert settings["offsets.topic.replication.factor"].type is ConfigType.SHORT
    assert settings["log.initial.task.delay.ms"].internal


@pytest.mark.parametrize(("inheriting", "settings"), [(TOPIC_TO_BROKER, TABLES[1]), (GROUP_TO_BROKER, TABLES[2])])
def test_a_setting_and_the_one_it_inherits_from_agree(inheriting: dict[str, str], settings: Settings) -> None:
    for name, broker_name in inheriting.items():
        assert settings[name].type is broker_settings()[broker_name].type, name

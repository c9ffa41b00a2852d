"""Which dynamic changes of a broker are accepted."""

import json
from pathlib import Path

import pytest

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError
from moldau.config.dynamic_updates import apply_updates
from moldau.config.javatext import in_hash_order, java_hash

REFUSED = json.loads(Path(__file__).with_name("data").joinpath("refused_by_kafka.json").read_text())


@pytest.mark.parametrize(("per_broker", "updates", "message"), REFUSED["broker"])
def test_changes_are_refused_as_the_real_broker_does(
    per_broker: bool, updates: dict[str, str], message: str | None
) -> None:
    broker = BrokerConfig.load({})
    if message is None:
        apply_updates(broker, updates, per_broker=per_broker)
        return
    with pytest.raises(ConfigError) as refused:
        apply_updates(broker, updates, per_broker=per_broker)
    assert str(refused.value) == message


def test_a_change_keeps_the_other_layer() -> None:
    broker = BrokerConfig.load({}).with_dynamic({"message.max.bytes": "5"}, {"log.cleaner.backoff.ms": "6"})
    changed = apply_updates(broker, {"log.cleaner.backoff.ms": "7"}, per_broker=True)
    assert (changed.message_max_bytes, changed.log_cleaner_backoff_ms) == (5, 7)
    changed = apply_updates(broker, {"message.max.bytes": "8"}, per_broker=False)
    assert (changed.message_max_bytes, changed.log_cleaner_backoff_ms) == (8, 6)


def test_thread_pools_change_in_small_steps() -> None:
    broker = BrokerConfig.load({"num.io.threads": "8", "log.cleaner.threads": "4"})
    apply_updates(broker, {"num.io.threads": "16", "log.cleaner.threads": "2"}, per_broker=False)
    with pytest.raises(ConfigError, match="value should be at least half the current value 8"):
        apply_updates(broker, {"num.io.threads": "3"}, per_broker=False)
    with pytest.raises(ConfigError, match="cannot be reduced to less than half the current value 4"):
        apply_updates(broker, {"log.cleaner.threads": "1"}, per_broker=False)


def test_settings_of_one_listener_are_checked_by_their_base_name() -> None:
    broker = BrokerConfig.load({})
    with pytest.raises(ConfigError, match=r"for configuration max\.connections: Not a number of type INT"):
        apply_updates(broker, {"listener.name.plaintext.max.connections": "x"}, per_broker=True)
    apply_updates(broker, {"listener.name.plaintext.max.connections": "5"}, per_broker=False)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        apply_updates(broker, {"listener.name.plaintext.ssl.keystore.type": "JKS"}, per_broker=False)


def test_names_are_listed_in_the_order_of_a_hash_map() -> None:
    assert (java_hash(""), java_hash("abc"), java_hash("\U0001f600")) == (0, 96354, 1772899)
    assert in_hash_order(["num.partitions", "node.id"]) == ["node.id", "num.partitions"]
    many = [f"name.{number}" for number in range(100)]
    assert sorted(in_hash_order(many)) == sorted(many)

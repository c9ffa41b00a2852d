"""What zookeeper.connect and its neighbours mean."""

from __future__ import annotations

import pytest

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.broker_checks import refuse_missing_security
from moldau.config.zookeeper import ZooKeeperSettings


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("localhost:2181", "localhost:2181", ""),
        ("h1:1,h2:2/kafka", "h1:1,h2:2", "/kafka"),
        ("h1, h2:2 ,10.0.0.3/a/b", "h1:2181,h2:2,10.0.0.3:2181", "/a/b"),
        ("[::1]:2182,[::2]/", "[::1]:2182,[::2]:2181", ""),
    ],
)
def test_servers_and_chroot(text: str, hosts: str, chroot: str) -> None:
    config = BrokerConfig.load({"zookeeper.connect": text})
    assert config.zookeeper == ZooKeeperSettings(hosts, chroot, 6.0, 6.0)
    assert config.zookeeper.connect == hosts + chroot


def test_without_it_the_broker_is_alone() -> None:
    assert BrokerConfig.load({}).zookeeper is None
    assert BrokerConfig.load({"zookeeper.connect": " "}).zookeeper is None


def test_time_outs() -> None:
    asked = {"zookeeper.connect": "h", "zookeeper.session.timeout.ms": "9000"}
    settings = BrokerConfig.load(asked).zookeeper
    assert settings is not None and (settings.session_seconds, settings.connect_seconds) == (9.0, 9.0)
    settings = BrokerConfig.load(asked | {"zookeeper.connection.timeout.ms": "30000"}).zookeeper
    assert settings is not None and (settings.session_seconds, settings.connect_seconds) == (9.0, 30.0)


@pytest.mark.parametrize(
    "text", ["h:0", "h:x", "h:70000", ":2181", "h1,,h2", "h/a//b", "h/a/", "h/./a", "h:1/é", "h h"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BrokerConfigError, match=r"zookeeper\.connect"):
        BrokerConfig.load({"zookeeper.connect": text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zookeeper.set.acl", "true"),
        ("zookeeper.ssl.client.enable", "true"),
        ("zookeeper.ssl.truststore.location", "/t.jks"),
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
    ],
)
def test_protection_that_is_not_there_is_refused(name: str, text: str) -> None:
    with pytest.raises(BrokerConfigError, match="not supported yet"):
        refuse_missing_security({name: text})
    refuse_missing_security({"zookeeper.set.acl": "false", "zookeeper.ssl.client.enable": "false"})

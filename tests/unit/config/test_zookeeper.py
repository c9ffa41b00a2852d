"""What zookeeper.connect and its neighbours mean."""

from __future__ import annotations

import pytest

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.broker_checks import refuse_missing_security
from moldau.config.zookeeper import ZooKeeperSettings
from moldau.config.zookeeper_security import ZooKeeperSecurity


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


CLIENT = "Client {{ org.apache.zookeeper.server.auth.{module} required {options}; }};"
DIGEST = CLIENT.format(module="DigestLoginModule", options='username="broker" password="secret"')


def loaded(**more: str) -> ZooKeeperSettings:
    given = {name.replace("__", "."): text for name, text in more.items()}
    found = BrokerConfig.load({"zookeeper.connect": "h", **given}).zookeeper
    assert found is not None
    return found


def test_how_brokers_log_in_and_lock() -> None:
    assert loaded().security == ZooKeeperSecurity()
    security = loaded(moldau__jaas__config=DIGEST, zookeeper__set__acl="true").security
    assert security.login is not None and security.is_digest and security.locks_nodes
    assert "secret" not in repr(security)
    tickets = loaded(moldau__jaas__config=CLIENT.format(module="Krb5LoginModule", options='serviceName="zk"')).security
    assert tickets.service == "zk" and not tickets.is_digest


def test_how_the_way_is_encrypted() -> None:
    tls = loaded(zookeeper__ssl__client__enable="true", zookeeper__ssl__truststore__location="/t.jks").security.tls
    assert tls is not None and tls.truststore_location == "/t.jks" and tls.check_hostname
    asked = {"zookeeper__ssl__client__enable": "true", "zookeeper__ssl__endpoint__identification__algorithm": ""}
    relaxed = loaded(zookeeper__ssl__enabled__protocols="TLSv1.3", **asked).security.tls
    assert relaxed is not None and relaxed.enabled_protocols == ("TLSv1.3",) and not relaxed.check_hostname


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"zookeeper__set__acl": "true"}, "zookeeper.set.acl.* brokers that log in to ZooKeeper: a section Client"),
        ({"zookeeper__ssl__truststore__location": "/t"}, "zookeeper.ssl.client.enable.* true where .*truststore"),
        ({"moldau__jaas__config": "Client { a.Other required; };"}, "in section Client a DigestLoginModule or"),
        (
            {"moldau__jaas__config": CLIENT.format(module="DigestLoginModule", options='username="b"')},
            "with username and password",
        ),
        ({"zookeeper__ssl__client__enable": "true", "zookeeper__ssl__enabled__protocols": "SSLv3"}, "some of TLSv1.2"),
    ],
)
def test_logins_that_cannot_be(given: dict[str, str], problem: str) -> None:
    with pytest.raises(BrokerConfigError, match=problem):
        loaded(**given)


@pytest.mark.parametrize("name", ["zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"])
def test_protection_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(BrokerConfigError, match="not supported yet"):
        refuse_missing_security({name: "true"})
    refuse_missing_security({name: "false", "zookeeper.set.acl": "true"})

"""Listeners, what is advertised of them, and their protocols."""

import pytest

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.listeners import Listener


def plain(name: str, host: str, port: int) -> Listener:
    return Listener(name, "PLAINTEXT", host, port)


def test_several_listeners_and_what_is_advertised() -> None:
    config = BrokerConfig.load(
        {
            "listeners": "PLAINTEXT://0.0.0.0:9092,inside://[::1]:0",
            "advertised.listeners": "PLAINTEXT://kafka.example:19092,INSIDE://[::1]:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT, Inside:plaintext,SSL:SSL",
            "inter.broker.listener.name": "inside",
        }
    )
    assert config.listeners == (plain("PLAINTEXT", "0.0.0.0", 9092), plain("INSIDE", "::1", 0))
    assert config.advertised_listeners == (plain("PLAINTEXT", "kafka.example", 19092), plain("INSIDE", "::1", 9093))
    assert config.inter_broker_listener_name == "INSIDE"
    assert str(config.listeners[1]) == "INSIDE://[::1]:0"


def test_listeners_of_kafkas_controllers_are_left_out() -> None:
    config = BrokerConfig.load(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert config.listeners == (plain("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (plain("PLAINTEXT", "localhost", 9092),)


def test_one_port_can_serve_both_ip_versions() -> None:
    config = BrokerConfig.load(
        {
            "listeners": "A://127.0.0.1:9092,B://[::1]:9092",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        }
    )
    assert [listener.port for listener in config.listeners] == [9092, 9092]
    assert config.inter_broker_listener_name == "A"


PAIR = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"listeners": "SSL://:9093"},
            "listener SSL needs a private key and a certificate",
        ),
        ({"listeners": "here"}, "here for configuration listeners: Expected NAME://host:port"),
        ({"listeners": "PLAINTEXT://:x"}, "Expected NAME://host:port"),
        ({"listeners": "PLAINTEXT://:65536"}, "Port must be between 0 and 65535"),
        ({"listeners": "PLAINTEXT://:-1"}, "Port must be between 0 and 65535"),
        ({"listeners": "PLAINTEXT://:" + "9" * 5000}, "Port must be between 0 and 65535"),
        ({"listeners": "NEW://:1"}, "No security protocol defined for listener NEW"),
        ({"listeners": "CONTROLLER://:1"}, "at least one listener that controller.listener.names does not name"),
        ({**PAIR, "listeners": "A://:1,a://:2"}, "Each listener must have a different name"),
        ({**PAIR, "listeners": "A://:1,B://:1"}, "Each listener must have a different port"),
        ({**PAIR, "listeners": "A://127.0.0.1:1,B://10.0.0.1:1"}, "Each listener must have a different port"),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092"},
            "set advertised.listeners too, for example advertised.listeners=PLAINTEXT://broker.example:9092",
        ),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners: a routable address"),
        ({"advertised.listeners": "SSL://host:1"}, "equal to or a subset of the ones defined in listeners: PLAINTEXT"),
        ({"advertised.listeners": "CONTROLLER://host:1"}, "at least one broker advertised listener"),
        ({"inter.broker.listener.name": "SSL"}, "must be a listener name defined in advertised.listeners: PLAINTEXT"),
        ({"inter.broker.listener.name": "OTHER"}, "OTHER for configuration inter.broker.listener.name: one of"),
        ({"security.inter.broker.protocol": "SSL"}, "must be a listener name defined in advertised.listeners"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "unset, or security.inter.broker.protocol unset",
        ),
        ({"listener.security.protocol.map": "A"}, "Expected a comma separated list of NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:TLS"}, "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ],
)
def test_what_cannot_be_opened_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(BrokerConfigError) as refused:
        BrokerConfig.load(properties)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_a_listener_on_every_interface_is_warned_of(host: str) -> None:
    properties = {"listeners": f"PLAINTEXT://{host}:9092", "advertised.listeners": "PLAINTEXT://here:9092"}
    (warning,) = BrokerConfig.load(properties).warnings
    assert warning.startswith(f"listeners=PLAINTEXT://{host}:9092 accepts connections on every network interface")
    assert "PLAINTEXT://localhost:9092 keeps it to this machine" in warning


ON_EVERY_INTERFACE = {"listeners": "SSL://:9093", "advertised.listeners": "SSL://here:9093"}
WITH_KEY = {**ON_EVERY_INTERFACE, "ssl.keystore.location": "broker.pem"}


@pytest.mark.parametrize("asked", [{}, {"ssl.client.auth": "none"}, {"listener.name.ssl.ssl.client.auth": "requested"}])
def test_one_that_is_encrypted_and_wants_no_certificate_is_warned_of(asked: dict[str, str]) -> None:
    (warning,) = BrokerConfig.load(WITH_KEY | asked).warnings
    assert warning == (
        "listeners=SSL://:9093 accepts connections on every network interface, and serves clients without a "
        "certificate, whoever they are. ssl.client.auth=required asks them for one, SSL://localhost:9093 keeps it to "
        "this machine."
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"ssl.client.auth": "required"},
        {"listener.security.protocol.map": "SSL:SASL_SSL", "sasl.enabled.mechanisms": "SCRAM-SHA-512"},
    ],
)
def test_one_that_asks_who_somebody_is_is_not_warned_of(asked: dict[str, str]) -> None:
    assert BrokerConfig.load(WITH_KEY | {"inter.broker.listener.name": "SSL"} | asked).warnings == ()


def test_a_named_address_is_not_warned_of() -> None:
    assert BrokerConfig.load({"listeners": "PLAINTEXT://10.0.0.1:9092"}).warnings == ()


def test_versions_of_tls_that_are_too_old_count_for_nothing_beside_newer_ones() -> None:
    def enabled(protocols: str) -> tuple[str, ...]:
        settings = {"listeners": "SSL://localhost:9093", "ssl.keystore.location": "broker.pem"}
        return BrokerConfig.load({**settings, "ssl.enabled.protocols": protocols}).security["SSL"].tls.enabled_protocols

    assert enabled("TLSv1.2,TLSv1.1,TLSv1") == ("TLSv1.2",)
    for refused in ("TLSv1.1,TLSv1", "TLSv1.2,SSLv3"):
        with pytest.raises(BrokerConfigError, match=f"Invalid value {refused} for configuration ssl.enabled.protocols"):
            enabled(refused)

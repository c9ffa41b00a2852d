"""How clients log in at a listener: what cannot be used is refused before it is stored, and stops no broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metadata.image import ClusterImage
from moldau.security.authentication.plain import PlainExchange
from moldau.server.logins import GateSettings, Logins, check_change
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.loops import on_loop

MECHANISMS = "listener.name.client.sasl.enabled.mechanisms"
RULES = "listener.name.client.sasl.kerberos.principal.to.local.rules"
USERS = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice='a';"
TABLE = 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/nowhere" principal="kafka/a@B";'
WITH_BAD_RULES = {MECHANISMS: "GSSAPI", "listener.name.client.gssapi.sasl.jaas.config": TABLE, RULES: "RULE:nonsense"}


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig.load(
        {
            "listeners": "CLIENT://127.0.0.1:0",
            "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "CLIENT",
            MECHANISMS: "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": USERS,
        }
    )


def logins() -> Logins:
    def nowhere(work: Any) -> asyncio.Future[Any]:
        raise AssertionError("nothing is computed yet")

    return Logins(ClusterImage, bytes, lambda: 0, nowhere)


def knows_plain_users(settings: GateSettings) -> bool:
    return isinstance(settings.rules.mechanisms["PLAIN"](), PlainExchange)


def test_what_cannot_be_used_is_refused(config: BrokerConfig) -> None:
    check_change(config, config)
    with pytest.raises(KafkaError, match="listener CLIENT: Invalid rule: RULE:nonsense") as refused:
        check_change(config, config.with_dynamic({}, WITH_BAD_RULES))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_what_is_not_changed_is_not_tried(config: BrokerConfig) -> None:
    """Else one mistake in the properties would stand in the way of every other change."""
    broken = config.with_dynamic({}, WITH_BAD_RULES)
    check_change(broken, broken.with_dynamic({}, {**WITH_BAD_RULES, "max.connections": "7"}))


@on_loop
async def test_a_listener_keeps_its_logins_where_a_stored_change_cannot_be_used(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    known = logins()
    present = known.first_settings(config, "CLIENT")
    changed = config.with_dynamic({}, WITH_BAD_RULES)
    assert known.changed_settings(changed, "CLIENT", present) is present
    assert "listener CLIENT keeps its logins: Invalid rule: RULE:nonsense" in caplog.text


@on_loop
async def test_a_broker_whose_stored_logins_cannot_be_used_starts_with_those_of_its_properties(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """Else nobody could change them back."""
    assert knows_plain_users(logins().first_settings(config.with_dynamic({}, WITH_BAD_RULES), "CLIENT"))
    assert "Invalid rule: RULE:nonsense; it begins with the logins of the properties" in caplog.text


@on_loop
async def test_a_broker_does_not_start_with_properties_that_cannot_be_used(config: BrokerConfig) -> None:
    broken = BrokerConfig.load({**config.origins.static, **WITH_BAD_RULES})
    with pytest.raises(ValueError, match="listener CLIENT: Invalid rule: RULE:nonsense"):
        logins().first_settings(broken, "CLIENT")


@on_loop
async def test_how_much_a_stranger_may_send_is_a_matter_of_the_listener(config: BrokerConfig) -> None:
    own = {"sasl.server.max.receive.size": "5000", "listener.name.client.sasl.server.max.receive.size": "6000"}
    narrow = BrokerConfig.load({**config.origins.static, **own})
    assert logins().first_settings(config, "CLIENT").max_token_bytes == 524288
    assert logins().first_settings(narrow, "CLIENT").max_token_bytes == 6000

"""How this broker logs in at the others: what cannot be used is refused before it is stored."""

from __future__ import annotations

import pytest

from moldau.config.broker import BrokerConfig
from moldau.server.peers.login import check_change, sasl_settings
from moldau.types.errors import ErrorCode, KafkaError

LISTENER = "listener.name.brokers"
ENDPOINT = f"{LISTENER}.oauthbearer.sasl.oauthbearer.token.endpoint.url"


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig.load(
        {
            "zookeeper.connect": "localhost:2181",
            "listeners": "BROKERS://127.0.0.1:0",
            "listener.security.protocol.map": "BROKERS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            f"{LISTENER}.sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            f"{LISTENER}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "file:/keys",
            ENDPOINT: "file:/token",
        }
    )


def test_what_can_be_used_may_come(config: BrokerConfig) -> None:
    check_change(config, config)
    changed = config.with_dynamic({}, {ENDPOINT: "file:/other"})
    check_change(config, changed)
    assert changed.peer_login is not None
    found = sasl_settings(changed.peer_login).token
    assert found is not None and found.endpoint == "file:/other"


def test_what_cannot_be_used_is_refused(config: BrokerConfig) -> None:
    changed = config.with_dynamic({}, {ENDPOINT: "ftp://nowhere"})
    with pytest.raises(KafkaError, match=r"BROKERS: .*nowhere. is no https, http or file URL") as refused:
        check_change(config, changed)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    check_change(changed, changed)

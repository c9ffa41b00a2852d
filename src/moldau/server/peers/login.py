"""How this broker logs in at the others, from its settings to those of the client's core."""

from __future__ import annotations

from moldau.client.errors import SettingError
from moldau.client.settings import SaslSettings
from moldau.config.broker import BrokerConfig
from moldau.config.listener_security import PeerLogin
from moldau.types.errors import ErrorCode, KafkaError


def sasl_settings(login: PeerLogin) -> SaslSettings:
    """Raises SettingError."""
    token, tickets = None, None
    if login.mechanism == "GSSAPI":
        from moldau.client.ticket_source import ticket_source

        tickets = ticket_source(login.properties, login.options)
    if login.mechanism == "OAUTHBEARER":
        from moldau.client.token_source import token_source

        token = token_source(login.properties, login.options)
    return SaslSettings(login.mechanism, login.username, login.password, token, tickets=tickets)


def check_change(old: BrokerConfig, new: BrokerConfig) -> None:
    """Whether this broker could log in so, where that is different in the new one. Raises KafkaError."""
    if new.peer_login is None or new.peer_login == old.peer_login:
        return
    try:
        sasl_settings(new.peer_login)
    except SettingError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"listener {new.inter_broker_listener_name}: {error}") from error

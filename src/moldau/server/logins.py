"""What the listeners of this broker ask of clients, as settings and metadata say it now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.config.broker import BrokerConfig
from moldau.config.jaas import LoginModule
from moldau.config.listener_security import ListenerSecurity
from moldau.metadata.image import ClusterImage
from moldau.security.authentication.delegation import TokenCredentials
from moldau.security.authentication.exchange import Mechanism
from moldau.security.authentication.kerberos import Elsewhere, KerberosExchange, user_mapping
from moldau.security.authentication.login import LoginRules
from moldau.security.authentication.oauth import OauthExchange
from moldau.security.authentication.plain import PlainExchange
from moldau.security.authentication.scram import ScramExchange, ScramUser
from moldau.security.authentication.tokens import Judge, TokenRules, judge_signed, judge_unsigned
from moldau.types.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.config.kerberos import KerberosSettings
    from moldau.config.oauth import OauthSettings
    from moldau.server.token_keys import RunBlocking, TokenKeys

log = logging.getLogger("moldau.server.logins")

T = TypeVar("T")

MOST_KERBEROS_AT_ONCE: Final = 2
"""Threads that strangers may keep busy; those that read from disks are taken from the same ones."""


@dataclass(frozen=True, slots=True)
class GateSettings:
    rules: LoginRules
    max_token_bytes: int
    failure_delay_ms: int


class Logins:
    def __init__(
        self,
        image: Callable[[], ClusterImage],
        random_bytes: Callable[[int], bytes],
        wall_ms: Callable[[], int],
        run_blocking: RunBlocking,
    ) -> None:
        self._image = image
        self._random_bytes = random_bytes
        self._wall_ms = wall_ms
        self._run_blocking = run_blocking
        self._keys: dict[str, TokenKeys] = {}
        self._token_credentials = TokenCredentials(random_bytes, run_blocking)
        self._token_secret: str | None = None
        self._kerberos_turns = asyncio.Semaphore(MOST_KERBEROS_AT_ONCE)

    @property
    def token_keys(self) -> tuple[TokenKeys, ...]:
        """Those of all listeners that check signed tokens."""
        return tuple(self._keys.values())

    def first_settings(self, config: BrokerConfig, listener: str) -> GateSettings:
        """At the start: as was set while the broker ran, or else as its properties say, since nobody could change
        anything as long as it is down. Raises ValueError."""
        try:
            return self.settings_of(config, listener)
        except ValueError as error:
            written = config.with_dynamic({}, {})
            if written.security[listener] == config.security[listener]:
                raise ValueError(f"listener {listener}: {error}") from error
            log.error("listener %s: %s; it begins with the logins of the properties", listener, error)
            return self.settings_of(written, listener)

    def changed_settings(self, config: BrokerConfig, listener: str, present: GateSettings) -> GateSettings:
        """While the broker runs: what cannot be used leaves those that it has."""
        try:
            return self.settings_of(config, listener)
        except ValueError as error:
            log.error("listener %s keeps its logins: %s", listener, error)
            return present

    def settings_of(self, config: BrokerConfig, listener: str) -> GateSettings:
        """Raises ValueError."""
        security = config.security[listener]
        self._token_secret = config.delegation_token_secret_key
        mechanisms = {mechanism: self._mechanism(security, mechanism) for mechanism in security.mechanisms}
        return GateSettings(
            LoginRules(mechanisms, security.reauthentication_ms),
            security.max_receive_bytes,
            config.connection_failed_authentication_delay_ms,
        )

    def _mechanism(self, security: ListenerSecurity, mechanism: str) -> Mechanism:
        module = security.modules.get(mechanism, LoginModule(""))
        if mechanism == "PLAIN":
            return partial(PlainExchange, module.users.get)
        if mechanism == "OAUTHBEARER" and security.oauth is not None:
            judge = self._judge(security.name, security.oauth)
            return partial(OauthExchange, judge, lambda: self._wall_ms() / 1000)
        if mechanism == "GSSAPI" and security.kerberos is not None:
            return partial(Elsewhere, kerberos_exchanges(security.kerberos), self._run_kerberos)
        return partial(ScramExchange, mechanism, partial(self._scram_user, mechanism), self._random_bytes)

    async def _run_kerberos(self, work: Callable[[], T]) -> T:
        async with self._kerberos_turns:
            found: T = await self._run_blocking(work)
            return found

    def _judge(self, listener: str, settings: OauthSettings) -> Judge:
        rules = TokenRules(
            settings.principal_claim,
            settings.scope_claim,
            settings.required_scopes,
            settings.issuer,
            settings.audiences,
            settings.clock_skew_seconds,
        )
        if settings.jwks_url is None:
            return partial(judge_unsigned, rules)
        from moldau.server.token_keys import TokenKeys

        keys = self._keys.get(listener)
        if keys is None or keys.settings != settings:
            keys = self._keys[listener] = TokenKeys(listener, settings, self._run_blocking)
        return partial(judge_signed, rules, keys.keys_of)

    def _scram_user(self, mechanism: str, name: str, by_token: bool) -> ScramUser | None:
        if by_token:
            return self._token_user(mechanism, name)
        user = self._image().scram_users.get(name)
        credential = None if user is None else user.credentials.get(mechanism)
        return None if credential is None else ScramUser(credential, name)

    def _token_user(self, mechanism: str, token_id: str) -> ScramUser | None:
        """With a token's id for a name and its secret for a password its owner logs in, as long as it holds."""
        token = self._image().tokens.get(token_id)
        if token is None or self._token_secret is None or token.entry.has_expired(self._wall_ms()):
            return None
        credential = self._token_credentials.of(self._token_secret, token_id, mechanism)
        return ScramUser(credential, token.entry.owner.partition(":")[2], token.entry.expires_ms)


def kerberos_exchanges(settings: KerberosSettings) -> Callable[[], KerberosExchange]:
    """Raises ValueError where the library is missing, or key table or rules cannot be used."""
    from moldau.server.tickets import contexts

    user_of = user_mapping(settings.rules, settings.realm)
    return partial(KerberosExchange, contexts(settings), user_of)


def check_change(old: BrokerConfig, new: BrokerConfig) -> None:
    """Whether listeners could use the Kerberos settings that are different in the new one. Raises KafkaError."""
    for listener, security in new.security.items():
        if security.kerberos is None or security.kerberos == old.security[listener].kerberos:
            continue
        try:
            kerberos_exchanges(security.kerberos)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"listener {listener}: {error}") from error

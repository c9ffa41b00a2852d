"""The settings of OAUTHBEARER for one listener, as values: how its tokens are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.config.definition import ConfigError

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS: Final = frozenset(
    {
        f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
        f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
    }
)
UNSIGNED_HANDLER: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
HANDLER_CLASS: Final = "sasl.server.callback.handler.class"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_UNSIGNED_OPTION: Final = "unsecuredValidator"
_TRUST: Final = "ssl.truststore.location"


@dataclass(frozen=True, slots=True)
class OauthSettings:
    """`jwks_url` None: tokens are not signed."""

    jwks_url: str | None
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    trusted_file: str | None = None
    """The certificates that the keys' server is checked with; the system's where there is none."""
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_seconds: float = 30.0
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: frozenset[str] = frozenset()


def oauth_settings(listener: str, setting: Callable[[str], Any], options: Mapping[str, str]) -> OauthSettings:
    """`setting` gives the listener's value of a setting, `options` are its login module's. Raises ConfigError."""
    handler, url = setting(HANDLER_CLASS), setting(JWKS_URL)
    asked = handler == UNSIGNED_HANDLER or any(name.startswith(_UNSIGNED_OPTION) for name in options)
    if handler is not None and handler != UNSIGNED_HANDLER and handler not in SIGNED_HANDLERS:
        known = ", ".join(sorted((*SIGNED_HANDLERS, UNSIGNED_HANDLER)))
        raise ConfigError(HANDLER_CLASS, handler, f"one of {known}")
    if url is not None and (handler is None or handler in SIGNED_HANDLERS):
        return _signed(url, setting, options)
    if url is None and asked:
        return _unsigned(options)
    key = f"listener.name.{listener.lower()}.oauthbearer.{JWKS_URL}"
    raise ConfigError(
        key, url, "the keys that tokens are checked with are needed: an https or file URL; "
        f"unsigned tokens, for development, are taken with {HANDLER_CLASS}={UNSIGNED_HANDLER} and no such URL"
    )  # fmt: skip


def _signed(url: str, setting: Callable[[str], Any], options: Mapping[str, str]) -> OauthSettings:
    if not url.startswith(("https://", "http://", "file:")):
        raise ConfigError(JWKS_URL, url, "an https, http or file URL")
    return OauthSettings(
        url,
        setting("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        options.get(_TRUST),
        setting("sasl.oauthbearer.expected.issuer"),
        setting("sasl.oauthbearer.expected.audience") or (),
        setting("sasl.oauthbearer.clock.skew.seconds"),
        setting("sasl.oauthbearer.sub.claim.name"),
        setting("sasl.oauthbearer.scope.claim.name"),
        frozenset(options.get("requiredScope", "").split()),
    )


def _unsigned(options: Mapping[str, str]) -> OauthSettings:
    skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
    if not skew.isdecimal():
        key = "unsecuredValidatorAllowableClockSkewMs"
        raise ConfigError(key, skew, "a number of milliseconds")
    return OauthSettings(
        None,
        clock_skew_seconds=int(skew) / 1000,
        principal_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
        scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
        required_scopes=frozenset(options.get("unsecuredValidatorRequiredScope", "").split()),
    )

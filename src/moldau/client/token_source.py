"""Where a client's bearer token is to come from, as its settings say it: those of Java's client, and librdkafka's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.client.errors import SettingError

ENDPOINT_KEYS: Final = ("sasl.oauthbearer.token.endpoint.url",)
ID_KEYS: Final = ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
SECRET_KEYS: Final = ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret")
EXTENSIONS: Final = ("extension_", "unsecuredLoginExtension_")
UNSIGNED_CLAIM: Final = "unsecuredLoginStringClaim_"


@dataclass(frozen=True, slots=True)
class TokenSource:
    endpoint: str | None = None
    """A URL; with the scheme `file` the token stands in that file."""
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    ca_file: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    """What is told to the broker beside the token."""
    unsigned_claims: tuple[tuple[str, str], ...] = ()
    unsigned_seconds: int = 3600

    def __repr__(self) -> str:
        return f"TokenSource(endpoint={self.endpoint!r}, client_id={self.client_id!r}, client_secret=…)"


def token_source(properties: Mapping[str, str], fields: Mapping[str, str]) -> TokenSource | None:
    """From a client's properties and the options of its login module; None where they say nothing about a token that
    this client can get."""
    endpoint = first_of(properties, ENDPOINT_KEYS)
    if endpoint is not None:
        if not endpoint.startswith(("https://", "http://", "file:")):
            raise SettingError(ENDPOINT_KEYS[0], f"{endpoint!r} is no https, http or file URL")
        if first_of(properties, ("sasl.oauthbearer.grant.type",)) not in (None, "client_credentials"):
            return None
        found = TokenSource(
            endpoint,
            first_of(properties, ID_KEYS) or fields.get("clientId", ""),
            first_of(properties, SECRET_KEYS) or fields.get("clientSecret", ""),
            properties.get("sasl.oauthbearer.scope") or fields.get("scope", ""),
            properties.get("https.ca.location") or fields.get("ssl.truststore.location"),
            told_extensions(properties, fields),
        )
        if not found.client_id and not endpoint.startswith("file:"):
            raise SettingError(ID_KEYS[0], "is missing; the token endpoint asks for a client id and its secret")
        return found
    named = (name for name in fields if name.startswith(UNSIGNED_CLAIM))
    claims = {name.removeprefix(UNSIGNED_CLAIM): fields[name] for name in named}
    if not claims and properties.get("enable.sasl.oauthbearer.unsecure.jwt", "").lower() == "true":
        claims = librdkafkas_claims(properties.get("sasl.oauthbearer.config", ""))
    if not claims:
        return None
    return TokenSource(extensions=told_extensions(properties, fields), unsigned_claims=tuple(sorted(claims.items())))


def told_extensions(properties: Mapping[str, str], fields: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Java has them among the options of the login module, librdkafka in a setting: `traceId=1,zone=a`."""
    found = {
        name.removeprefix(start): text
        for name, text in fields.items()
        for start in EXTENSIONS
        if name.startswith(start)
    }
    written = properties.get("sasl.oauthbearer.extensions", "")
    found |= dict(part.partition("=")[::2] for part in written.split(",") if part)
    for name, text in found.items():
        if not re.fullmatch("[A-Za-z]+", name) or name == "auth" or not re.fullmatch(r"[\x21-\x7e \t\r\n]+", text):
            raise SettingError("sasl.oauthbearer.extensions", f"{name!r} is no name of letters with a value")
    return tuple(found.items())


def first_of(properties: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((properties[key] for key in keys if properties.get(key)), None)


def librdkafkas_claims(text: str) -> dict[str, str]:
    """`principal=admin scope=a,b`"""
    given = dict(part.partition("=")[::2] for part in text.split())
    claims = {given.get("principalClaimName", "sub"): given.get("principal", "")}
    if given.get("scope"):
        claims[given.get("scopeClaimName", "scope")] = given["scope"]
    return claims

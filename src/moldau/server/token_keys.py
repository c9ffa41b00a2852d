"""The public keys that bearer tokens are checked with: a JWKS from a file or a web server, fetched again now and then.

A token that names a key which is not known may be signed with a new one: the keys are fetched at once, though not more
often than the back-off allows, and the client's next attempt finds them. What cannot be fetched leaves what is known.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from moldau.config.oauth import OauthSettings
from moldau.security.authentication.tokens import VerificationKey
from moldau.tls.fetching import opener
from moldau.tls.stores import StoreError, read_trusted

log = logging.getLogger("moldau.server.token_keys")

FETCH_SECONDS: Final = 10.0
LARGEST_BYTES: Final = 1 << 20
PUBLIC_KINDS: Final = ("RSA", "EC", "OKP")

RunBlocking = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]


class KeysUnreadable(Exception):
    """Why there are no keys."""


class TokenKeys:
    """Of one listener. Looks when it is told to, since a broker's duties are its own."""

    def __init__(self, listener: str, settings: OauthSettings, run_blocking: RunBlocking) -> None:
        self._listener = listener
        self.settings = settings
        self._run_blocking = run_blocking
        self._keys: tuple[VerificationKey, ...] = ()
        self._loop = asyncio.get_running_loop()
        self._fetching: asyncio.Task[None] | None = None
        self._failures = 0
        self._due = 0.0
        self._earliest = 0.0
        if (settings.jwks_url or "").startswith("http:"):
            log.warning(
                "listener %s: keys for tokens come from %s, without TLS: who changes them on their way lets in anybody",
                listener, settings.jwks_url,
            )  # fmt: skip

    def keys_of(self, key_id: str | None) -> Sequence[VerificationKey]:
        found = self._keys if key_id is None else tuple(key for key in self._keys if key.key_id in (None, key_id))
        if not found:
            self._due = 0.0
            self.look()
        return found

    def look(self) -> None:
        """Fetches the keys if it is time."""
        now = self._loop.time()
        if self._fetching is None and now >= self._due and now >= self._earliest:
            self._fetching = self._loop.create_task(self._fetch())

    async def first(self) -> None:
        """Returns after the first attempt."""
        self.look()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)

    async def _fetch(self) -> None:
        url = self.settings.jwks_url or ""
        try:
            keys = await self._run_blocking(lambda: read_keys(url, self.settings.trusted_file))
        except KeysUnreadable as error:
            self._failures += 1
            log.error("listener %s: the keys for tokens cannot be read from %s: %s", self._listener, url, error)
            self._due = 0.0
        else:
            if [key.key_id for key in keys] != [key.key_id for key in self._keys]:
                log.info("listener %s: %d keys for tokens from %s", self._listener, len(keys), url)
            self._keys, self._failures = keys, 0
            self._due = self._loop.time() + self.settings.refresh_ms / 1000
        finally:
            self._fetching = None
            self._earliest = self._loop.time() + self._pause_seconds()

    def _pause_seconds(self) -> float:
        """Strangers can name keys that do not exist as often as they like."""
        pause_ms = self.settings.retry_backoff_ms * 2 ** min(self._failures, 20)
        seconds: float = min(pause_ms, self.settings.retry_backoff_max_ms) / 1000
        return max(1.0, seconds)


def read_keys(url: str, trusted_file: str | None) -> tuple[VerificationKey, ...]:
    """Blocks. Raises KeysUnreadable."""
    try:
        return parse_keys(contents(url, trusted_file))
    except (OSError, ValueError, HTTPException) as error:  # an HTTPError is an OSError
        raise KeysUnreadable(str(error) or type(error).__name__) from None


def contents(url: str, trusted_file: str | None) -> bytes:
    if url.startswith("file:"):
        path = unquote(urlsplit(url).path)
        with open(path, "rb") as file:
            return file.read(LARGEST_BYTES)
    context = trusting(trusted_file) if url.startswith("https:") else None
    with opener(context).open(url, timeout=FETCH_SECONDS) as answer:
        found: bytes = answer.read(LARGEST_BYTES)
    return found


def trusting(trusted_file: str | None) -> ssl.SSLContext:
    if trusted_file is None:
        return ssl.create_default_context()
    with open(os.fspath(trusted_file), "rb") as file:
        data = file.read()
    try:
        return ssl.create_default_context(cadata=read_trusted(data, None))
    except StoreError as error:
        raise ValueError(f"ssl.truststore.location {trusted_file}: {error}") from None


def parse_keys(data: bytes) -> tuple[VerificationKey, ...]:
    """Those that are there to check signatures, of kinds that are known. Raises ValueError."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        found = json.loads(data)["keys"]
        wanted = [each for each in found if each.get("kty") in PUBLIC_KINDS and each.get("use", "sig") == "sig"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("this is no JSON Web Key Set") from None
    keys = []
    for each in wanted:
        try:
            keys.append(VerificationKey(each.get("kid"), each.get("alg"), PyJWK(each).key))
        except (PyJWTError, ValueError, TypeError) as error:
            log.warning("a key for tokens is left out: %s", error)
    if not keys:
        raise ValueError("there is no public key in it")
    return tuple(keys)

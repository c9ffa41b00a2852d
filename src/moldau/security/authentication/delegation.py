"""The secrets of delegation tokens, and the SCRAM credentials that they make: all computed from a token's id and the
key that the brokers share.
"""

from __future__ import annotations

import base64
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from moldau.security.authentication.exchange import NotYet
from moldau.security.authentication.scram import ALGORITHMS, MINIMUM_ITERATIONS, credential_of, salted
from moldau.types.credentials import ScramCredential

SALT_BYTES: Final = 24
KEPT: Final = 10_000
SPARE: Final = 1_000


def secret_of(key: str, token_id: str) -> bytes:
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


def password_of(secret: bytes) -> str:
    """What its owner logs in with."""
    return base64.b64encode(secret).decode()


class TokenSecrets:
    """Which token a secret belongs to: whoever renews or ends one names nothing else. The secrets of all tokens are
    computed once each, not once for each question; some that are no more may be kept."""

    def __init__(self) -> None:
        self._key = ""
        self._tokens: dict[bytes, str] = {}
        self._known: set[str] = set()

    def token_with(self, tokens: Collection[str], key: str, secret: bytes) -> str | None:
        if key != self._key or len(self._known) > 2 * len(tokens) + SPARE:
            self._key, self._tokens, self._known = key, {}, set()
        for token_id in tokens:
            if token_id not in self._known:
                self._known.add(token_id)
                self._tokens[secret_of(key, token_id)] = token_id
        found = self._tokens.get(secret)
        return found if found in tokens else None


class TokenCredentials:
    """Those of a token are computed elsewhere at its first login, which takes some milliseconds, and kept: the salt
    has to stay the same within a login, not from one to the next."""

    def __init__(
        self,
        random_bytes: Callable[[int], bytes],
        elsewhere: Callable[[Callable[[], ScramCredential]], Awaitable[ScramCredential]],
        kept: int = KEPT,
    ) -> None:
        self._random_bytes = random_bytes
        self._elsewhere = elsewhere
        self._most = kept
        self._kept: OrderedDict[tuple[str, str, str], ScramCredential] = OrderedDict()

    def of(self, key: str, token_id: str, mechanism: str) -> ScramCredential:
        """Raises NotYet."""
        wanted = key, token_id, mechanism
        found = self._kept.get(wanted)
        if found is None:
            raise NotYet(lambda: self._computed(wanted))
        self._kept.move_to_end(wanted)
        return found

    async def _computed(self, wanted: tuple[str, str, str]) -> None:
        made = await self._elsewhere(lambda: self._compute(*wanted))
        self._kept.setdefault(wanted, made)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def _compute(self, key: str, token_id: str, mechanism: str) -> ScramCredential:
        salt = self._random_bytes(SALT_BYTES)
        password = password_of(secret_of(key, token_id))
        return credential_of(
            mechanism, salt, MINIMUM_ITERATIONS, salted(ALGORITHMS[mechanism], password, salt, MINIMUM_ITERATIONS)
        )

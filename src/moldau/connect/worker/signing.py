"""Requests between workers are signed as in Kafka Connect: with a key that the leader writes into the config topic.

So workers need no names and passwords of users; who may read that topic reads every configuration anyway.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.connect.worker.errors import bad_request
from moldau.web import ApiError

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
HASHES: Final = {
    "HmacSHA1": hashlib.sha1, "HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512,
}  # fmt: skip
"""Under Java's names."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    key: bytes
    algorithm: str
    created_ms: int

    @classmethod
    def made(cls, algorithm: str, size: int | None, now_ms: int) -> SessionKey:
        """`size` in bits, as at Java's key generators; by default that of the algorithm."""
        length = HASHES[algorithm]().digest_size if size is None else size // 8
        return cls(secrets.token_bytes(length), algorithm, now_ms)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> SessionKey:
        """Raises ValueError, KeyError."""
        key = base64.b64decode(str(value["key"]), validate=True)
        return cls(key, str(value["algorithm"]), int(value["creation-timestamp"]))

    def to_value(self) -> dict[str, Any]:
        encoded = base64.b64encode(self.key).decode()
        return {"key": encoded, "algorithm": self.algorithm, "creation-timestamp": self.created_ms}

    def signature(self, algorithm: str, body: bytes) -> bytes:
        return hmac.digest(self.key, body, HASHES[algorithm])


def signed(key: SessionKey | None, algorithm: str, body: bytes) -> dict[str, str]:
    """Headers; without a key none, which is refused."""
    if key is None:
        return {}
    return {SIGNATURE: base64.b64encode(key.signature(algorithm, body)).decode(), ALGORITHM: algorithm}


def check_signed(key: SessionKey | None, allowed: tuple[str, ...], headers: Mapping[str, str], body: bytes) -> None:
    """Raises ApiError, in Kafka Connect's words."""
    given, algorithm = headers.get(SIGNATURE), headers.get(ALGORITHM)
    if given is None or algorithm is None:
        raise bad_request("Internal request missing required signature")
    if algorithm not in allowed:
        raise bad_request(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. This worker "
            f"is currently configured to use: [{', '.join(allowed)}]. Check that all workers' configuration files "
            "permit the same set of signature algorithms, and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise ApiError(
            503,
            "This worker is still starting up and has not been able to read a session key from the config topic yet",
        )
    try:
        found = base64.b64decode(given, validate=True)
    except binascii.Error:
        found = b""
    if not hmac.compare_digest(found, key.signature(algorithm, body)):
        raise ApiError(403, "Internal request contained invalid signature.")

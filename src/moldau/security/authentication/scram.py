"""SASL SCRAM (RFC 5802, 7677): the user proves to know the password, the broker that it knows the user.

client-first   n,[a=<authorization>],n=<user>,r=<client nonce>[,tokenauth=true]
server-first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
client-final   c=<base64 of the header>,r=<both nonces>,p=<proof>
server-final   v=<signature>

The broker keeps what a proof is checked with, never the password: H(client key) and the server key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moldau.security.authentication.exchange import Identity, LoginRefused
from moldau.types.credentials import ScramCredential

ALGORITHMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MINIMUM_ITERATIONS: Final = 4096
MAXIMUM_ITERATIONS: Final = 16384
NONCE_BYTES: Final = 24
LONGEST_FIRST_BYTES: Final = 4096
"""It is kept until the client has proved who it is: strangers must not make it as large as a request may be."""

_VALUE = r"[\x21-\x2b\x2d-\x7e]"
_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(rf"(n,(?:a=({_NAME}))?,)(n=({_NAME}),r=({_VALUE}+)((?:,[A-Za-z]+=[^\x00,]+)*))")
_CLIENT_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]+),r=({_VALUE}+)(?:,[A-Za-z]=[^\x00,]+)*),p=([A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True)
class ScramUser:
    """Whom a user name stands for: with a delegation token that is the token's owner, while it is valid."""

    credential: ScramCredential
    name: str
    expires_at_ms: int | None = None


CredentialOf = Callable[[str, bool], ScramUser | None]
"""Who logs in under a name, or under a token's id where the flag says so."""


def digest(algorithm: str, key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, algorithm).digest()


def salted(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes milliseconds, as it is meant to; not for an event loop."""
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


def credential_of(mechanism: str, salt: bytes, iterations: int, salted_password: bytes) -> ScramCredential:
    algorithm = ALGORITHMS[mechanism]
    client_key = digest(algorithm, salted_password, b"Client Key")
    stored_key = hashlib.new(algorithm, client_key).digest()
    return ScramCredential(salt, iterations, stored_key, digest(algorithm, salted_password, b"Server Key"))


class ScramExchange:
    __slots__ = (
        "_algorithm", "_both", "_by_token", "_credential_of", "_first", "_header", "_nonce", "_user", "identity",
    )  # fmt: skip

    def __init__(self, mechanism: str, credential_of: CredentialOf, random_bytes: Callable[[int], bytes]) -> None:
        self._algorithm = ALGORITHMS[mechanism]
        self._credential_of = credential_of
        self._nonce = base64.b64encode(random_bytes(NONCE_BYTES)).decode()
        self._user: ScramUser | None = None
        self._by_token = False
        self._header = b""
        self._first = ""
        self._both = ""
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        if self.identity is not None:
            raise LoginRefused("a SCRAM message after the last one")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise LoginRefused("a SCRAM message that is no UTF-8") from None
        if self._user is not None:
            return self._finish(self._user, text)
        if len(token) > LONGEST_FIRST_BYTES:
            raise LoginRefused(f"a first SCRAM message of {len(token)} bytes")
        return self._begin(text)

    def _begin(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise LoginRefused("no first SCRAM message")
        header, authorization, bare, escaped, nonce, extensions = match.groups()
        name = unescaped(escaped)
        self._by_token = "tokenauth=true" in extensions.split(",")
        user = self._credential_of(name, self._by_token)
        if user is None:
            raise LoginRefused(f"{'token' if self._by_token else 'user'} {name!r} has no credentials of this mechanism")
        if authorization is not None and unescaped(authorization) != name:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise LoginRefused(f"user {name!r} asked to act as {unescaped(authorization)!r}", told)
        if user.credential.iterations < MINIMUM_ITERATIONS:
            raise LoginRefused(f"the credential of {name!r} has too few iterations")
        self._user = user
        self._header = base64.b64encode(header.encode())
        self._both = nonce + self._nonce
        salt = base64.b64encode(user.credential.salt).decode()
        answer = f"r={self._both},s={salt},i={user.credential.iterations}"
        self._first = f"{bare},{answer}"
        return answer.encode()

    def _finish(self, user: ScramUser, text: str) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise LoginRefused("no final SCRAM message")
        without_proof, header, nonce, proof = match.groups()
        if not hmac.compare_digest(nonce.encode(), self._both.encode()):
            raise LoginRefused(f"user {user.name!r} answered with another nonce")
        if header.encode() != self._header:
            raise LoginRefused(f"user {user.name!r} answered with another header")
        signed = f"{self._first},{without_proof}".encode()
        stored = user.credential.stored_key
        signature = digest(self._algorithm, stored, signed)
        given = decoded(proof)
        if len(given) != len(signature):
            raise LoginRefused(f"user {user.name!r} sent a proof of {len(given)} bytes")
        client_key = bytes(a ^ b for a, b in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._algorithm, client_key).digest(), stored):
            raise LoginRefused(f"wrong password for user {user.name!r}")
        self.identity = Identity(user.name, user.expires_at_ms, self._by_token)
        return b"v=" + base64.b64encode(digest(self._algorithm, user.credential.server_key, signed))


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginRefused("a SCRAM proof that is no base64") from None

"""What is said to a broker to prove who we are: SASL PLAIN (RFC 4616) and SCRAM (RFC 5802), without I/O.

An exchange is a generator: it yields what to send, is sent what the broker said, and ends when both are satisfied.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Generator
from typing import Final

from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import SaslSettings

Exchange = Generator[bytes, bytes, None]

GS2_HEADER: Final = "n,,"
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MINIMUM_ITERATIONS: Final = 4096


def exchange(settings: SaslSettings, random_bytes: Callable[[int], bytes]) -> Exchange:
    if settings.mechanism == "PLAIN":
        return plain(settings)
    if settings.mechanism in HASHES:
        return scram(settings, HASHES[settings.mechanism], base64.b64encode(random_bytes(24)).decode())
    raise AuthenticationFailed(f"SASL mechanism {settings.mechanism} needs librdkafka")


def plain(settings: SaslSettings) -> Exchange:
    yield b"\0" + settings.username.encode() + b"\0" + settings.password.encode()


def scram(settings: SaslSettings, algorithm: str, nonce: str) -> Exchange:
    first = f"n={escape(settings.username)},r={nonce}"
    server_first = (yield f"{GS2_HEADER}{first}".encode()).decode()
    attributes = read_attributes(server_first)
    if not attributes.get("r", "").startswith(nonce) or attributes["r"] == nonce:
        raise AuthenticationFailed("the broker answered SCRAM with another nonce")
    iterations = int(attributes.get("i", "0"))
    if iterations < MINIMUM_ITERATIONS:
        raise AuthenticationFailed(
            f"the broker asks for {iterations} SCRAM iterations, {MINIMUM_ITERATIONS} are the least"
        )
    salted = hashlib.pbkdf2_hmac(algorithm, settings.password.encode(), base64.b64decode(attributes["s"]), iterations)
    client_key = digest(salted, b"Client Key", algorithm)
    final = f"c={base64.b64encode(GS2_HEADER.encode()).decode()},r={attributes['r']}"
    signed = f"{first},{server_first},{final}".encode()
    signature = digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = read_attributes((yield f"{final},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = digest(digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(base64.b64decode(server_final.get("v", "")), expected):
        raise AuthenticationFailed(f"the broker did not prove that it knows the password: {server_final.get('e', '?')}")


def digest(key: bytes, message: bytes, algorithm: str) -> bytes:
    return hmac.new(key, message, algorithm).digest()


def escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def read_attributes(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}

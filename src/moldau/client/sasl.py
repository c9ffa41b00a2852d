"""What is said to a broker to prove who we are: SASL PLAIN (RFC 4616), SCRAM (RFC 5802), OAUTHBEARER (RFC 7628) and
GSSAPI (RFC 4752), without I/O of its own: tokens and tickets come from whoever is given for that, which may block.

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
from moldau.client.ticket_source import Initiator, TicketSource
from moldau.client.token_source import TokenSource

Exchange = Generator[bytes, bytes, None]

GS2_HEADER: Final = "n,,"
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MINIMUM_ITERATIONS: Final = 4096
NO_LAYER: Final = 1
"""Of the security layers that GSSAPI may put around what follows; TLS does that."""


def no_token(source: TokenSource) -> str:
    raise AuthenticationFailed(f"nobody gets a token from {source}")


def no_tickets(source: TicketSource) -> Initiator:
    raise AuthenticationFailed(f"nobody gets tickets for {source}")


def exchange(
    settings: SaslSettings,
    random_bytes: Callable[[int], bytes],
    token_of: Callable[[TokenSource], str] = no_token,
    tickets_of: Callable[[TicketSource], Initiator] = no_tickets,
) -> Exchange:
    if settings.mechanism == "PLAIN":
        return plain(settings)
    if settings.mechanism in HASHES:
        return scram(settings, HASHES[settings.mechanism], base64.b64encode(random_bytes(24)).decode())
    if settings.mechanism == "OAUTHBEARER" and settings.token is not None:
        return bearer(settings.token, token_of(settings.token))
    if settings.mechanism == "GSSAPI" and settings.tickets is not None:
        return kerberos(tickets_of(settings.tickets))
    raise AuthenticationFailed(f"SASL mechanism {settings.mechanism} needs librdkafka")


def plain(settings: SaslSettings) -> Exchange:
    yield b"\0" + settings.username.encode() + b"\0" + settings.password.encode()


def bearer(source: TokenSource, token: str) -> Exchange:
    extensions = "".join(f"{name}={text}\x01" for name, text in source.extensions)
    answer = yield f"n,,\x01auth=Bearer {token}\x01{extensions}\x01".encode()
    if answer:  # why the token is refused; the broker says so once more, with an error, when it is told that we know
        yield b"\x01"


def kerberos(initiator: Initiator) -> Exchange:
    """As whom we act is left out: as whom the ticket names."""
    token = initiator.step(b"")
    while not initiator.complete:
        token = initiator.step((yield token))
    offer = initiator.unwrap((yield token))
    if len(offer) != 4 or not offer[0] & NO_LAYER:
        raise AuthenticationFailed("the broker insists on a security layer of GSSAPI; use SASL_SSL instead of it")
    yield initiator.wrap(bytes((NO_LAYER, 0, 0, 0)))


def scram(settings: SaslSettings, algorithm: str, nonce: str) -> Exchange:
    first = f"n={escape(settings.username)},r={nonce}{',tokenauth=true' if settings.by_token else ''}"
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

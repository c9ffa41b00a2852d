"""Clients that come in and go again, as a process of their own: `python -m bench.knocking MODE ADDRESS COUNT`.

    handshakes    TLS, then one ApiVersions exchange, so that the broker has finished as well; none resumes a session
    logins        SCRAM-SHA-256; the iterated hash, which is the client's own work, is computed once

Four at a time. COUNT 0: until the input ends. Prints one line of JSON: how many, in how many seconds.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from threading import Event, Thread
from typing import Final

from bench.locks import MECHANISM, PASSWORD, USER
from tests.support.raw import RawConnection, api_versions, request, string

AT_A_TIME: Final = 4
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


class Refused(RuntimeError):
    """The broker has let nobody in."""


def shake_hands(address: str, context: ssl.SSLContext) -> None:
    with RawConnection(address) as raw:
        raw.socket = context.wrap_socket(raw.socket)
        api_versions(raw)


def log_in(address: str) -> None:
    with RawConnection(address) as raw:
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answered(raw, request(SASL_HANDSHAKE, 1, string(MECHANISM)))
        nonce = base64.b64encode(os.urandom(18)).decode()
        first = f"n={USER},r={nonce}"
        said = authenticated(raw, f"n,,{first}".encode()).decode()
        parts = dict(part.split("=", 1) for part in said.split(","))
        bare = f"c=biws,r={parts['r']}"
        key = client_key(parts["s"], int(parts["i"]))
        signature = hmac.new(hashlib.sha256(key).digest(), f"{first},{said},{bare}".encode(), "sha256").digest()
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        authenticated(raw, f"{bare},p={base64.b64encode(proof).decode()}".encode())


@cache
def client_key(salt: str, iterations: int) -> bytes:
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(salt), iterations)
    return hmac.new(salted, b"Client Key", "sha256").digest()


def authenticated(raw: RawConnection, token: bytes) -> bytes:
    answer = answered(raw, request(SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token))
    (length,) = struct.unpack_from(">h", answer, 6)
    at = 8 + max(length, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def answered(raw: RawConnection, asked: bytes) -> bytes:
    raw.send(asked)
    answer = raw.receive()
    if answer is None or struct.unpack_from(">h", answer, 4)[0]:
        raise Refused(f"{answer!r}")
    return answer


def knock(once: Callable[[], None], wanted: int) -> dict[str, float]:
    numbers, ended = count(), Event()

    def knocker() -> int:
        done = 0
        while not ended.is_set() and (not wanted or next(numbers) < wanted):
            once()
            done += 1
        return done

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    once()
    if not wanted:
        Thread(target=wait_for_the_end, daemon=True).start()
    begun = time.monotonic()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        done = sum(future.result() for future in [pool.submit(knocker) for _ in range(AT_A_TIME)])
    return {"count": done, "seconds": time.monotonic() - begun}


def main(mode: str, address: str, wanted: int) -> None:
    if mode == "handshakes":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        once = lambda: shake_hands(address, context)  # noqa: E731
    else:
        once = lambda: log_in(address)  # noqa: E731
    print(json.dumps(knock(once, wanted)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

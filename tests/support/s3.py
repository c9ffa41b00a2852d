"""A server with the protocol of S3 in the test's process, on a port of its own: moto's."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


def send(method: str, url: str, body: bytes = b"") -> bytes:
    request = urllib.request.Request(url, body or None, {"Content-Type": "text/plain"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


@contextmanager
def s3_server() -> Iterator[str]:
    """Its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def signatures_checked(url: str) -> Iterator[None]:
    """From here on only those that it knows may ask."""
    send("POST", f"{url}/moto-api/reset-auth", b"0")
    try:
        yield
    finally:
        send("POST", f"{url}/moto-api/reset-auth", b"inf")

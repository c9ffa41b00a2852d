"""HTTP/1.1 as uvicorn reads it with httptools, also from clients that offer to speak something else.

Java's client offers HTTP/2 (`Upgrade: h2c`) with every request that opens a connection without TLS, as does
`curl --http2`. A server may ignore the offer (RFC 9110, 7.8) and answer. httptools takes it for accepted instead: it
stops at the end of the head, and the body is lost. So such a head is read once more, without the offer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

OFFER: Final = (b"upgrade", b"http2-settings")


class Http(HttpToolsProtocol):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.parser = Parser(self)

    def on_headers_complete(self) -> None:
        if not offers(self.parser):
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not offers(self.parser):
            super().on_message_complete()

    def head_without_offer(self) -> bytes:
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += (b"%b: %b" % header for header in without_offer(self.headers))
        return b"\r\n".join(lines) + b"\r\n\r\n"


class Parser(httptools.HttpRequestParser):
    def __init__(self, protocol: Http) -> None:
        super().__init__(protocol)
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        protocol = self._protocol
        while True:
            try:
                return httptools.HttpRequestParser.feed_data(protocol.parser, data)
            except httptools.HttpParserUpgrade as accepted:
                if not offers(protocol.parser):
                    raise
                data = protocol.head_without_offer() + data[accepted.args[0] :]
                # One that has seen `Connection: close` takes nothing more.
                protocol.parser = Parser(protocol)


def offers(parser: Any) -> bool:
    """CONNECT asks for another protocol too, and not by a header."""
    return bool(parser.should_upgrade()) and parser.get_method() != b"CONNECT"


def without_offer(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in headers:
        if name == b"connection":
            kept = [each for each in value.split(b",") if each.strip().lower() not in OFFER]
            if kept:
                yield name, b",".join(kept)
        elif name not in OFFER:
            yield name, value

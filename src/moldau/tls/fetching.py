"""What is fetched over HTTPS stays there: a server that sends us on to one without TLS is not followed."""

from __future__ import annotations

import ssl
from http.client import HTTPMessage
from typing import IO
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

ENCRYPTED = "https:"


class _StaysEncrypted(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if req.full_url.startswith(ENCRYPTED) and not newurl.startswith(ENCRYPTED):
            fp.close()
            raise URLError(f"it sends us on to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener(context: ssl.SSLContext | None) -> OpenerDirector:
    """`context` says whom to trust; None where the address is not encrypted."""
    return build_opener(_StaysEncrypted, *(() if context is None else (HTTPSHandler(context=context),)))

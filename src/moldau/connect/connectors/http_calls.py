"""Requests to an HTTP server that may be away, busy or slow: one kept connection, retries with growing pauses.

What is tried again: a connection that cannot be made or breaks, and the statuses that are told to be temporary. A
server that says `Retry-After` is believed, up to five minutes. With several addresses the next one is tried.
"""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import http.client
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from moldau.config.definition import ConfigType
from moldau.connect.definitions import ConfigDef, Key

log = logging.getLogger(__name__)

BUSY: Final = frozenset({429, 502, 503, 504})
LONGEST_WAIT_SECONDS: Final = 300.0
LONGEST_PAUSE_SECONDS: Final = 60.0
SHOWN_CHARACTERS: Final = 500
TLS: Final = ConfigDef(
    Key(
        "ssl.truststore.location",
        doc="For https: the certificates to trust, as PEM, PKCS12 or JKS; the system's by default.",
    ),
    Key("ssl.truststore.password", ConfigType.PASSWORD, doc="Of that file."),
    Key("ssl.keystore.location", doc="This side's key and certificate, where the server asks for them."),
    Key("ssl.keystore.password", ConfigType.PASSWORD, doc="Of that file."),
    Key("ssl.key.password", ConfigType.PASSWORD, doc="Of the key."),
)


class ServerAway(OSError):
    """The server did not take a request within all attempts."""


class CallRefused(Exception):
    """An answer that says no."""

    def __init__(self, what: str, answer: Answer) -> None:
        self.answer = answer
        super().__init__(f"{what}: {answer.status} {answer.told}{advice(answer.status)}")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def told(self) -> str:
        return self.body.decode(errors="replace")[:SHOWN_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Retries:
    most: int
    backoff_ms: int
    statuses: Callable[[int], bool] = BUSY.__contains__


@dataclass(slots=True)
class Caller:
    """Not for several threads."""

    urls: Sequence[str]
    retries: Retries
    headers: Mapping[str, str] = field(default_factory=dict)
    connect_seconds: float = 30.0
    read_seconds: float = 30.0
    context: ssl.SSLContext | None = None
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    chance: Callable[[], float] = random.random
    _connection: http.client.HTTPConnection | None = None
    _server: str = ""
    _turn: int = 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str] | None = None) -> Answer:
        """`url`: whole, or a path below the addresses. Raises ServerAway; any other status is an answer."""
        attempt = 0
        while True:
            problem: object
            wait: float | None = None
            try:
                answer = self._once(method, self._whole(url), body, {**self.headers, **(headers or {})})
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise
                self.close()
                self._turn += 1
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.ok or not self.retries.statuses(answer.status):
                    return answer
                problem, wait = f"{answer.status} {answer.told}", self._asked_wait(answer)
            if attempt >= self.retries.most:
                raise ServerAway(f"{method} {self._whole(url)}: {problem} (after {attempt + 1} attempts)")
            pause = self.pause(attempt) if wait is None else wait
            log.info("%s %s: %s; again in %.1f s", method, self._whole(url), problem, pause)
            self.sleep(pause)
            attempt += 1

    def pause(self, attempt: int) -> float:
        """Doubled each time, less up to a half at random, so that tasks do not come back together."""
        longest: float = min(self.retries.backoff_ms / 1000 * 2**attempt, LONGEST_PAUSE_SECONDS)
        return longest * (1 - self.chance() / 2)

    def _whole(self, url: str) -> str:
        return f"{self.urls[self._turn % len(self.urls)].rstrip('/')}{url}" if url.startswith("/") else url

    def _once(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        if self._connection is None or server != self._server:
            self.close()
            self._connection, self._server = self._connected(parts.scheme, parts.hostname, parts.port), server
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request(method, path, body, dict(headers))
        found = self._connection.getresponse()
        content = found.read()
        if found.will_close:
            self.close()
        return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, content)

    def _connected(self, scheme: str, host: str | None, port: int | None) -> http.client.HTTPConnection:
        if scheme not in ("http", "https") or not host:
            raise ValueError(f"{scheme}://{host}: an address begins with http:// or https:// and a host")
        made: http.client.HTTPConnection
        if scheme == "https":
            context = self.context or ssl.create_default_context()
            made = http.client.HTTPSConnection(host, port, timeout=self.connect_seconds, context=context)
        else:
            made = http.client.HTTPConnection(host, port, timeout=self.connect_seconds)
        made.connect()
        assert made.sock is not None
        made.sock.settimeout(self.read_seconds)
        return made

    def _asked_wait(self, answer: Answer) -> float | None:
        """What `Retry-After` says: seconds, or a time."""
        given = answer.headers.get("retry-after", "").strip()
        if given.isdigit():
            seconds = float(given)
        else:
            try:
                seconds = (email.utils.parsedate_to_datetime(given) - self.now()).total_seconds()
            except (TypeError, ValueError):
                return None
        return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)


def advice(status: int) -> str:
    match status:
        case 401 | 403:
            return " (check the name and the password, and what they may do)"
        case 404:
            return " (check the address)"
        case 407:
            return " (a proxy asks for a login)"
    return ""


def basic(user: str | None, password: str | None) -> dict[str, str]:
    if not user or password is None:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def tls_context(config: Mapping[str, Any], prefix: str) -> ssl.SSLContext | None:
    """None: the system's trust."""
    if not config[f"{prefix}ssl.truststore.location"] and not config[f"{prefix}ssl.keystore.location"]:
        return None
    from moldau.config.tls import TlsSettings
    from moldau.tls.contexts import client_context

    return client_context(
        TlsSettings(
            keystore_location=config[f"{prefix}ssl.keystore.location"],
            keystore_password=config[f"{prefix}ssl.keystore.password"],
            key_password=config[f"{prefix}ssl.key.password"],
            truststore_location=config[f"{prefix}ssl.truststore.location"],
            truststore_password=config[f"{prefix}ssl.truststore.password"],
        )
    )


def in_ranges(text: str) -> Callable[[int], bool]:
    """`429,500-` or `400-499`, as Confluent writes statuses."""
    ranges: list[tuple[int, int]] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = each.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise ValueError(f"{each} is no range of statuses: 429, 500- and 500-599 are")
        ranges.append((int(first), int(last or (599 if dash else first))))
    return lambda status: any(first <= status <= last for first, last in ranges)

"""Where a client's bearer token comes from: a token endpoint (OAuth 2, client credentials), a file, or, for
development, its own hands. Blocks while it asks; a token is used again until most of its time has passed.

Left out: the grant with a signed assertion (`sasl.oauthbearer.assertion.*`), which librdkafka has.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from moldau.client.errors import AuthenticationFailed, SettingError
from moldau.client.token_source import ENDPOINT_KEYS, TokenSource

ASK_SECONDS: Final = 10.0
LARGEST_BYTES: Final = 1 << 20
USED_FRACTION: Final = 0.8
UNKNOWN_LIFETIME_SECONDS: Final = 60.0

_kept: dict[TokenSource, tuple[str, float]] = {}
_one_at_a_time = threading.Lock()


def token_of(source: TokenSource, wall_seconds: Callable[[], float] = time.time) -> str:
    """Raises AuthenticationFailed or SettingError."""
    with _one_at_a_time:
        text, good_until = _kept.get(source, ("", 0.0))
        now = wall_seconds()
        if not text or now >= good_until:
            text = fetched(source, now)
            _kept[source] = text, now + USED_FRACTION * (lifetime(text, now))
        return text


def fetched(source: TokenSource, now: float) -> str:
    if source.endpoint is None:
        return unsigned(dict(source.unsigned_claims), now, source.unsigned_seconds)
    if source.endpoint.startswith("file:"):
        path = unquote(urlsplit(source.endpoint).path)
        try:
            with open(path, encoding="ascii") as file:
                return file.read(LARGEST_BYTES).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(ENDPOINT_KEYS[0], f"the token cannot be read: {error}") from error
    return asked_for(source)


def asked_for(source: TokenSource) -> str:
    import urllib.error  # not for everybody who imports a client
    import urllib.request

    from moldau.tls.fetching import opener

    form = {"grant_type": "client_credentials"} | ({"scope": source.scope} if source.scope else {})
    credentials = base64.b64encode(f"{source.client_id}:{source.client_secret}".encode()).decode()
    assert source.endpoint is not None
    request = urllib.request.Request(
        source.endpoint,
        urlencode(form).encode(),
        {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )
    context = ssl.create_default_context(cafile=source.ca_file) if source.endpoint.startswith("https:") else None
    try:
        with opener(context).open(request, timeout=ASK_SECONDS) as answer:
            text = json.loads(answer.read(LARGEST_BYTES))["access_token"]
    except urllib.error.HTTPError as error:
        error.close()
        raise AuthenticationFailed(f"{source.endpoint} gives client {source.client_id!r} no token: {error}") from None
    except OSError as error:
        raise AuthenticationFailed(f"{source.endpoint} cannot be asked for a token: {error}") from error
    except (ValueError, KeyError, TypeError):
        raise AuthenticationFailed(f"{source.endpoint} answered with something that holds no access_token") from None
    return str(text)


def unsigned(claims: Mapping[str, str], now: float, seconds: int) -> str:
    """With the algorithm `none`: only brokers for development take it."""
    body: dict[str, Any] = {"iat": now, "exp": now + seconds, **claims}
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(body)}."


def part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def lifetime(text: str, now: float) -> float:
    """What the token says of its end; it is not ours to check."""
    try:
        body = text.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"]) - now
    except (IndexError, ValueError, KeyError, TypeError):
        return UNKNOWN_LIFETIME_SECONDS

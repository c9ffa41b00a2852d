"""Who gives out bearer tokens: a web server with an OAuth 2 token endpoint (client credentials) and its public keys."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

ISSUER = "https://tokens.example"
AUDIENCE = "moldau"


@dataclass(slots=True)
class TokenMaker:
    """Signs with the newest of its keys; `keys` by their ids."""

    keys: dict[str, RSAPrivateKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.renew("first")

    def renew(self, key_id: str) -> None:
        self.keys = {key_id: generate_private_key(65537, 2048)}

    def claims(self, principal: str, **more: Any) -> dict[str, Any]:
        now = time.time()
        made = {"iss": ISSUER, "aud": AUDIENCE, "sub": principal, "iat": now, "exp": now + 300, "scope": "kafka"} | more
        return {name: value for name, value in made.items() if value is not None}

    def token(self, principal: str, **more: Any) -> str:
        key_id, key = next(reversed(self.keys.items()))
        return jwt.encode(self.claims(principal, **more), key, "RS256", headers={"kid": key_id})

    def key_set(self) -> bytes:
        keys = [
            {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig", "alg": "RS256"}
            for key_id, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()


@dataclass(slots=True)
class TokenServer:
    url: str
    maker: TokenMaker
    secrets: Mapping[str, str]
    asked: list[str] = field(default_factory=list)
    """The clients that were given a token."""

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def keys_url(self) -> str:
        return f"{self.url}/keys"


@contextmanager
def token_server(secrets: Mapping[str, str], seconds: float = 300) -> Iterator[TokenServer]:
    """`secrets` of the clients that may have a token, which holds so long."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", running.keys_url)
                self.end_headers()
                return
            self._answer(200, running.maker.key_set())

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            kind, _, text = self.headers.get("Authorization", "").partition(" ")
            client, _, secret = base64.b64decode(text).decode().partition(":") if kind == "Basic" else ("", "", "")
            if form.get("grant_type") != ["client_credentials"] or not secret or secrets.get(client) != secret:
                self._answer(401, b'{"error":"invalid_client"}')
                return
            running.asked.append(client)
            token = running.maker.token(client, exp=time.time() + seconds, scope=" ".join(form.get("scope", ["kafka"])))
            answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(seconds)}
            self._answer(200, json.dumps(answer).encode())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = TokenServer(f"http://127.0.0.1:{server.server_port}", TokenMaker(), secrets)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""What a delegation token's login is checked with is computed away from the event loop, once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.security.authentication import delegation
from moldau.security.authentication.delegation import TokenCredentials, TokenSecrets, secret_of
from moldau.security.authentication.exchange import NotYet
from moldau.security.authentication.scram import ScramExchange, ScramUser
from moldau.types.credentials import ScramCredential

ASKED = ("key", "token", "SCRAM-SHA-256")


class Elsewhere:
    """Random bytes are drawn where the work is done."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self._executor = ThreadPoolExecutor(1)

    def random_bytes(self, size: int) -> bytes:
        self.threads.append(threading.get_ident())
        return bytes([len(self.threads)]) * size

    def run(self, work: Callable[[], ScramCredential]) -> asyncio.Future[ScramCredential]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work)


async def begun(credentials: TokenCredentials, *asked: str) -> NotYet:
    with pytest.raises(NotYet) as wait:
        credentials.of(*asked)
    return wait.value


def test_the_hashes_run_elsewhere_and_once() -> None:
    asyncio.run(_test_the_hashes_run_elsewhere_and_once())


async def _test_the_hashes_run_elsewhere_and_once() -> None:
    elsewhere = Elsewhere()
    credentials = TokenCredentials(elsewhere.random_bytes, elsewhere.run)
    first, second = await begun(credentials, *ASKED), await begun(credentials, *ASKED)
    await asyncio.gather(first.begin(), second.begin())
    assert threading.get_ident() not in elsewhere.threads
    found = credentials.of(*ASKED)
    assert found is credentials.of(*ASKED) and found.iterations == 4096


def test_those_that_were_not_asked_for_longest_make_room() -> None:
    asyncio.run(_test_those_that_were_not_asked_for_longest_make_room())


async def _test_those_that_were_not_asked_for_longest_make_room() -> None:
    elsewhere = Elsewhere()
    credentials = TokenCredentials(elsewhere.random_bytes, elsewhere.run, kept=2)
    for token in ("a", "b"):
        await (await begun(credentials, "key", token, "SCRAM-SHA-256")).begin()
    credentials.of("key", "a", "SCRAM-SHA-256")
    await (await begun(credentials, "key", "c", "SCRAM-SHA-256")).begin()
    credentials.of("key", "a", "SCRAM-SHA-256")
    await begun(credentials, "key", "b", "SCRAM-SHA-256")


def test_a_login_that_has_to_wait_goes_on_with_the_same_message() -> None:
    asyncio.run(_test_a_login_that_has_to_wait_goes_on_with_the_same_message())


async def _test_a_login_that_has_to_wait_goes_on_with_the_same_message() -> None:
    elsewhere = Elsewhere()
    credentials = TokenCredentials(elsewhere.random_bytes, elsewhere.run)
    exchange = ScramExchange(
        "SCRAM-SHA-256", lambda name, by_token: ScramUser(credentials.of("key", name, "SCRAM-SHA-256"), "alice"), bytes
    )
    message = b"n,,n=token,r=nonce,tokenauth=true"
    with pytest.raises(NotYet) as wait:
        exchange.respond(message)
    await wait.value.begin()
    assert exchange.respond(message).startswith(b"r=nonce")


def test_a_token_is_found_by_its_secret_while_it_is_there() -> None:
    secrets = TokenSecrets()
    tokens = {f"token{number}" for number in range(50)}
    wanted = secret_of("key", "token7")
    assert secrets.token_with(tokens, "key", wanted) == "token7"
    assert secrets.token_with(tokens - {"token7"}, "key", wanted) is None
    assert secrets.token_with(tokens, "other", wanted) is None
    assert secrets.token_with(tokens, "key", b"guessed") is None
    assert secrets.token_with(tokens | {"new"}, "key", secret_of("key", "new")) == "new"


def test_each_secret_is_computed_once_and_those_of_old_tokens_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counting(key: str, token_id: str) -> bytes:
        computed.append(token_id)
        return secret_of(key, token_id)

    monkeypatch.setattr(delegation, "secret_of", counting)
    secrets = TokenSecrets()
    for _ in range(3):
        assert secrets.token_with(["a", "b"], "key", b"guessed") is None
    assert computed == ["a", "b"]
    for number in range(3 * delegation.SPARE):
        secrets.token_with([f"token{number}"], "key", b"guessed")
    assert len(secrets._known) <= delegation.SPARE + 3

"""Bearer tokens: what is right gets in, and every way in which a token can be wrong is refused for that reason."""

from __future__ import annotations

import base64
import json
import weakref
from functools import partial
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_curve_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.oauth import unsigned
from moldau.security.authentication.exchange import LoginRefused
from moldau.security.authentication.oauth import ACKNOWLEDGED, OauthExchange
from moldau.security.authentication.tokens import (
    Judge,
    TokenRefused,
    TokenRules,
    judge_signed,
    judge_unsigned,
)
from moldau.server.token_keys import parse_keys

NOW = 1_700_000_000.0
RSA, STRANGER, CURVE = generate_private_key(65537, 2048), generate_private_key(65537, 2048), new_curve_key(SECP256R1())
KEYS = parse_keys(
    json.dumps(
        {
            "keys": [
                {**jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rsa"},
                {**jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True), "kid": "curve"},
                {"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"},
                {"kty": "RSA", "kid": "broken", "n": "?", "e": "AQAB"},
            ]
        }
    ).encode()
)
RULES = TokenRules(issuer="us", audiences=("kafka", "moldau"), required_scopes=frozenset({"write"}))
CLAIMS: dict[str, Any] = {
    "iss": "us",
    "aud": "kafka",
    "sub": "alice",
    "iat": NOW,
    "exp": NOW + 60,
    "scope": "read write",
}


def keys_of(key_id: str | None) -> tuple[Any, ...]:
    return tuple(key for key in KEYS if key_id is None or key.key_id == key_id)


JUDGE: Judge = partial(judge_signed, RULES, keys_of)


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
    body = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(body, key, algorithm, headers={"kid": kid} if kid else None)


def test_secrets_and_what_cannot_be_read_are_no_keys() -> None:
    assert [key.key_id for key in KEYS] == ["rsa", "curve"]


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(algorithm="PS512"),
        signed(CURVE, "ES256", "curve"),
        signed(kid=None),
        signed(CURVE, "ES256", None),
        signed(aud=["others", "moldau"]),
        signed(scope=["write"]),
        signed(nbf=NOW - 1),
        signed(exp=NOW - 29, iat=None),
        signed(nbf=NOW + 29),
    ],
    ids=map(str, range(10)),  # tokens differ from process to process
)
def test_a_token_that_is_right_names_its_user(token: str) -> None:
    assert JUDGE(token, NOW).principal == "alice"


def test_the_claims_that_name_user_and_scope_can_be_chosen() -> None:
    rules = TokenRules(principal_claim="azp", scope_claim="scp", required_scopes=frozenset({"a"}))
    found = judge_signed(rules, keys_of, signed(sub=None, azp=" bob ", scp=["a"], exp=NOW + 7), NOW)
    assert (found.principal, found.expires_at_ms) == ("bob", (NOW + 7) * 1000)


PUBLIC_TEXT = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def forged(header: dict[str, Any], signature: str = "") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, CLAIMS))
    return f"{'.'.join(parts)}.{signature}"


def shared_secret_with_the_public_key() -> str:
    """Whoever takes the algorithm from the token takes the public key for the secret."""
    import hashlib
    import hmac

    text = forged({"alg": "HS256", "kid": "rsa"}).removesuffix(".")
    signature = hmac.new(PUBLIC_TEXT, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


WRONG = [
    (signed(STRANGER), "not what one of the known keys has signed"),
    (signed(STRANGER, kid=None), "not what one of the known keys has signed"),
    (signed(kid="unknown"), "no key 'unknown' is known"),
    (signed(kid="shared"), "no key 'shared' is known"),
    (signed(kid="curve"), "not what one of the known keys has signed"),
    (forged({"alg": "none"}), "algorithm 'none'"),
    (forged({"alg": "NONE"}), "algorithm 'NONE'"),
    (forged({"alg": "None", "kid": "rsa"}, "AAAA"), "algorithm 'None'"),
    (forged({"kid": "rsa"}), "algorithm 'None'"),
    (forged({"alg": ["RS256"]}), "algorithm"),
    (forged({"alg": "RS256", "kid": 5}, "AAAA"), "no key that can be read"),
    (forged({"alg": "RS256", "kid": "rsa"}), "not what one of the known keys has signed"),
    (shared_secret_with_the_public_key(), "algorithm 'HS256'"),
    (signed()[:-9], "not what one of the known keys has signed"),
    (signed(exp=NOW - 30), "has expired 30 s ago"),
    (signed(exp=None), "without an end"),
    (signed(exp="soon"), "no time"),
    (signed(exp=True), "no time"),
    (signed(exp=-5), "no time"),
    (signed(nbf=NOW + 31), "valid in 31 s only"),
    (signed(iat=NOW + 90), "ends before it begins"),
    (signed(iss="them"), "issued by 'them', expected is 'us'"),
    (signed(iss=None), "issued by 'None'"),
    (signed(aud="others"), "is for 'others'"),
    (signed(aud=None), "expected is kafka, moldau"),
    (signed(scope="read"), "lacks the scope write"),
    (signed(scope=None), "lacks the scope write"),
    (signed(sub=None), "names nobody"),
    (signed(sub="  "), "names nobody"),
    (signed(sub="al\ud800ice"), "is no text"),
    ("", "header of the token cannot be read"),
    ("a.b.c", "header of the token cannot be read"),
    ("W10.W10.", "header of the token cannot be read"),
    ("." * 50, "header of the token cannot be read"),
]


@pytest.mark.parametrize(("token", "reason"), WRONG, ids=map(str, range(len(WRONG))))
def test_a_token_that_is_wrong_is_refused_for_its_reason(token: str, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason):
        JUDGE(token, NOW)


def test_who_lacks_a_scope_is_told_which() -> None:
    with pytest.raises(TokenRefused) as refused:
        JUDGE(signed(scope="read"), NOW)
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "write")


def test_unsigned_tokens_are_taken_where_that_was_asked_for_and_signed_ones_are_not() -> None:
    assert judge_unsigned(TokenRules(), unsigned({"sub": "dev"}, NOW, 60), NOW).principal == "dev"
    for token in (signed(), unsigned({"sub": "dev"}, NOW, 60) + "AAAA", "a.b", forged({"alg": "none"}) + ".x"):
        with pytest.raises(TokenRefused):
            judge_unsigned(TokenRules(), token, NOW)


# --- the exchange ---


def message(token: str, authorization: str = "", more: str = "") -> bytes:
    who = f"a={authorization}" if authorization else ""
    return f"n,{who},\x01auth=Bearer {token}\x01{more}\x01".encode()


def test_a_token_lets_its_user_in_until_it_ends() -> None:
    for first in (message(signed()), message(signed(), "alice"), message(signed(), more="traceId=12\x01")):
        exchange = OauthExchange(JUDGE, lambda: NOW)
        assert exchange.respond(first) == b""
        assert exchange.identity is not None
        assert exchange.identity.principal == "User:alice"
        assert exchange.identity.expires_at_ms == (NOW + 60) * 1000


def test_a_refusal_is_told_first_and_sealed_when_the_client_has_heard_it() -> None:
    exchange = OauthExchange(JUDGE, lambda: NOW)
    told = exchange.respond(message(signed(scope="x")))
    assert json.loads(told) == {"status": "insufficient_scope", "scope": "write"}
    assert exchange.identity is None
    with pytest.raises(LoginRefused) as refused:
        exchange.respond(ACKNOWLEDGED)
    assert refused.value.told == told.decode()
    assert "lacks the scope" in refused.value.reason


def test_nobody_gets_in_with_another_message_after_a_refusal_or_acts_as_somebody_else() -> None:
    exchange = OauthExchange(JUDGE, lambda: NOW)
    exchange.respond(message(signed(STRANGER)))
    with pytest.raises(LoginRefused):
        exchange.respond(message(signed()))
    assert exchange.identity is None
    other = OauthExchange(JUDGE, lambda: NOW)
    with pytest.raises(LoginRefused, match="asked to act as 'bob'"):
        other.respond(message(signed(), "bob"))
    assert other.identity is None


def test_a_token_that_is_refused_is_not_held_until_the_client_has_heard_it() -> None:
    held: list[weakref.ref[object]] = []

    class Large:
        pass

    def judge(text: str, now: float) -> Any:
        large = Large()
        held.append(weakref.ref(large))
        raise TokenRefused("not today")

    exchange = OauthExchange(judge, lambda: NOW)
    assert exchange.respond(message(signed()))
    assert held[0]() is None
    with pytest.raises(LoginRefused, match="not today"):
        exchange.respond(ACKNOWLEDGED)


def test_no_part_of_a_token_is_in_a_reason() -> None:
    token = signed(STRANGER)
    exchange = OauthExchange(JUDGE, lambda: NOW)
    exchange.respond(message(token))
    with pytest.raises(LoginRefused) as refused:
        exchange.respond(ACKNOWLEDGED)
    assert not any(part in str(refused.value) + str(refused.value.told) for part in token.split("."))


PIECES = st.sampled_from(
    ["n,", "a=alice", ",", "\x01", "auth=Bearer ", "auth=basic ", signed(STRANGER), "x=y", "=", ""]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=80) | st.lists(PIECES, max_size=8).map(lambda parts: "".join(parts).encode())))
def test_whatever_comes_nobody_gets_in_and_nothing_but_a_refusal_comes_out(messages: list[bytes]) -> None:
    exchange = OauthExchange(JUDGE, lambda: NOW)
    for each in messages:
        try:
            exchange.respond(each)
        except LoginRefused:
            break
    assert exchange.identity is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_token_with_any_byte_changed_is_refused(data: st.DataObject) -> None:
    token = signed()
    position = data.draw(st.integers(0, len(token) - 3))  # the last characters hold bits that mean nothing
    other = data.draw(st.sampled_from("abcXYZ019-_."))
    if other != token[position]:
        with pytest.raises(TokenRefused):
            JUDGE(token[:position] + other + token[position + 1 :], NOW)

"""Signatures of requests between workers: what is taken, what is refused with which answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from moldau.config.definition import ConfigError
from moldau.connect.worker.records import SESSION_KEY, Record, decoded, session_key_record
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.signing import ALGORITHM, SIGNATURE, SessionKey, check_signed, signed
from moldau.connect.worker.state import Configs
from moldau.web import ApiError

KEY = SessionKey(b"secret", "HmacSHA256", 7)
BODY = b'[{"task.class": "x"}]'
OF_BODY = "h4XaWoKbDx6hxSLqMI7s5J0OBXI8n38CJp1M6pZ1YVw="
"""By `openssl dgst -sha256 -hmac secret -binary | base64`."""


def refused(key: SessionKey | None, headers: Mapping[str, str], body: bytes = BODY) -> int:
    with pytest.raises(ApiError) as error:
        check_signed(key, ("HmacSHA256", "HmacSHA512"), headers, body)
    return error.value.status


def test_a_request_with_a_signature_is_taken() -> None:
    headers = signed(KEY, "HmacSHA256", BODY)
    assert headers == {SIGNATURE: OF_BODY, ALGORITHM: "HmacSHA256"}
    for algorithm in ("HmacSHA256", "HmacSHA512"):
        check_signed(KEY, ("HmacSHA256", "HmacSHA512"), signed(KEY, algorithm, BODY), BODY)


def test_others_are_refused() -> None:
    good = signed(KEY, "HmacSHA256", BODY)
    assert refused(KEY, {}) == refused(KEY, signed(None, "HmacSHA256", BODY)) == 400
    assert refused(KEY, {SIGNATURE: OF_BODY}) == 400
    assert refused(KEY, signed(KEY, "HmacSHA1", BODY)) == 400, "an algorithm that is not configured"
    assert refused(KEY, good, b"[]") == 403
    assert refused(replace(KEY, key=b"other"), good) == 403
    assert refused(KEY, {**good, SIGNATURE: "no base 64"}) == 403
    assert refused(None, good) == 503


def test_the_key_is_kept_in_the_config_topic() -> None:
    state = Configs()
    state.apply(decoded(*session_key_record(KEY).encoded()))
    assert state.session_key == KEY
    with pytest.raises((ValueError, KeyError)):
        state.apply(Record(SESSION_KEY, {"key": "c2VjcmV0"}))
    assert state.session_key == KEY
    assert [len(SessionKey.made("HmacSHA256", size, 0).key) for size in (None, 512)] == [32, 64]


@pytest.mark.parametrize(
    "wrong",
    [
        {"inter.worker.signature.algorithm": "HmacSHA512"},
        {"inter.worker.verification.algorithms": "HmacSHA256,HmacMD4"},
        {"inter.worker.key.generation.algorithm": "AES"},
    ],
)
def test_algorithms_that_do_not_go_together_are_refused(wrong: dict[str, str]) -> None:
    topics = {f"{each}.storage.topic": each for each in ("config", "offset", "status")}
    given = {"group.id": "g", "key.converter": "x", "value.converter": "x", **topics}
    assert WorkerSettings.of(given, distributed=True).group == "g"
    with pytest.raises(ConfigError, match=r"inter\.worker"):
        WorkerSettings.of({**given, **wrong}, distributed=True)

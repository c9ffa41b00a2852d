"""What becomes of requests to change SCRAM credentials; the answers are those that Apache Kafka 4.3 gave."""

from __future__ import annotations

import pytest

from moldau.metadata import paths
from moldau.metadata.codec import BadEntryError
from moldau.metadata.controller.scram_users import ScramChange, alter_scram_users
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import apply
from moldau.metadata.scram_users import decode_scram_user, encode_scram_user
from moldau.metadata.store import Change, Changes, Put, Versioned
from moldau.types.credentials import ScramCredential
from moldau.types.errors import ErrorCode

SHA_256, SHA_512 = 1, 2
CREDENTIAL = ScramCredential(b"salt", 4096, b"stored", b"server")


def decided(
    image: ClusterImage, *changes: ScramChange
) -> tuple[ClusterImage, dict[str, tuple[str, str | None] | None]]:
    decision = alter_scram_users(image, changes)
    for operation in decision.operations:
        value = Versioned(operation.value, 0, 1, 1) if isinstance(operation, Put) else None
        image, _ = apply(image, Changes(1, (Change(operation.path, value),)))
    told = {
        user: None if error is None else (ErrorCode(error.code).name, error.message)
        for user, error in decision.answer.items()
    }
    return image, told


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramChange:
    return ScramChange(user, mechanism, ScramCredential(b"salt", iterations, b"stored", b"server"))


def delete(user: str, mechanism: int = SHA_256) -> ScramChange:
    return ScramChange(user, mechanism, None)


def test_credentials_come_and_go() -> None:
    image, told = decided(ClusterImage(), upsert("a,/%"), upsert("b"))
    assert told == {"a,/%": None, "b": None}
    assert image.scram_users["a,/%"].credentials == {"SCRAM-SHA-256": CREDENTIAL}
    image, _ = decided(image, upsert("b", SHA_512))
    assert sorted(image.scram_users["b"].credentials) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    image, told = decided(image, delete("b"))
    assert (told, sorted(image.scram_users["b"].credentials)) == ({"b": None}, ["SCRAM-SHA-512"])
    image, _ = decided(image, delete("b", SHA_512))
    assert sorted(image.scram_users) == ["a,/%"]


TWICE = ("DUPLICATE_RESOURCE", "A user credential cannot be altered twice in the same request")
MISSING = ("RESOURCE_NOT_FOUND", "Attempt to delete a user credential that does not exist")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([upsert("c", iterations=4095)], ("UNACCEPTABLE_CREDENTIAL", "Too few iterations")),
        ([upsert("c", iterations=16385)], ("UNACCEPTABLE_CREDENTIAL", "Too many iterations")),
        ([upsert("c", 0)], ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")),
        ([delete("c", 9)], ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")),
        ([upsert("")], ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")),
        ([delete("")], ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")),
        ([delete("c")], MISSING),
        ([delete("known", SHA_512)], MISSING),
        ([upsert("c"), upsert("c")], TWICE),
        ([upsert("c"), upsert("c", SHA_512, 1)], TWICE),
        ([delete("known"), upsert("known", SHA_512)], TWICE),
        ([delete("c"), upsert("c")], MISSING),
    ],
)
def test_changes_that_are_refused_change_nothing(changes: list[ScramChange], told: tuple[str, str]) -> None:
    before, _ = decided(ClusterImage(), upsert("known"))
    after, answers = decided(before, *changes)
    assert list(answers.values()) == [told]
    assert after.scram_users == before.scram_users


def test_an_entry_goes_there_and_back_and_a_broken_one_is_not_shown() -> None:
    credentials = {"SCRAM-SHA-512": ScramCredential(b"\0\xff", 8192, b"one", b"two")}
    path = paths.scram_user("x")
    assert decode_scram_user(path, encode_scram_user(credentials)) == credentials
    for broken in (b"secret", b'{"v":1}', b'{"v":1,"credentials":{"a":"secret"}}', b'{"v":2}', b"[]"):
        with pytest.raises(BadEntryError) as refused:
            decode_scram_user(path, broken)
        assert "secret" not in str(refused.value)


def test_a_credential_shows_no_secret() -> None:
    assert repr(CREDENTIAL) == "ScramCredential(iterations=4096)"

"""AlterUserScramCredentials: passwords are set and taken away, one change for each user, as Apache Kafka 4.3 does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moldau.metadata import paths
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.scram_users import encode_scram_user
from moldau.metadata.store import ABSENT, Delete, Operation, Put
from moldau.types.credentials import ScramCredential
from moldau.types.errors import ErrorCode, KafkaError

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""By their numbers in the protocol."""
MINIMUM_ITERATIONS: Final = 4096
MAXIMUM_ITERATIONS: Final = 16384


@dataclass(frozen=True, slots=True)
class ScramChange:
    """`credential` None takes the user's credential of this mechanism away."""

    user: str
    mechanism: int
    credential: ScramCredential | None


def alter_scram_users(image: ClusterImage, changes: Sequence[ScramChange]) -> Decision[dict[str, KafkaError | None]]:
    """What became of each user's changes, in the order of the request."""
    results: dict[str, KafkaError | None] = {}
    accepted: dict[str, ScramChange] = {}
    for change in changes:
        user = change.user
        if results.get(user) is None:
            results[user] = _refusal(image, change, user in results)
            accepted[user] = change
    operations = [_operation(image, accepted[user]) for user, refusal in results.items() if refusal is None]
    return Decision(operations, results)


def _refusal(image: ClusterImage, change: ScramChange, twice: bool) -> KafkaError | None:
    if not change.user:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISMS:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if twice:
        message = "A user credential cannot be altered twice in the same request"
        return KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
    if change.credential is None:
        user = image.scram_users.get(change.user)
        if user is None or MECHANISMS[change.mechanism] not in user.credentials:
            message = "Attempt to delete a user credential that does not exist"
            return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    elif change.credential.iterations < MINIMUM_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif change.credential.iterations > MAXIMUM_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None


def _operation(image: ClusterImage, change: ScramChange) -> Operation:
    present = image.scram_users.get(change.user)
    version = ABSENT if present is None else present.version
    after = {} if present is None else dict(present.credentials)
    mechanism = MECHANISMS[change.mechanism]
    if change.credential is None:
        del after[mechanism]
    else:
        after[mechanism] = change.credential
    path = paths.scram_user(change.user)
    return Put(path, encode_scram_user(after), version) if after else Delete(path, version)

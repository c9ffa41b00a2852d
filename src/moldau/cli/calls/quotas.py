"""Quotas of users, clients and addresses over our own client; SCRAM credentials of users through librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import SECONDS, demanded, outcome
from moldau.client.asking.answers import refuse
from moldau.types.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

EXACT, DEFAULT, ANY = 0, 1, 2
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
Entity = Mapping[str, str | None]
"""Names by type (user, client-id, ip); None is the default of its type."""


@dataclass(frozen=True, slots=True)
class Quotas:
    entity: Entity
    values: Mapping[str, float]


def describe(
    cluster: Connection, entity: Sequence[tuple[str, int, str | None]], *, strict: bool = True
) -> list[Quotas]:
    """The quotas of what matches: for each type EXACT with a name, DEFAULT, or ANY; not `strict`: and of more types."""
    from moldau.wire.messages.describe_client_quotas import (
        ComponentData,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
    )

    components = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in entity]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    answer = cluster.wire().any(request, DescribeClientQuotasResponse)
    refuse(answer.error_code, answer.error_message)
    return [
        Quotas(
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries or ()
    ]


def alter(
    cluster: Connection,
    entity: Entity,
    added: Mapping[str, float],
    removed: Sequence[str],
    *,
    validate_only: bool = False,
) -> None:
    from moldau.wire.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        EntityData,
        EntryData,
        OpData,
    )

    named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    changes = [OpData(key=key, value=value, remove=False) for key, value in added.items()]
    changes += [OpData(key=key, value=0.0, remove=True) for key in removed]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=named, ops=changes)], validate_only=validate_only)
    for entry in cluster.wire().any(request, AlterClientQuotasResponse).entries:
        refuse(entry.error_code, entry.error_message)


def alter_credentials(
    cluster: Connection, user: str, added: Mapping[str, tuple[int, bytes]], removed: Sequence[str]
) -> None:
    """Iterations and passwords by mechanism."""
    from confluent_kafka.admin import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    kinds = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
    changes: list[Any] = [UserScramCredentialDeletion(user, kinds[name]) for name in removed]
    changes += [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(kinds[name], iterations), password)
        for name, (iterations, password) in added.items()
    ]
    for future in cluster.admin().alter_user_scram_credentials(changes, request_timeout=SECONDS).values():
        demanded(outcome(future))


@dataclass(frozen=True, slots=True)
class Credentials:
    """Iterations by mechanism, or why they cannot be told."""

    iterations: Mapping[str, int]
    problem: KafkaError | None = None


def describe_credentials(cluster: Connection, users: Sequence[str]) -> dict[str, Credentials]:
    """Of these users, or of all; who has none is left out, as by Kafka. Not through librdkafka, which ends the process
    where the whole request is refused."""
    from moldau.wire.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        UserName,
    )

    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None)
    answer = cluster.wire().any(request, DescribeUserScramCredentialsResponse)
    refuse(answer.error_code, answer.error_message)
    found = {}
    for each in answer.results:
        if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        problem = KafkaError(ErrorCode(each.error_code), each.error_message) if each.error_code else None
        iterations = {mechanism_name(info.mechanism): info.iterations for info in each.credential_infos}
        found[each.user] = Credentials(iterations, problem)
    return found


def mechanism_name(number: int) -> str:
    return MECHANISMS[number - 1] if 1 <= number <= len(MECHANISMS) else "UNKNOWN"

"""Quotas of users, clients and addresses over our own client; SCRAM credentials of users through librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import SECONDS, demanded, outcome, refuse

if TYPE_CHECKING:
    from moldau.cli.connect import Connection

EXACT, DEFAULT, ANY = 0, 1, 2
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
Entity = Mapping[str, str | None]
"""Names by type (user, client-id, ip); None is the default of its type."""


@dataclass(frozen=True, slots=True)
class Quotas:
    entity: Entity
    values: Mapping[str, float]


def describe(cluster: Connection, entity: Sequence[tuple[str, int, str | None]]) -> list[Quotas]:
    """The quotas of what matches: for each type EXACT with a name, DEFAULT, or ANY."""
    from moldau.wire.messages.describe_client_quotas import (
        ComponentData,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
    )

    components = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in entity]
    request = DescribeClientQuotasRequest(components=components, strict=True)
    answer = cluster.wire().any(request, DescribeClientQuotasResponse)
    refuse(answer.error_code, answer.error_message)
    return [
        Quotas(
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries or ()
    ]


def alter(cluster: Connection, entity: Entity, added: Mapping[str, float], removed: Sequence[str]) -> None:
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
    request = AlterClientQuotasRequest(entries=[EntryData(entity=named, ops=changes)])
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


def describe_credentials(cluster: Connection, users: Sequence[str]) -> dict[str, Any]:
    """UserScramCredentialsDescription of these users, or of all."""
    asked = cluster.admin().describe_user_scram_credentials(list(users) or None, request_timeout=SECONDS)
    if hasattr(asked, "result"):
        return dict(asked.result())
    return {user: each.result() for user, each in asked.items()}

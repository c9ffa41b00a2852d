"""Quotas of users, clients and addresses, and SCRAM credentials of users, for kafka-configs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.kafka.config_calls import Refused
from moldau.cli.kafka.failures import java_text, message_of
from moldau.cli.kafka.formatters import java_double
from moldau.cli.kafka.options import ToolError
from moldau.client.errors import VersionUnsupported
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from moldau.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from moldau.wire.messages.describe_client_quotas import EntryData as DescribedEntry

if TYPE_CHECKING:
    from moldau.cli.connect import Connection
    from moldau.client.cluster import Cluster

ENTITIES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
EXACT, DEFAULT, ANY = 0, 1, 2
CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
LEAST_ITERATIONS: Final = 4096
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def describe_quotas(cluster: Cluster, types: Sequence[str], names: Sequence[str]) -> list[DescribedEntry]:
    if len(names) > len(types):
        raise ToolError("More entity names specified than entity types")
    components = []
    for position, kind in enumerate(types):
        name = names[position] if position < len(names) else None
        match_type = ANY if name is None else DEFAULT if name == "" else EXACT
        components.append(
            ComponentData(
                entity_type=ENTITIES[kind], match_type=match_type, match=name if match_type == EXACT else None
            )
        )
    request = DescribeClientQuotasRequest(components=components, strict=True)
    try:
        answer = cluster.any(request, DescribeClientQuotasResponse)
    except VersionUnsupported:
        raise ToolError("The node does not support DESCRIBE_CLIENT_QUOTAS") from None
    if answer.error_code:
        raise Refused(java_text(answer.error_code, answer.error_message))
    return list(answer.entries or ())


def print_quotas(cluster: Cluster, types: Sequence[str], names: Sequence[str]) -> None:
    for entry in describe_quotas(cluster, types, names):
        named = {each.entity_type: each.entity_name for each in entry.entity}
        texts = [
            f"{WORDS[kind]} '{named[kind]}'" if named[kind] is not None else f"the default {WORDS[kind]}"
            for kind in WORDS
            if kind in named
        ]
        values = ", ".join(f"{each.key}={java_double(each.value)}" for each in entry.values)
        print(f"Quota configs for {', '.join(texts)} are {values}")


def alter_quotas(
    cluster: Cluster, types: Sequence[str], names: Sequence[str], added: dict[str, str], deleted: Sequence[str]
) -> None:
    if len(types) != len(names):
        raise ToolError("Exactly one entity name must be specified for every entity type")
    current = {each.key for entry in describe_quotas(cluster, types, names)[:1] for each in entry.values}
    invalid = [key for key in deleted if key not in current]
    if invalid:
        raise ToolError(f"Invalid config(s): {','.join(invalid)}")
    entity = [
        EntityData(entity_type=ENTITIES[kind], entity_name=name or None)
        for kind, name in zip(types, names, strict=True)
    ]
    changes = [OpData(key=key, value=quota(key, text), remove=False) for key, text in added.items()]
    changes += [OpData(key=key, value=0.0, remove=True) for key in deleted]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=changes)])
    try:
        answer = cluster.any(request, AlterClientQuotasResponse)
    except VersionUnsupported:
        raise ToolError("The node does not support ALTER_CLIENT_QUOTAS") from None
    for entry in answer.entries:
        if entry.error_code:
            raise Refused(java_text(entry.error_code, entry.error_message))


def quota(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"Cannot parse quota configuration value for {key}: {text}") from None


# -- SCRAM ---------------------------------------------------------------------------------------------------------


def alter_credentials(connection: Connection, user: str, added: dict[str, str], deleted: Sequence[str]) -> None:
    from confluent_kafka.admin import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    kinds = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
    changes: list[Any] = [UserScramCredentialDeletion(user, kinds[name]) for name in deleted]
    for name, text in added.items():
        iterations, password = credential(name, text)
        changes.append(UserScramCredentialUpsertion(user, ScramCredentialInfo(kinds[name], iterations), password))
    for future in connection.admin().alter_user_scram_credentials(changes).values():
        future.result()


def credential(mechanism: str, text: str) -> tuple[int, bytes]:
    found = CREDENTIAL.fullmatch(text)
    if found is None:
        raise ToolError(f"Invalid credential property {mechanism}={text}")
    given = found[1]
    iterations = int(given) if given and given != "-1" else LEAST_ITERATIONS
    if iterations < LEAST_ITERATIONS:
        raise ToolError(f"Iterations {iterations} is less than the minimum {LEAST_ITERATIONS} required for {mechanism}")
    return iterations, found[2].encode()


def print_credentials(connection: Connection, users: Sequence[str]) -> None:
    admin = connection.admin()
    asked = admin.describe_user_scram_credentials(list(users) or None)
    answers = asked.result() if hasattr(asked, "result") else {user: each.result() for user, each in asked.items()}
    for user, description in answers.items():
        try:
            infos = description.scram_credential_infos
        except Exception as error:
            print(f"Error retrieving SCRAM credential configs for user-principal '{user}': {message_of(error)}")
            continue
        text = ", ".join(f"{info.mechanism.name.replace('_', '-')}=iterations={info.iterations}" for info in infos)
        print(f"SCRAM credential configs for user-principal '{user}' are {text}")

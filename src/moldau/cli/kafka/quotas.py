"""Quotas of users, clients and addresses, and SCRAM credentials of users, for kafka-configs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import quotas
from moldau.cli.calls.quotas import ANY, DEFAULT, EXACT, Quotas
from moldau.cli.kafka.failures import java_refusals, message_of
from moldau.cli.kafka.formatters import java_double
from moldau.cli.kafka.options import ToolError
from moldau.cli.passwords import shown
from moldau.client.errors import VersionUnsupported

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

ENTITIES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
LEAST_ITERATIONS: Final = 4096


def describe_quotas(cluster: Connection, types: Sequence[str], names: Sequence[str]) -> list[Quotas]:
    if len(names) > len(types):
        raise ToolError("More entity names specified than entity types")
    entity: list[tuple[str, int, str | None]] = []
    for position, kind in enumerate(types):
        name = names[position] if position < len(names) else None
        how = ANY if name is None else DEFAULT if name == "" else EXACT
        entity.append((ENTITIES[kind], how, name if how == EXACT else None))
    try:
        with java_refusals():
            return quotas.describe(cluster, entity)
    except VersionUnsupported:
        raise ToolError("The node does not support DESCRIBE_CLIENT_QUOTAS") from None


def print_quotas(cluster: Connection, types: Sequence[str], names: Sequence[str]) -> None:
    for entry in describe_quotas(cluster, types, names):
        named = entry.entity
        texts = [
            f"{WORDS[kind]} '{named[kind]}'" if named[kind] is not None else f"the default {WORDS[kind]}"
            for kind in WORDS
            if kind in named
        ]
        values = ", ".join(f"{key}={java_double(value)}" for key, value in entry.values.items())
        print(f"Quota configs for {', '.join(texts)} are {values}")


def alter_quotas(
    cluster: Connection, types: Sequence[str], names: Sequence[str], added: dict[str, str], deleted: Sequence[str]
) -> None:
    if len(types) != len(names):
        raise ToolError("Exactly one entity name must be specified for every entity type")
    current = {key for entry in describe_quotas(cluster, types, names)[:1] for key in entry.values}
    invalid = [key for key in deleted if key not in current]
    if invalid:
        raise ToolError(f"Invalid config(s): {','.join(invalid)}")
    entity = {ENTITIES[kind]: name or None for kind, name in zip(types, names, strict=True)}
    values = {key: quota(key, text) for key, text in added.items()}
    try:
        with java_refusals():
            quotas.alter(cluster, entity, values, deleted)
    except VersionUnsupported:
        raise ToolError("The node does not support ALTER_CLIENT_QUOTAS") from None


def quota(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"Cannot parse quota configuration value for {key}: {text}") from None


# -- SCRAM ---------------------------------------------------------------------------------------------------------


def alter_credentials(cluster: Connection, user: str, added: dict[str, str], deleted: Sequence[str]) -> None:
    """One request for each mechanism: brokers take one of a user at a time."""
    wanted = {name: credential(name, text) for name, text in added.items()}
    for name in deleted:
        quotas.alter_credentials(cluster, user, {}, [name])
    for name, given in wanted.items():
        quotas.alter_credentials(cluster, user, {name: given}, [])


def credential(mechanism: str, text: str) -> tuple[int, bytes]:
    found = CREDENTIAL.fullmatch(text)
    if found is None:
        raise ToolError(f"Invalid credential property {shown(mechanism, text)}")
    given = found[1]
    iterations = int(given) if given and given != "-1" else LEAST_ITERATIONS
    if iterations < LEAST_ITERATIONS:
        raise ToolError(f"Iterations {iterations} is less than the minimum {LEAST_ITERATIONS} required for {mechanism}")
    return iterations, found[2].encode()


def print_credentials(cluster: Connection, users: Sequence[str]) -> None:
    with java_refusals():
        found = quotas.describe_credentials(cluster, users)
    for user, known in found.items():
        if known.problem is not None:
            print(f"Error retrieving SCRAM credential configs for user-principal '{user}': {message_of(known.problem)}")
            continue
        text = ", ".join(f"{name}=iterations={iterations}" for name, iterations in known.iterations.items())
        print(f"SCRAM credential configs for user-principal '{user}' are {text}")

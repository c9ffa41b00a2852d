"""A user of SCRAM as `kafka-storage format --add-scram` takes it, with Kafka's words for what is wrong with it:

SCRAM-SHA-256=[name=alice,password=alice-secret]
SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moldau.cli.kafka.options import ToolError
from moldau.security.authentication.scram import (
    ALGORITHMS,
    MAXIMUM_ITERATIONS,
    MINIMUM_ITERATIONS,
    credential_of,
    salted,
)
from moldau.types.credentials import ScramCredential

SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class AddedUser:
    name: str
    mechanism: str
    credential: ScramCredential


def added_user(argument: str, random_bytes: Callable[[int], bytes]) -> AddedUser:
    """Raises ToolError; a password is never part of its message."""
    mechanism, equals, written = argument.strip().partition("=")
    if not equals:
        raise ToolError("Failed to find equals sign in SCRAM argument")
    if mechanism not in ALGORITHMS:
        raise ToolError(f"The add-scram mechanism {mechanism} is not supported.")
    if not written.startswith("["):
        raise ToolError("Expected configuration string to start with [")
    if not written.endswith("]"):
        raise ToolError("Expected configuration string to end with ]")
    parts = dict(map(_part, written[1:-1].split(",")))
    name = parts.pop("name", None)
    if name is None:
        raise ToolError("You must supply 'name' to add-scram")
    salt = _decoded("salt", parts.pop("salt", None))
    iterations = _iterations(mechanism, parts.pop("iterations", None))
    password, ready = parts.pop("password", None), _decoded("saltedPassword", parts.pop("saltedpassword", None))
    if password is None and ready is None:
        raise ToolError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise ToolError("You must supply 'salt' with 'saltedpassword' to add-scram")
    if parts:
        raise ToolError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    salt = salt or random_bytes(SALT_BYTES)
    if password is not None:
        ready = salted(ALGORITHMS[mechanism], password, salt, iterations)
    assert ready is not None
    return AddedUser(name, mechanism, credential_of(mechanism, salt, iterations, ready))


def _part(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError("No equals sign found in SCRAM component")
    quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
    return name, value[1:-1] if quoted else value


def _decoded(what: str, text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ToolError(f"Failed to decode given {what}") from None


def _iterations(mechanism: str, text: str | None) -> int:
    if text is None:
        return MINIMUM_ITERATIONS
    if not text.removeprefix("-").isdecimal():
        raise ToolError(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < MINIMUM_ITERATIONS:
        raise ToolError(f"The 'iterations' value must be >= {MINIMUM_ITERATIONS} for add-scram using {mechanism}")
    if iterations > MAXIMUM_ITERATIONS:
        raise ToolError(f"The 'iterations' value must be <= {MAXIMUM_ITERATIONS} for add-scram using {mechanism}")
    return iterations

"""Users that log in with SCRAM.

/scram-users/<user>    {"v":1,"credentials":{"SCRAM-SHA-256":{"salt":"<base64>","iterations":<n>,
                        "stored_key":"<base64>","server_key":"<base64>"},...}}
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from moldau.metadata.codec import VERSION, BadEntryError, unknown_form
from moldau.types.credentials import ScramCredential


@dataclass(frozen=True, slots=True)
class ScramUserImage:
    credentials: Mapping[str, ScramCredential]
    version: int


def encode_scram_user(credentials: Mapping[str, ScramCredential]) -> bytes:
    members = {
        mechanism: {
            "salt": as_text(credential.salt),
            "iterations": credential.iterations,
            "stored_key": as_text(credential.stored_key),
            "server_key": as_text(credential.server_key),
        }
        for mechanism, credential in sorted(credentials.items())
    }
    return json.dumps({"v": VERSION, "credentials": members}, separators=(",", ":")).encode()


def decode_scram_user(path: str, value: bytes) -> Mapping[str, ScramCredential]:
    try:
        found = json.loads(value)
        if found["v"] != VERSION:
            raise unknown_form(path, found["v"])
        return MappingProxyType(
            {
                mechanism: ScramCredential(
                    base64.b64decode(members["salt"]),
                    int(members["iterations"]),
                    base64.b64decode(members["stored_key"]),
                    base64.b64decode(members["server_key"]),
                )
                for mechanism, members in found["credentials"].items()
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BadEntryError):
            raise
        # What cannot be read is not shown: it is somebody's secret.
        raise BadEntryError(path, f"cannot be read ({type(error).__name__})") from None


def as_text(value: bytes) -> str:
    return base64.b64encode(value).decode()

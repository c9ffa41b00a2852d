"""Tokens that stand for a user for a while.

/delegation-tokens/<token id>    {"v":1,"owner":"User:..","requester":"User:..","renewers":["User:..",..],
                                  "issued_ms":<n>,"expires_ms":<n>,"ends_ms":<n>}

The secret of a token is nowhere: brokers compute it from the token's id and `delegation.token.secret.key`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.metadata.codec import NOTHING_ELSE, decode_members, encode_members, unknown_members

_MEMBERS: Final = frozenset({"v", "owner", "requester", "renewers", "issued_ms", "expires_ms", "ends_ms"})


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """It holds until `expires_ms`, which can be moved up to `ends_ms`."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int
    unknown: str = NOTHING_ELSE

    def has_expired(self, now_ms: int) -> bool:
        return min(self.expires_ms, self.ends_ms) < now_ms

    def may_be_changed_by(self, principal: str) -> bool:
        """Whether it is the principal's own, or may be renewed by it. Who has asked for it may not, as in Kafka."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        return principal == self.requester or self.may_be_changed_by(principal)


@dataclass(frozen=True, slots=True)
class TokenImage:
    entry: TokenEntry
    version: int


def encode_token(entry: TokenEntry) -> bytes:
    return encode_members(
        {
            "owner": entry.owner,
            "requester": entry.requester,
            "renewers": list(entry.renewers),
            "issued_ms": entry.issued_ms,
            "expires_ms": entry.expires_ms,
            "ends_ms": entry.ends_ms,
        },
        entry.unknown,
    )


def decode_token(path: str, value: bytes) -> TokenEntry:
    found = decode_members(path, value, *_MEMBERS)
    return TokenEntry(
        found["owner"],
        found["requester"],
        tuple(found["renewers"]),
        found["issued_ms"],
        found["expires_ms"],
        found["ends_ms"],
        unknown_members(found, _MEMBERS),
    )

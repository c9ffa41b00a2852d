"""UUIDs as Kafka prints them: 22 characters of base64 for addresses, without padding."""

from __future__ import annotations

import base64
import binascii
from uuid import UUID

_HALF = (1 << 64) - 1


def uuid_of_halves(most_significant: int, least_significant: int) -> UUID:
    """Of two signed numbers of 64 bits, as clients hand them out."""
    return UUID(int=(most_significant & _HALF) << 64 | least_significant & _HALF)


def encode_uuid(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def decode_uuid(text: str) -> UUID:
    """Raises ValueError."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"{text!r} is not a uuid in base64") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} holds {len(raw)} bytes, a uuid has 16")
    return UUID(bytes=raw)

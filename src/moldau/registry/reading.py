"""What a workshop says of schemas, remembered: also that one is refused, but not that it took too long.

So what a write needs to know can be found out before its turn, and holds nobody up in it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from moldau.registry.errors import Unread, invalid_schema, timed_out
from moldau.registry.remembered import Remembered
from moldau.schemas.model import SchemaError
from moldau.schemas.tags import Entity, Wishes
from moldau.schemas.workshop import Busy, Read, Text, Unfinished, Workshop

REMEMBERED_BYTES: Final = 64 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refusal:
    why: str


class Reader:
    """Raises SchemaError for what is refused, and Unread for what could not be found out."""

    def __init__(self, workshop: Workshop, most_bytes: int = REMEMBERED_BYTES) -> None:
        self._workshop = workshop
        self.remembered: Remembered[Any] = Remembered(most_bytes, size_of)

    def parse(self, schema: Text, *, check: bool) -> Read:
        return self._known(("parse", schema, check), lambda: self._workshop.parse(schema, check=check))

    def compare(self, level: str, new: Text, earlier: Sequence[tuple[int, Text]], *, lenient: bool) -> list[str]:
        question = ("compare", level, new, earlier, lenient)
        return self._known(question, lambda: self._workshop.compare(level, new, earlier, lenient=lenient))

    def retagged(self, schema: Text, more: Wishes, fewer: Wishes) -> str:
        question = ("retagged", schema, list(more.items()), list(fewer.items()))
        return self._known(question, lambda: self._workshop.retagged(schema, more, fewer))

    def top_fields(self, schema: Text) -> list[str]:
        return self._known(("fields", schema), lambda: self._workshop.top_fields(schema))

    def tagged(self, schema: Text) -> dict[Entity, list[str]]:
        return asked(lambda: self._workshop.tagged(schema))

    def format(self, schema: Text, form: str) -> str:
        return asked(lambda: self._workshop.format(schema, form))

    def _known(self, question: object, ask: Callable[[], T]) -> T:
        found: T | Refusal = self.remembered.get(digest(question), lambda: outcome(ask))
        if isinstance(found, Refusal):
            raise SchemaError(found.why)
        return found


def outcome(ask: Callable[[], T]) -> T | Refusal:
    try:
        return asked(ask)
    except SchemaError as error:
        return Refusal(str(error))


def asked(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Busy as error:
        raise Unread(timed_out(str(error))) from None
    except Unfinished as error:
        raise Unread(invalid_schema(f"Invalid schema: {error}")) from None


def digest(question: object) -> bytes:
    return hashlib.blake2b(json.dumps(question).encode(), digest_size=32).digest()


def size_of(found: object) -> int:
    parts = found if isinstance(found, tuple | list) else (found.why if isinstance(found, Refusal) else found,)
    return sum(map(sys.getsizeof, parts))

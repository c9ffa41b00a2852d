"""What a generated message class is made of: fields with the versions in which they exist, may be null, or are
tagged.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeAlias

from moldau.types.ids import ZERO_UUID as ZERO_UUID

Buffer: TypeAlias = bytes | bytearray | memoryview

NEVER = 32767


class Field(NamedTuple):
    name: str
    kind: str | type[Struct]
    first: int
    last: int
    array: bool = False
    nullable_from: int = NEVER
    nullable_to: int = -1
    tag: int = -1
    tagged_from: int = NEVER
    default: object = None

    def exists(self, version: int) -> bool:
        return self.first <= version <= self.last

    def nullable(self, version: int) -> bool:
        return self.nullable_from <= version <= self.nullable_to

    def tagged(self, version: int) -> bool:
        return version >= self.tagged_from


class Struct:
    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Message(Struct):
    __slots__ = ()
    API_KEY: ClassVar[int]
    FIRST_VERSION: ClassVar[int]
    LAST_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int]

"""Key and value, as options name them."""

from __future__ import annotations

from enum import StrEnum

KEY, VALUE = "key", "value"


class Sides(StrEnum):
    """What of a record has a schema."""

    value = "value"
    key = "key"
    both = "both"

    @property
    def names(self) -> tuple[str, ...]:
        return (KEY, VALUE) if self is Sides.both else (self.value,)

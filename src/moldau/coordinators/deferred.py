"""An answer that is not known yet: given once, to whoever waits for it. The pure counterpart of a future."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from moldau.types.errors import KafkaError

T = TypeVar("T")


class Deferred(Generic[T]):
    __slots__ = ("_listeners", "_outcome")

    def __init__(self) -> None:
        self._outcome: tuple[T | None, KafkaError | None] | None = None
        self._listeners: list[Callable[[T | None, KafkaError | None], None]] = []

    @property
    def is_done(self) -> bool:
        return self._outcome is not None

    @property
    def outcome(self) -> tuple[T | None, KafkaError | None]:
        """Value or error, once it is done."""
        assert self._outcome is not None
        return self._outcome

    def succeed(self, value: T) -> None:
        self._finish(value, None)

    def fail(self, error: KafkaError) -> None:
        self._finish(None, error)

    def when_done(self, listener: Callable[[T | None, KafkaError | None], None]) -> None:
        """Calls `listener(value, error)` with the outcome, at once if it is known."""
        if self._outcome is not None:
            listener(*self._outcome)
        else:
            self._listeners.append(listener)

    def _finish(self, value: T | None, error: KafkaError | None) -> None:
        """The first outcome counts: a member that timed out does not care for what comes later."""
        if self._outcome is not None:
            return
        self._outcome = (value, error)
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(value, error)

"""Waits that write down what they were told."""

from __future__ import annotations

from moldau.types.errors import ErrorCode


class OffsetProbe:
    """A produce, from its batch to its answer; a patient one goes on when too few replicas are in sync."""

    def __init__(self, is_patient: bool = False) -> None:
        self._is_patient = is_patient
        self.told: list[ErrorCode | str] = []

    def written(self) -> None:
        self.told.append("written")

    def failed(self, code: ErrorCode) -> None:
        self.told.append(code)

    def reached(self) -> None:
        self.told.append("reached")

    def ended(self, code: ErrorCode) -> None:
        self.told.append(code)

    def starved(self) -> bool:
        if not self._is_patient:
            self.told.append("starved")
        return not self._is_patient


class FetchProbe:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

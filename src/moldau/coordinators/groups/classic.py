"""Groups of the classic protocol."""

from __future__ import annotations

from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import RecordContext, StateRecord


class ClassicGroups:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        """A GroupMetadata record."""

    def loaded(self, now: float) -> None:
        """Arms the sessions of the members that were loaded."""

    def unloaded(self) -> None:
        """Fails who waits."""

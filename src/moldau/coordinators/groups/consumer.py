"""Groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import RecordContext, StateRecord


class ConsumerGroups:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    def replay(self, kind: int, record: StateRecord, context: RecordContext) -> None:
        """A record of one of the kinds of consumer groups."""

    def loaded(self, now: float) -> None:
        """Arms the sessions of the members that were loaded."""

    def unloaded(self) -> None:
        """Fails who waits."""

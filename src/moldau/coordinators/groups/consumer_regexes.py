"""Resolves the expressions that members of a group subscribe with, outside of any request.

An expression is resolved when it is new, and again when the cluster's topics have changed; for the latter, not more
often than once in a while. What is found is written; other topics than before make a new group epoch.

Only topics that the member whose heartbeat began it may see are found, as with Apache Kafka: members with one
expression share what it stands for. Where rights have changed it is resolved again with the next heartbeat; Apache
Kafka waits for `group.consumer.regex.refresh.interval.ms`.
"""

from __future__ import annotations

from moldau.coordinators.groups.consumer_draft import Draft
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_record_forms import ResolvedRegex
from moldau.coordinators.groups.subscriptions import Resolution, Sight
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import Write

SECONDS_BETWEEN_REFRESHES = 1.0


class Regexes:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables
        #: When a group will be looked at, or was last; monotonic seconds.
        self._due: dict[str, float] = {}
        self._last: dict[str, float] = {}
        #: Of the member that spoke last of what has to be resolved.
        self._sights: dict[str, Sight] = {}

    def refresh_if_needed(self, group: ConsumerGroup, regex: str | None, sight: Sight, now: float) -> None:
        """Called with each heartbeat, and the expression it brings; what the heartbeat changes is replayed by the time
        that the resolution begins."""
        if regex and regex not in group.regexes:
            self._sights[group.group_id] = sight
            self._arm(group.group_id, now)
        elif group.regex_users and is_outdated(group, self._tables, sight):
            self._sights[group.group_id] = sight
            self._arm(group.group_id, max(now, self._last.get(group.group_id, now) + SECONDS_BETWEEN_REFRESHES))

    def _arm(self, group_id: str, at: float) -> None:
        due = self._due.get(group_id)
        if due is None or at < due:
            self._due[group_id] = at
            self._tables.timers.set(("regexes", group_id), at, lambda now: self._begin(group_id, now))

    def _begin(self, group_id: str, now: float) -> Write[None]:
        group = self._tables.groups.get(group_id)
        sight = self._sights.get(group_id)
        if sight is None or not isinstance(group, ConsumerGroup) or not group.regex_users:
            self._forget(group_id)
            return Write(None)
        return self._go_on(group, Resolution(tuple(group.regex_users), self._tables.image(), sight), now)

    def _go_on(self, group: ConsumerGroup, resolution: Resolution, now: float) -> Write[None]:
        if self._tables.groups.get(group.group_id) is not group:
            self._forget(group.group_id)
            return Write(None)
        if resolution.advance():
            name = ("regexes", group.group_id)
            self._tables.timers.set(name, now, lambda later: self._go_on(group, resolution, later))
            return Write(None)
        self._due.pop(group.group_id, None)
        self._last[group.group_id] = now
        return self._finish(group, resolution, now)

    def _finish(self, group: ConsumerGroup, resolution: Resolution, now: float) -> Write[None]:
        draft = Draft(group, resolution.image)
        has_other_topics = False
        for regex, found in resolution.found.items():
            known = group.regexes.get(regex)
            if regex in group.regex_users and (known is None or known.topics != found):
                resolved = ResolvedRegex(frozenset(found), resolution.image.version, self._tables.wall_ms())
                draft.resolve(regex, resolved)
                has_other_topics |= bool(found) if known is None else True
        group.resolved_image, group.resolved_sight_version = resolution.image, resolution.sight_version
        if draft.records:
            draft.bump_if(has_other_topics)
        if any(regex not in resolution.found for regex in group.regex_users):
            self._arm(group.group_id, now)
        else:
            self._sights.pop(group.group_id, None)
        return Write(None, draft.records)

    def _forget(self, group_id: str) -> None:
        self._due.pop(group_id, None)
        self._last.pop(group_id, None)
        self._sights.pop(group_id, None)


def is_outdated(group: ConsumerGroup, tables: GroupTables, sight: Sight) -> bool:
    return (
        group.resolved_image is None
        or group.resolved_image.topics is not tables.image().topics
        or group.resolved_sight_version != sight.version
    )

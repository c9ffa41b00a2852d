"""How workers share connectors: what a worker tells of itself, and what the group's leader makes of it. Pure.

    who         {"v": 1, "url": "http://host:8083", "connectors": ["a", "b"], "asked": 3}     what it runs now
    assignment  {"v": 1, "leader": url, "workers": {"url": ["a"], …}}             the same for all

`asked` counts how often it asked for a new assignment: to a member that joins again and says the same as before the
broker gives the old one. The worker with the smallest url writes. A connector stays where it is as long as no worker
has two more than another.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

VERSION = 1


@dataclass(frozen=True, slots=True)
class Assignment:
    leader: str = ""
    workers: Mapping[str, Collection[str]] = field(default_factory=dict)

    def of(self, url: str) -> set[str]:
        return set(self.workers.get(url, ()))

    def owner(self, connector: str) -> str | None:
        return next((url for url, names in self.workers.items() if connector in names), None)

    def to_bytes(self) -> bytes:
        workers = {url: sorted(names) for url, names in self.workers.items()}
        return json.dumps({"v": VERSION, "leader": self.leader, "workers": workers}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Assignment:
        found = json.loads(content) if content else {}
        return cls(str(found.get("leader", "")), {url: set(names) for url, names in found.get("workers", {}).items()})


def described(url: str, connectors: Collection[str], asked: int) -> bytes:
    return json.dumps({"v": VERSION, "url": url, "connectors": sorted(connectors), "asked": asked}).encode()


def shared(members: Mapping[str, bytes], connectors: Collection[str]) -> Assignment:
    """Members by their id, as they described themselves."""
    told = [json.loads(content) for content in members.values()]
    urls = sorted({str(each["url"]) for each in told})
    given: dict[str, list[str]] = {url: [] for url in urls}
    left = set(connectors)
    for each in sorted(told, key=lambda each: str(each["url"])):
        for name in sorted(each.get("connectors", ())):
            if name in left:
                given[each["url"]].append(name)
                left.discard(name)
    for name in sorted(left):
        given[min(urls, key=lambda url: (len(given[url]), url))].append(name)
    even_out(given)
    return Assignment(urls[0], {url: set(names) for url, names in given.items()})


def even_out(given: dict[str, list[str]]) -> None:
    while True:
        most = max(given, key=lambda url: (len(given[url]), url))
        least = min(given, key=lambda url: (len(given[url]), url))
        if len(given[most]) - len(given[least]) < 2:
            return
        given[least].append(given[most].pop())

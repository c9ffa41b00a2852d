"""`uniform`: all partitions of all topics, as evenly as the subscriptions allow, moving as few as possible.

Members keep what they have up to their share. If all subscribe to the same topics, the shares differ by at most one. If
not, each partition goes to the least loaded of those who may have it, and then partitions move, along chains of members
if need be, until no move makes two members more equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from uuid import UUID

from moldau.coordinators.groups.assignors.problem import Assignment, Subscriber
from moldau.work.slices import Work, pauses

Place = tuple[UUID, int]
#: Beyond so many pairs of member and topic, chains of moves are not looked for: single moves must do.
LARGEST_FOR_CHAINS = 20_000
#: Each may hold many partitions, or be looked for among thousands.
MEMBERS_PER_TURN = 8


def assign(subscribers: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> Work[dict[str, Assignment]]:
    in_order = sorted(subscribers, key=lambda subscriber: subscriber.member_id)
    if len({subscriber.topics for subscriber in in_order}) <= 1:
        shares = yield from share_equally(in_order, partitions)
    else:
        balance = Balance(in_order)
        yield from balance.deal_out(in_order, partitions)
        shares = yield from balance.settle()
    assignments: dict[str, Assignment] = {}
    paused = pauses(MEMBERS_PER_TURN)
    for member_id, places in shares.items():
        assignments[member_id] = by_topic(places)
        if next(paused):
            yield
    return assignments


def share_equally(subscribers: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> Work[dict[str, list[Place]]]:
    paused = pauses()
    if not subscribers:
        return {}
    topics = subscribers[0].topics
    places = [
        (topic_id, index) for topic_id, count in partitions.items() if topic_id in topics for index in range(count)
    ]
    share, longer = divmod(len(places), len(subscribers))
    shares: dict[str, list[Place]] = {}
    taken: set[Place] = set()
    for subscriber in subscribers:
        if next(paused):
            yield
        own = kept(subscriber, partitions, taken)
        limit = share + (longer > 0)
        if len(own) > share:
            own = own[:limit]
            longer -= len(own) > share
        taken.update(own)
        shares[subscriber.member_id] = own
    hungry = deque[tuple[str, int]]()
    for member_id, own in shares.items():
        missing = share - len(own)
        if missing >= 0 and longer > 0:
            missing += 1
            longer -= 1
        if missing > 0:
            hungry.append((member_id, missing))
    for place in places:
        if next(paused):
            yield
        if place not in taken:
            member_id, missing = hungry.popleft()
            shares[member_id].append(place)
            if missing > 1:
                hungry.append((member_id, missing - 1))
    return shares


def kept(subscriber: Subscriber, partitions: Mapping[UUID, int], taken: set[Place]) -> list[Place]:
    """What it had, still exists, it still wants, and nobody else has got."""
    return [
        (topic_id, index)
        for topic_id, indexes in subscriber.current.items()
        if topic_id in subscriber.topics and topic_id in partitions
        for index in sorted(indexes)
        if index < partitions[topic_id] and (topic_id, index) not in taken
    ]


class Balance:
    """The case of different subscriptions."""

    def __init__(self, subscribers: Sequence[Subscriber]) -> None:
        self.takers: dict[UUID, list[str]] = {}
        self.held: dict[str, dict[UUID, list[int]]] = {subscriber.member_id: {} for subscriber in subscribers}
        self.load: dict[str, int] = dict.fromkeys(self.held, 0)

    def deal_out(self, subscribers: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> Work[None]:
        """Everybody keeps what it has; the rest goes to whoever has least."""
        paused = pauses(MEMBERS_PER_TURN)
        self.takers = {topic_id: [] for topic_id in partitions}
        taken: set[Place] = set()
        for subscriber in subscribers:
            if next(paused):
                yield
            for topic_id in subscriber.topics:
                if topic_id in self.takers:
                    self.takers[topic_id].append(subscriber.member_id)
            own = kept(subscriber, partitions, taken)
            taken.update(own)
            for place in own:
                self._give(subscriber.member_id, place)
        # Who can go to few members only goes first.
        for topic_id in sorted(partitions, key=lambda topic_id: len(self.takers[topic_id])):
            takers = self.takers[topic_id]
            for index in range(partitions[topic_id]) if takers else ():
                if (topic_id, index) not in taken:
                    self._give(min(takers, key=self.load.__getitem__), (topic_id, index))
                    if next(paused):
                        yield

    def settle(self) -> Work[dict[str, list[Place]]]:
        may_chain = sum(map(len, self.takers.values())) <= LARGEST_FOR_CHAINS
        waiting = deque(sorted(self.held, key=lambda member_id: -self.load[member_id]))
        while waiting:
            yield
            member_id = waiting.popleft()
            path = self._way_down(member_id, may_chain)
            if path is None:
                continue
            for giver, topic_id, taker in path:
                self._give(taker, (topic_id, self._take(giver, topic_id)))
            # Whoever lost one may now be reached by others: look at all again, the most loaded first.
            waiting = deque(sorted(self.held, key=lambda each: -self.load[each]))
        return {
            member_id: [(topic_id, index) for topic_id, indexes in held.items() for index in indexes]
            for member_id, held in self.held.items()
        }

    def _way_down(self, start: str, may_chain: bool) -> list[tuple[str, UUID, str]] | None:
        """Moves that make the member's load one smaller and that of another, who has two less at least, one larger."""
        enough = self.load[start] - 2
        came_from: dict[str, tuple[str, UUID]] = {}
        queue = deque([start])
        seen_topics: set[UUID] = set()
        while queue:
            giver = queue.popleft()
            for topic_id, indexes in self.held[giver].items():
                if not indexes or topic_id in seen_topics:
                    continue
                seen_topics.add(topic_id)
                for taker in self.takers[topic_id]:
                    if taker == start or taker in came_from:
                        continue
                    came_from[taker] = (giver, topic_id)
                    if self.load[taker] <= enough:
                        return trace(came_from, start, taker)
                    if may_chain:
                        queue.append(taker)
        return None

    def _give(self, member_id: str, place: Place) -> None:
        self.held[member_id].setdefault(place[0], []).append(place[1])
        self.load[member_id] += 1

    def _take(self, member_id: str, topic_id: UUID) -> int:
        self.load[member_id] -= 1
        return self.held[member_id][topic_id].pop()


def trace(came_from: Mapping[str, tuple[str, UUID]], start: str, end: str) -> list[tuple[str, UUID, str]]:
    path = []
    while end != start:
        giver, topic_id = came_from[end]
        path.append((giver, topic_id, end))
        end = giver
    return path


def by_topic(places: Sequence[Place]) -> Assignment:
    topics: dict[UUID, set[int]] = {}
    for topic_id, index in places:
        topics.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}

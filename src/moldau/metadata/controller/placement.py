"""Where the replicas of new partitions go.

A partition takes at most one broker of each rack before it takes a second one of any. From partition to partition the
first rack moves on by one, and in it the leader, until every broker has led once; then the followers move on by one
against the leaders, so that the partitions of a broker that fails find their new leaders all over the cluster. Where
the first turn begins is left to chance: topics with few partitions would else meet on the same brokers.

Fenced brokers never lead; one is taken only if its rack, or after all racks the cluster, has no other left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import TypeVar

from moldau.metadata.controller.decision import Rng
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work, pauses

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UsableBroker:
    id: int
    rack: str | None = None
    fenced: bool = False


@dataclass(slots=True)
class _Rack:
    able_to_lead: list[UsableBroker] = field(default_factory=list)
    fenced: list[UsableBroker] = field(default_factory=list)

    def from_leader(self, turn: int, shift: int) -> list[UsableBroker]:
        """All brokers of the rack in which a partition has its leader, in the order in which it takes them."""
        leader, *others = _rotated(self.able_to_lead, turn)
        return [leader, *_rotated(others, shift), *_rotated(self.fenced, turn)]

    def beside_leader(self, turn: int) -> list[UsableBroker]:
        return [*_rotated(self.able_to_lead, turn), *_rotated(self.fenced, turn)]


def place(
    brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, rng: Rng
) -> Work[list[tuple[int, ...]]]:
    """The replicas of each new partition, the preferred leader first. Raises INVALID_REPLICATION_FACTOR."""
    paused = pauses()
    known = sorted(brokers, key=lambda broker: broker.id)
    _check(known, replication_factor)
    racks = _by_rack(known)
    leading = [number for number, rack in enumerate(racks) if rack.able_to_lead]
    first_turn = rng.randrange(len(known))
    placed = []
    for turn in range(first_turn, first_turn + partitions):
        shift = turn // len(known)
        rounds, place_in_round = divmod(turn, len(leading))
        leader_rack, *other_racks = _rotated(racks, leading[place_in_round])
        broker_turn = rounds + place_in_round
        queues = [leader_rack.from_leader(broker_turn, shift)]
        queues += [rack.beside_leader(broker_turn + shift) for rack in other_racks]
        placed.append(_choose(queues, replication_factor))
        if next(paused):
            yield
    return placed


def _check(brokers: list[UsableBroker], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise _refused(f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
    if all(broker.fenced for broker in brokers):
        raise _refused("All brokers are currently fenced.")
    if replication_factor > len(brokers):
        raise _refused(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _by_rack(brokers: list[UsableBroker]) -> list[_Rack]:
    racks: dict[str | None, _Rack] = {}
    for broker in brokers:
        rack = racks.setdefault(broker.rack, _Rack())
        (rack.fenced if broker.fenced else rack.able_to_lead).append(broker)
    return [racks[name] for name in sorted(racks, key=lambda name: name or "")]


def _choose(queues: list[list[UsableBroker]], count: int) -> tuple[int, ...]:
    """The first of every rack, then the others rack by rack; each time, and in the result, the fenced ones last."""
    firsts = [queue[0] for queue in queues]
    rounds = zip_longest(*(queue[1:] for queue in queues))
    others = [broker for broker in chain.from_iterable(rounds) if broker is not None]
    chosen = [*sorted(firsts, key=_is_fenced), *sorted(others, key=_is_fenced)][:count]
    return tuple(broker.id for broker in sorted(chosen, key=_is_fenced))


def _is_fenced(broker: UsableBroker) -> bool:
    return broker.fenced


def _rotated(items: list[T], places: int) -> list[T]:
    if not items:
        return items
    places %= len(items)
    return items[places:] + items[:places]

"""Which brokers get the replicas of new partitions: Apache Kafka's striped placement over racks.

Partition by partition, the first replica comes from the next rack in turn and the others from the racks after it;
within a rack brokers take turns too. Both turns start at random. Unfenced brokers are taken first, and the first
replica, which will lead, is always unfenced. When as many partitions are placed as there are unfenced brokers, racks
and brokers are shuffled, so that the same sets do not come up again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moldau.metadata.controller.decision import Rng
from moldau.types.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class UsableBroker:
    id: int
    rack: str | None = None
    fenced: bool = False


def place(brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, rng: Rng) -> list[tuple[int, ...]]:
    """The replicas of each new partition, the preferred leader first. Raises INVALID_REPLICATION_FACTOR."""
    racks = _RackList(brokers, rng)
    if replication_factor <= 0:
        raise _refused(f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
    if racks.unfenced == 0:
        raise _refused("All brokers are currently fenced.")
    if replication_factor > racks.total:
        raise _refused(
            f"The target replication factor of {replication_factor} cannot be reached because only {racks.total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return [racks.place(replication_factor) for _ in range(partitions)]


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


class _BrokerList:
    """Brokers in turn; each round (epoch) starts one further and names every broker at most once."""

    def __init__(self, brokers: list[int], rng: Rng) -> None:
        self.brokers = sorted(brokers)
        self._offset = rng.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._epoch = 0

    def next(self, epoch: int) -> int | None:
        if not self.brokers:
            return None
        if epoch != self._epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        broker = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return broker


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], rng: Rng) -> None:
        self.fenced = _BrokerList([broker.id for broker in brokers if broker.fenced], rng)
        self.unfenced = _BrokerList([broker.id for broker in brokers if not broker.fenced], rng)

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return broker if broker is not None else self.fenced.next(epoch)

    def shuffle(self, rng: Rng) -> None:
        _shuffle(self.fenced.brokers, rng)
        _shuffle(self.unfenced.brokers, rng)


class _RackList:
    def __init__(self, brokers: Iterable[UsableBroker], rng: Rng) -> None:
        members: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            members.setdefault(broker.rack, []).append(broker)
        # Brokers without a rack form one of their own, which comes first.
        names = sorted(members, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(members[name], rng) for name in names]
        self._rng = rng
        self._epoch = 0
        self._offset = rng.randrange(len(self._racks)) if self._racks else 0
        self.total = sum(map(len, members.values()))
        self.unfenced = sum(len(rack.unfenced.brokers) for rack in self._racks)

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self._epoch == self.unfenced and self.unfenced > 1:
            self._shuffle()
            self._epoch = 0
        self._offset %= len(self._racks)
        leader, leader_rack = self._leader()
        replicas = [leader]
        index = self._offset
        passed_leader_rack = False
        while len(replicas) < replication_factor:
            # The leader's rack had its turn: in the first round it is passed over.
            if index == leader_rack and not passed_leader_rack:
                passed_leader_rack = True
            else:
                broker = self._racks[index].next(self._epoch)
                if broker is not None:
                    replicas.append(broker)
            index = (index + 1) % len(self._racks)
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        index = self._offset
        while True:
            broker = self._racks[index].unfenced.next(self._epoch)
            if broker is not None:
                return broker, index
            index = (index + 1) % len(self._racks)

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._rng)
        for rack in self._racks:
            rack.shuffle(self._rng)


def _shuffle(items: list[int] | list[_Rack], rng: Rng) -> None:
    rng.shuffle(items)  # type: ignore[arg-type]

"""Which replicas may lead and be in sync: what their brokers' registrations and states say of them.

A broker that registers anew stays fenced until it is taken in. What it had before is judged by what it says:

- it stopped cleanly, or was killed while the machine ran on (same boot id): all it acknowledged is on its disks;
- else the page cache may be lost: it has no claim to hold what was committed (the unclean shutdown of KIP-966);
- none of its log directories is left: its disk was lost or wiped, and so was all it held;
- some are gone: so is what lay in them. It says what it has kept before it is taken in, and is judged by that when it
  is: what it had a claim to and does not speak of lay in the directory that is gone. Where several are gone, nobody
  knows in which, and the claim ends.

A replica whose directory is known is fit only while that is there: it waits for its disk, and no other will do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import UUID

from moldau.metadata.image import BrokerImage, ClusterImage, PartitionImage


@dataclass(frozen=True, slots=True)
class Return:
    """How a broker comes back: whether unsynced pages may be lost, which of its directories are gone, and whether all
    of them are."""

    unclean: bool = False
    gone: frozenset[UUID] = frozenset()
    wiped: bool = False


IN_ORDER = Return()
FORGOTTEN = Return(unclean=True, wiped=True)


def how_it_returns(broker: BrokerImage, *, trust_boot_id: bool = True) -> Return:
    """Judges a registration that the controller has not said anything of yet."""
    if broker.state is None or broker.state.entry.epoch == broker.epoch:
        return IN_ORDER
    before = broker.state.entry
    had, has = frozenset(before.directories), frozenset(broker.directories)
    stopped_cleanly = broker.clean and broker.previous_epoch == before.epoch
    was_killed = trust_boot_id and broker.boot_id != "" and broker.boot_id == before.boot_id
    return Return(
        unclean=not (stopped_cleanly or was_killed),
        gone=had - has,
        wiped=bool(had) and had.isdisjoint(has),
    )


class Standing:
    """The brokers of an image as a rule sees them: `joining` are taken in by this decision, `leaving` shut out,
    `forgotten` for good. Those that are `judged` have said what they have kept, as who joins has."""

    def __init__(
        self,
        image: ClusterImage,
        *,
        joining: Collection[int] = (),
        judged: Collection[int] = (),
        leaving: Collection[int] = (),
        forgotten: Collection[int] = (),
        trust_boot_id: bool = True,
    ) -> None:
        self._directories: dict[int, frozenset[UUID] | None] = {}
        self._returns: dict[int, Return] = {}
        for number, broker in image.brokers.items():
            if (broker.is_active or number in joining) and number not in leaving and number not in forgotten:
                self._directories[number] = _directories(broker)
            found = FORGOTTEN if number in forgotten else how_it_returns(broker, trust_boot_id=trust_boot_id)
            if number not in joining and number not in judged:
                found = replace(found, gone=frozenset())
            if found != IN_ORDER:
                self._returns[number] = found

    def is_active(self, broker: int) -> bool:
        return broker in self._directories

    def is_fit(self, broker: int, partition: PartitionImage) -> bool:
        """Whether the broker takes part, and its replica of this partition is in a directory that serves."""
        if broker not in self._directories:
            return False
        directories = self._directories[broker]
        directory = partition.directory_of(broker)
        return directories is None or directory is None or directory in directories

    def may_hold_all(self, broker: int, partition: PartitionImage) -> bool:
        """Whether the replica, out of sync as it is, can be trusted to have kept what it had."""
        found = self._returns.get(broker)
        if found is None:
            return True
        if found.unclean or found.wiped:
            return False
        return not found.gone or partition.directory_of(broker) is not None

    def may_return(self, broker: int, partition: PartitionImage) -> bool:
        """Whether the last leader, which may lack some of what was committed, may return as one: not if its log is
        gone, or may be."""
        found = self._returns.get(broker)
        return found is None or not (found.wiped or (found.gone and partition.directory_of(broker) is None))

    def located(self, partition: PartitionImage) -> PartitionImage:
        """The partition with what follows from the silence of those that have lost one of their directories."""
        for broker, found in self._returns.items():
            if len(found.gone) != 1 or found.wiped or partition.directory_of(broker) is not None:
                continue
            if _has_claim(partition, broker):
                (gone,) = found.gone
                partition = with_directory(partition, broker, gone)
        return partition

    @property
    def untrusted(self) -> list[int]:
        """Brokers that came back without a claim to some of what they held."""
        return sorted(self._returns)


def _directories(broker: BrokerImage) -> frozenset[UUID] | None:
    """Those that serve; None where the broker has not said which it has."""
    return frozenset(broker.directories) - frozenset(broker.offline_directories) if broker.directories else None


def _has_claim(partition: PartitionImage, broker: int) -> bool:
    claimants = (*partition.isr, *partition.elr, partition.leader, partition.last_known_leader)
    return broker in claimants and broker in partition.replicas


def with_directory(partition: PartitionImage, broker: int, directory: UUID) -> PartitionImage:
    known = partition.directories or (None,) * len(partition.replicas)
    places = zip(partition.replicas, known, strict=True)
    return replace(partition, directories=tuple(directory if replica == broker else other for replica, other in places))

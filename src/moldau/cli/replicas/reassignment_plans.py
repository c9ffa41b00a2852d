"""Which replicas partitions could have on given brokers: anew, as Kafka's tool proposes, or with few moves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from moldau.cli.calls.reassignments import Broker, Layout
from moldau.metadata.controller.decision import Rng
from moldau.metadata.controller.placement import UsableBroker, place
from moldau.types.ids import TopicPartition


class RackError(Exception):
    """Some of the brokers say in which rack they are, and others do not."""


def scattered(present: Layout, brokers: Sequence[Broker], *, use_racks: bool = True, rng: Rng | None = None) -> Layout:
    """Placed like new topics, whatever was there before. Raises KafkaError where there are too few brokers."""
    racks = {broker.rack is None for broker in brokers}
    if use_racks and len(racks) > 1:
        raise RackError
    usable = [UsableBroker(broker.id, broker.rack if use_racks else None) for broker in brokers]
    found: Layout = {}
    for topic in sorted({each.topic for each in present}):
        numbers = sorted(each.partition for each in present if each.topic == topic)
        factor = len(present[TopicPartition(topic, numbers[0])])
        # Numbers have no gaps, but the plan is for those that are there.
        placed = finished(place(usable, len(numbers), factor, rng or random.SystemRandom()))
        found |= {TopicPartition(topic, number): each for number, each in zip(numbers, placed, strict=True)}
    return found


def finished(work: Iterable[None]) -> list[tuple[int, ...]]:
    iterator = iter(work)
    while True:
        try:
            next(iterator)
        except StopIteration as end:
            result: list[tuple[int, ...]] = end.value
            return result


def moved(present: Layout, brokers: Sequence[Broker], factor: int | None = None) -> Layout:
    """With as few moves as fit: a replica on a wanted broker stays; others go where the fewest are, in another rack if
    there is one. At the end every broker has its share, and leads its share: moves beyond what is asked for are made
    only from brokers that have at least two more than another."""
    wanted = {broker.id: broker.rack for broker in brokers}
    load = Counter(dict.fromkeys(wanted, 0))
    load.update(broker for replicas in present.values() for broker in replicas if broker in wanted)
    chosen: Layout = {}
    for where, replicas in sorted(present.items()):
        size = len(replicas) if factor is None else factor
        stay = [broker for broker in replicas if broker in wanted][:size]
        load.subtract([broker for broker in replicas if broker in wanted and broker not in stay])
        while len(stay) < size:
            free = [broker for broker in wanted if broker not in stay]
            if not free:
                raise ValueError(
                    f"{where} shall have {size} replicas, and there are {len(wanted)} brokers to take them"
                )
            racks = {wanted[broker] for broker in stay}
            best = min(free, key=lambda each: (racks != {None} and wanted[each] in racks, load[each], each))
            stay.append(best)
            load[best] += 1
        chosen[where] = tuple(stay)
    _even_out(chosen, wanted, load)
    _spread_leaders(chosen)
    return chosen


def _even_out(chosen: Layout, racks: dict[int, str | None], load: Counter[int]) -> None:
    while len(load) > 1:
        emptiest, *_, fullest = sorted(load, key=lambda each: (load[each], each))
        if load[fullest] - load[emptiest] < 2:
            return
        for where, replicas in sorted(chosen.items()):
            others = {racks[broker] for broker in replicas if broker != fullest}
            crowds = racks[emptiest] is not None and racks[emptiest] in others and racks[fullest] not in others
            if fullest in replicas and emptiest not in replicas and not crowds:
                chosen[where] = tuple(emptiest if broker == fullest else broker for broker in replicas)
                load[fullest] -= 1
                load[emptiest] += 1
                break
        else:
            return


def _spread_leaders(chosen: Layout) -> None:
    """The first replica leads: where another of a partition's replicas leads two fewer, the two change places."""
    leads = Counter({broker: 0 for replicas in chosen.values() for broker in replicas})
    leads.update(replicas[0] for replicas in chosen.values())
    changed = True
    while changed:
        changed = False
        for where, replicas in sorted(chosen.items()):
            least = min(replicas, key=lambda broker: (leads[broker], broker))
            if leads[replicas[0]] - leads[least] >= 2:
                leads[replicas[0]] -= 1
                leads[least] += 1
                chosen[where] = (least, *(broker for broker in replicas if broker != least))
                changed = True

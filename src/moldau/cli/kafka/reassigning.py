"""What kafka-reassign-partitions does with a plan: begin it, look how far it is, end it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.cli.calls import reassignments
from moldau.cli.calls.reassignments import Directories, Layout, Replica, replica_directories, under_way
from moldau.cli.connection import Connection
from moldau.cli.kafka.options import ToolError
from moldau.cli.kafka.reassign_partitions import Terse, joined
from moldau.cli.replicas import reassignment_throttles as throttles
from moldau.cli.replicas.reassignment_files import Plan, check_plan, plan_text
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

LOOK_SECONDS: Final = 0.1
ALREADY: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    plan: Plan
    additional: bool
    throttle: int
    directory_throttle: int
    timeout_ms: int
    allow_factor_change: bool


def execute(connected: Callable[[], Connection], wanted: Wanted) -> None:
    check_plan(wanted.plan)
    cluster = connected()
    moving = under_way(cluster)
    if moving and not wanted.additional:
        raise Terse(ALREADY)
    target = wanted.plan.layout
    check_brokers(cluster, {broker for replicas in target.values() for broker in replicas})
    present = present_layout(cluster, target)
    replicas = [Replica(broker, *place) for place, brokers in present.items() for broker in brokers]
    rollback = plan_text(present, replica_directories(cluster, replicas))
    print(f"Current partition replica assignment\n\n{rollback}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    set_limits(cluster, wanted, throttles.ways(moving, target, present))
    errors = reassignments.alter(cluster, target, allow_factor_change=wanted.allow_factor_change)
    if errors:
        raise Terse(f"Error reassigning partition(s):\n{refusals(errors)}")
    print(f"Successfully started partition reassignment{plural(target)} for {names(target)}")
    if wanted.plan.directories:
        move_directories(cluster, wanted.plan.directories, wanted.timeout_ms)


def set_limits(cluster: Connection, wanted: Wanted, ways: throttles.Ways) -> None:
    if wanted.throttle < 0 and wanted.directory_throttle < 0:
        return
    print(VERIFY)
    if wanted.throttle >= 0:
        throttles.limit_copies(cluster, ways, wanted.throttle)
        print(f"The inter-broker throttle limit was set to {wanted.throttle} B/s")
    if wanted.directory_throttle >= 0:
        brokers = {replica.broker for replica in wanted.plan.directories}
        throttles.limit_directories(cluster, brokers, wanted.directory_throttle)
        print(f"The replica-alter-dir throttle limit was set to {wanted.directory_throttle} B/s")


def check_brokers(cluster: Connection, wanted: Collection[int]) -> None:
    known = {broker.id for broker in reassignments.brokers(cluster)}
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise ToolError(f"Unknown broker id {unknown[0]}")


def present_layout(cluster: Connection, places: Collection[TopicPartition]) -> Layout:
    found = reassignments.layout(cluster, {place.topic for place in places})
    missing = sorted(set(places) - set(found))
    if missing:
        text = f"Unable to find partition: {', '.join(map(str, missing))}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return {place: found[place] for place in places}


def move_directories(cluster: Connection, wanted: Mapping[Replica, str], timeout_ms: int) -> None:
    """A replica that is still on its way to its broker cannot be moved there yet: it is asked for again."""
    waiting = dict(wanted)
    end = time.monotonic() + timeout_ms / 1000
    while True:
        outcomes = reassignments.alter_directories(cluster, waiting)
        for replica in sorted(outcomes):
            code = outcomes[replica]
            if code == ErrorCode.NONE:
                print(
                    f"Successfully started moving log directory to {waiting.pop(replica)} for replica "
                    f"{replica.place} with broker {replica.broker} "
                )
            elif code != ErrorCode.REPLICA_NOT_AVAILABLE:
                raise ToolError(f"Failed to alter dir for {replica}: {code.name}")
        if not waiting:
            return
        if time.monotonic() >= end:
            raise Terse(
                f"Timed out before log directory move{plural(waiting)} could be started for: "
                f"{','.join(map(str, sorted(waiting)))}"
            )
        threading.Event().wait(LOOK_SECONDS)


def verify(cluster: Connection, plan: Plan, *, preserve: bool) -> None:
    moving = under_way(cluster)
    print("Status of partition reassignment:")
    for place, replicas in sorted(plan.layout.items()):
        print(partition_state(place, replicas, moving, known_layout(cluster, place.topic)))
    lines, goes_on = directory_states(plan.directories, replica_directories(cluster, plan.directories))
    print("\n".join(lines))
    if not moving and not goes_on and not preserve:
        clear_limits(cluster, plan)


def known_layout(cluster: Connection, topic: str) -> Layout:
    try:
        return reassignments.layout(cluster, [topic])
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return {}


def partition_state(
    place: TopicPartition,
    wanted: tuple[int, ...],
    moving: Mapping[TopicPartition, reassignments.Move],
    present: Layout,
) -> str:
    if place in moving:
        return f"Reassignment of partition {place} is still in progress."
    found = present.get(place, ())
    if found == wanted:
        return f"Reassignment of partition {place} is completed."
    return (
        f"There is no active reassignment of partition {place}, but replica set is {joined(found)} rather than "
        f"{joined(wanted)}."
    )


def directory_states(wanted: Mapping[Replica, str], found: Mapping[Replica, Directories]) -> tuple[list[str], bool]:
    """What to say of each replica, and whether one is still being moved."""
    lines = []
    goes_on = False
    for replica, target in sorted(wanted.items()):
        directories = found.get(replica)
        place, where = replica.place, f"on broker {replica.broker}"
        if directories is None:
            lines.append(f"Partition {place} cannot be found in any live log directory {where}.")
        elif directories.current is None:
            lines.append(
                f"Partition {place} is not found in any live log dir {where}. There is likely an offline log "
                "directory on the broker."
            )
        elif directories.future is not None:
            goes_on = True
            if directories.future == target:
                lines.append(f"Reassignment of replica {replica} is still in progress.")
            else:
                lines.append(
                    f"Partition {place} {where} is being moved to log dir {directories.future} instead of {target}."
                )
        elif directories.current == target:
            lines.append(f"Reassignment of replica {replica} completed successfully.")
        else:
            lines.append(
                f"Partition {place} {where} is not being moved from log dir {directories.current} to {target}."
            )
    return lines, goes_on


def cancel(cluster: Connection, plan: Plan, timeout_ms: int, *, preserve: bool) -> None:
    moving = under_way(cluster, plan.layout)
    if moving:
        errors = reassignments.alter(cluster, dict.fromkeys(moving))
        if errors:
            raise Terse(f"Error cancelling partition reassignment{plural(errors)} for:\n{refusals(errors)}")
        print(f"Successfully cancelled partition reassignment{plural(moving)} for: {names(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    directories = replica_directories(cluster, plan.directories)
    back = {replica: each.current for replica, each in directories.items() if each.current and each.future}
    if back:
        move_directories(cluster, back, timeout_ms)
    else:
        print("None of the specified partition moves are active.", end="", flush=True)
    if not preserve:
        clear_limits(cluster, plan)


def clear_limits(cluster: Connection, plan: Plan) -> None:
    alive = {broker.id for broker in reassignments.brokers(cluster)}
    brokers = sorted(alive.union(*plan.layout.values()))
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {joined(brokers)}")
    throttles.clear_brokers(cluster, alive)
    away = [broker for broker in brokers if broker not in alive]
    if away:
        print(
            f"WARNING: limits of broker {joined(away)} stay: it does not run. Run this again when it does.",
            file=sys.stderr,
        )
    print(f"Clearing topic-level throttles on topic{plural(plan.topics)} {','.join(plan.topics)}")
    throttles.clear_topics(cluster, plan.topics)


def refusals(errors: Mapping[TopicPartition, KafkaError]) -> str:
    return "\n".join(f"{place}: {error.message}" for place, error in sorted(errors.items()))


def names(places: Collection[TopicPartition]) -> str:
    return ",".join(str(place) for place in sorted(places))


def plural(items: Collection[object]) -> str:
    return "" if len(items) == 1 else "s"

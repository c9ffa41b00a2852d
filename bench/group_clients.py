"""Group members and committers without a client library, so that what is measured is the broker.

As a program it holds many members of consumer-protocol groups alive until its standard input ends:
    python -m bench.group_clients ADDRESS TOPIC MEMBERS
"""

from __future__ import annotations

import selectors
import struct
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.load import LoadFailed
from moldau.client.connection import Connection
from moldau.client.core import Pending
from moldau.client.settings import ClientSettings, parse_address
from moldau.types.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_MS = 45_000
REBALANCE_MS = 60_000
ASSIGNOR = "range"
MEMBERS_PER_GROUP = 100
MEMBERS_PER_CONNECTION = 10
HEARTBEAT_SECONDS = 3.0
JOIN_SECONDS = 120.0


def settings(address: str) -> ClientSettings:
    return ClientSettings(bootstrap=(parse_address(address),), client_id="bench", request_seconds=JOIN_SECONDS)


@contextmanager
def connections(address: str, count: int) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        where = parse_address(address)
        yield [stack.enter_context(Connection(where, settings(address))) for _ in range(count)]


def subscription(user_data: bytes) -> bytes:
    """The consumer's embedded protocol: version i16 | topics i32 count | user data i32 size + bytes."""
    return struct.pack(">hii", 0, 0, len(user_data)) + user_data


@dataclass(slots=True)
class ClassicMember:
    """Joins and syncs until it is told its assignment in a generation that nobody disturbs."""

    connection: Connection
    group: str
    member_id: str = ""
    said: bytes = b"first"
    generation: int = -1
    synced: bool = False
    pending: Pending[Any] | None = field(default=None)

    def join(self) -> None:
        self.synced = False
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription(self.said))],
        )
        self.pending = self.connection.send(request, JoinGroupResponse)

    def hear(self) -> None:
        assert self.pending is not None
        answer = self.connection.receive(self.pending)
        self.pending = None
        code = ErrorCode(answer.error_code)
        if isinstance(answer, JoinGroupResponse):
            self._after_join(answer, code)
        elif code is ErrorCode.NONE:
            self.synced = True
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            raise LoadFailed(f"SyncGroup was answered with {code.name}")

    def _after_join(self, answer: JoinGroupResponse, code: ErrorCode) -> None:
        self.member_id = answer.member_id or self.member_id
        if code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            self.join()
            return
        if code is not ErrorCode.NONE:
            raise LoadFailed(f"JoinGroup was answered with {code.name}")
        self.generation = answer.generation_id
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=ASSIGNOR,
            assignments=[
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"") for member in answer.members
            ],
        )
        self.pending = self.connection.send(request, SyncGroupResponse)


class ClassicGroup:
    """Members that join at once, and again at once; each call returns when all are in one generation."""

    def __init__(self, group: str, opened: Sequence[Connection]) -> None:
        self._members = [ClassicMember(connection, group) for connection in opened]

    def join(self) -> None:
        for member in self._members:
            member.join()
        self._come_to_rest()

    def rebalance(self) -> None:
        """Members with something new to say about themselves make a new generation."""
        for member in self._members:
            member.said = b"second"
        self.join()

    def _come_to_rest(self) -> None:
        deadline = time.monotonic() + JOIN_SECONDS
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                selector.register(member.connection, selectors.EVENT_READ, member)
            while not self._at_rest():
                if time.monotonic() > deadline:
                    raise LoadFailed(f"{len(self._members)} members did not come to rest within {JOIN_SECONDS:g} s")
                for key, _ in selector.select(timeout=1.0):
                    key.data.hear()

    def _at_rest(self) -> bool:
        """A member of an older generation would hear of the newer one by its next heartbeat: it is told at once."""
        newest = max(member.generation for member in self._members)
        for member in self._members:
            if member.synced and member.generation < newest:
                member.join()
        return all(member.synced for member in self._members)


def join_consumer(group: str, topic: str, opened: Sequence[Connection]) -> None:
    """The consumer protocol: each member's heartbeats go on until the group's epoch is the same for all."""
    epochs = dict.fromkeys(opened, 0)
    ids = {connection: str(uuid.uuid4()) for connection in opened}
    deadline = time.monotonic() + JOIN_SECONDS
    while True:
        asked = {
            each: each.send(heartbeat(group, ids[each], epochs[each], topic), ConsumerGroupHeartbeatResponse)
            for each in opened
        }
        for connection, pending in asked.items():
            answer = connection.receive(pending)
            if answer.error_code:
                raise LoadFailed(f"ConsumerGroupHeartbeat was answered with {ErrorCode(answer.error_code).name}")
            epochs[connection] = answer.member_epoch
        if len(set(epochs.values())) == 1:
            return
        if time.monotonic() > deadline:
            raise LoadFailed(f"{len(opened)} members did not come to rest within {JOIN_SECONDS:g} s")


def heartbeat(group: str, member_id: str, epoch: int, topic: str) -> ConsumerGroupHeartbeatRequest:
    joining = epoch == 0
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=REBALANCE_MS if joining else -1,
        subscribed_topic_names=[topic] if joining else None,
        topic_partitions=[] if joining else None,
    )


class HeldMembers:
    """Members of consumer groups that say every few seconds that they live; several share a connection."""

    def __init__(self, address: str, topic: str, count: int) -> None:
        self._topic = topic
        where = parse_address(address)
        self._connections = [Connection(where, settings(address)) for _ in range(-(-count // MEMBERS_PER_CONNECTION))]
        self._members = [(f"held-{number // MEMBERS_PER_GROUP}", str(uuid.uuid4())) for number in range(count)]
        self._epochs = [0] * count

    def beat(self, pace_seconds: float) -> None:
        """One heartbeat of every member, spread evenly over the given time."""
        started, share = time.monotonic(), pace_seconds / len(self._connections)
        for number, connection in enumerate(self._connections):
            self._beat_on(number, connection)
            ahead = started + (number + 1) * share - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)

    def _beat_on(self, number: int, connection: Connection) -> None:
        first = number * MEMBERS_PER_CONNECTION
        asked = []
        for index in range(first, min(first + MEMBERS_PER_CONNECTION, len(self._members))):
            group, member_id = self._members[index]
            request = heartbeat(group, member_id, self._epochs[index], self._topic)
            asked.append((index, connection.send(request, ConsumerGroupHeartbeatResponse)))
        for index, pending in asked:
            answer = connection.receive(pending)
            if answer.error_code:
                raise LoadFailed(f"a heartbeat was answered with {ErrorCode(answer.error_code).name}")
            self._epochs[index] = answer.member_epoch


def main(address: str, topic: str, count: str) -> None:
    members = HeldMembers(address, topic, int(count))
    members.beat(0)
    members.beat(0)
    print("ready", flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        while not selector.select(timeout=0):
            members.beat(HEARTBEAT_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])

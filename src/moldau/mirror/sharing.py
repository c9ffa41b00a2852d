"""Lanes shared by the workers of a flow, through a group in the target cluster.

Members join a group of type `moldau-mirror` and tell which lanes they have; the member that the broker makes leader
spreads all lanes evenly, and leaves each where it is as far as that goes. Nobody stops before he knows what is his: a
lane that two believe to have is written by the one that opened its transactional id last, and the other is told.

    member      {"lanes": [0, 1], "topics": "orders|sales"}
    assignment  {"lanes": [0, 1, 2], "problem": ""}

A lane holds partitions of every topic. So only members that choose the same topics can share them: who chooses others
than the leader gets no lanes, and is told why, instead of copying a part of his own and leaving out a part of theirs.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau.client.cluster import Cluster, CoordinatorKind
from moldau.client.errors import ClientError
from moldau.client.settings import ClientSettings
from moldau.mirror.groups import is_idle
from moldau.mirror.progress import LANES, Shared
from moldau.types.error_codes import ErrorCode
from moldau.types.errors import KafkaError
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

PROTOCOL_TYPE: Final = "moldau-mirror"
PROTOCOL: Final = "lanes"
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 10_000
HEARTBEAT_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.5
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 5, 3, 3, 3

log = logging.getLogger(__name__)


def shared_out(held: Mapping[str, Iterable[int]], lanes: int = LANES) -> dict[str, list[int]]:
    """Every lane to one member, none to have two more than another, as many as possible where they are. Pure."""
    members = sorted(held)
    least, more = divmod(lanes, len(members))
    free = set(range(lanes))
    found: dict[str, list[int]] = {}
    # Those that have most may have the odd ones.
    by_size = sorted(members, key=lambda member: (-len(set(held[member])), member))
    for index, member in enumerate(by_size):
        room = least + (index < more)
        found[member] = sorted(lane for lane in set(held[member]) if lane in free)[:room]
        free -= set(found[member])
    for index, member in enumerate(by_size):
        while len(found[member]) < least + (index < more):
            found[member].append(free.pop())
        found[member].sort()
    return found


def assignments(told: Mapping[str, bytes], leader: str) -> dict[str, bytes]:
    """Of each member, from what each has told. Pure."""
    topics = {member: read_topics(content) for member, content in told.items()}
    # Workers of former versions do not tell what they choose.
    agreeing = {
        member for member, chosen in topics.items() if None in (chosen, topics[leader]) or chosen == topics[leader]
    }
    lanes = shared_out({member: read_lanes(told[member]) for member in agreeing})
    problem = (
        f"the group copies topics={topics[leader]}: workers that share a flow have to choose the same topics; "
        "what others are to copy needs a flow, or a group.id, of its own"
    )
    return {
        member: json.dumps(
            {"lanes": lanes[member]} if member in agreeing else {"lanes": [], "problem": problem}
        ).encode()
        for member in told
    }


def group_of(flow: str) -> str:
    return f"moldau-mirror-{flow}"


class Membership(threading.Thread):
    def __init__(self, flow: str, target: Mapping[str, str], shared: Shared, topics: str) -> None:
        """`topics`: what it chooses, as others that choose the same write it."""
        super().__init__(name=f"{flow}-membership", daemon=True)
        self._topics = topics
        self._group = group_of(flow)
        waits_ms = str(SESSION_MS + REBALANCE_MS + 10_000)
        self._settings = ClientSettings.from_properties({**target, "request.timeout.ms": waits_ms})
        self._shared = shared
        self._member = ""
        self._generation = -1

    def run(self) -> None:
        stopping = self._shared.stopping
        self._begin_alone()
        while not stopping.is_set():
            try:
                with Cluster(self._settings) as cluster:
                    self._take_part(cluster)
            except (ClientError, KafkaError, OSError) as error:
                log.warning("the group %s is interrupted: %s", self._group, error)
                stopping.wait(PAUSE_SECONDS)

    def _begin_alone(self) -> None:
        """A broker lets a new group wait for more members. Where there are none yet, nothing needs to wait: if another
        one begins at the same moment, transactional ids decide until the group has."""
        try:
            with Cluster(self._settings) as cluster:
                if is_idle(cluster, self._group):
                    self._shared.lanes = frozenset(range(LANES))
        except (ClientError, KafkaError, OSError) as error:
            log.info("the group %s cannot be looked at: %s", self._group, error)

    def _take_part(self, cluster: Cluster) -> None:
        while not self._shared.stopping.is_set():
            self._join(cluster)
            while self._beat(cluster):
                pass

    def leave(self) -> None:
        """After the last transaction: the others take over at once."""
        try:
            with Cluster(self._settings) as cluster:
                request = LeaveGroupRequest(
                    group_id=self._group, member_id=self._member, members=[MemberIdentity(member_id=self._member)]
                )
                self._ask(cluster, request, LeaveGroupResponse, LEAVE_VERSION)
        except (ClientError, KafkaError, OSError) as error:
            log.info("leaving the group %s: %s", self._group, error)

    def _ask(self, cluster: Cluster, request: Any, answer: type[Any], version: int) -> Any:
        def ask() -> Any:
            found = cluster.to_coordinator(CoordinatorKind.GROUP, self._group, request, answer, max_version=version)
            if found.error_code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ):
                cluster.forget_coordinator(CoordinatorKind.GROUP, self._group)
                raise KafkaError(ErrorCode(found.error_code), f"group {self._group}")
            return found

        return cluster.retrying(ask)

    def _join(self, cluster: Cluster) -> None:
        told = json.dumps({"lanes": sorted(self._shared.lanes), "topics": self._topics}).encode()
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=told)],
            )
            answer = self._ask(cluster, request, JoinGroupResponse, JOIN_VERSION)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member = answer.member_id
            elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member = ""
            else:
                self._check(answer.error_code, "joining")
                break
        self._member, self._generation = answer.member_id, answer.generation_id
        self._sync(cluster, answer)

    def _sync(self, cluster: Cluster, joined: JoinGroupResponse) -> None:
        shared: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            told = {each.member_id: bytes(each.metadata) for each in joined.members}
            shared = [
                SyncGroupRequestAssignment(member_id=member, assignment=content)
                for member, content in assignments(told, joined.leader).items()
            ]
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member, assignments=shared
        )
        answer = self._ask(cluster, request, SyncGroupResponse, SYNC_VERSION)
        if answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID):
            return
        self._check(answer.error_code, "the assignment")
        problem = read_problem(answer.assignment)
        if problem and problem != self._shared.refused:
            log.error("%s: nothing is copied by this worker: %s", self._group, problem)
        self._shared.refused = problem
        mine = frozenset(read_lanes(answer.assignment))
        if mine != self._shared.lanes:
            log.info("%s: lanes %s", self._group, sorted(mine))
            self._shared.lanes = mine
            self._shared.look_now.set()

    def _beat(self, cluster: Cluster) -> bool:
        """Whether the generation goes on."""
        if self._shared.stopping.wait(HEARTBEAT_SECONDS):
            return False
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member)
        code = self._ask(cluster, request, HeartbeatResponse, HEARTBEAT_VERSION).error_code
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return False
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member = ""
            return False
        self._check(code, "the heartbeat")
        return True

    def _check(self, code: int, what: str) -> None:
        if code:
            raise KafkaError(ErrorCode(code), f"{what} of group {self._group}: {ErrorCode(code).name}")


def read_lanes(content: Any) -> list[int]:
    try:
        return [int(lane) for lane in json.loads(bytes(content))["lanes"]]
    except (ValueError, KeyError, TypeError):
        return []


def read_topics(content: Any) -> str | None:
    return read_text(content, "topics")


def read_problem(content: Any) -> str:
    return read_text(content, "problem") or ""


def read_text(content: Any, name: str) -> str | None:
    try:
        found = json.loads(bytes(content)).get(name)
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None

"""A place in a group, by Kafka's classic protocol, for what shares work without being a consumer.

Members tell who they are; the one that the broker makes the group's leader says what each of them gets. A thread joins,
keeps alive, and joins again; what it was given is valid until `lost` is called, or for the session's length after the
last heartbeat, so whoever acts on it needs a fence of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.cluster import Cluster, CoordinatorKind
from moldau.client.errors import ClientError
from moldau.client.settings import ClientSettings
from moldau.types.error_codes import ErrorCode
from moldau.types.errors import KafkaError
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

log = logging.getLogger(__name__)

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 5, 3, 3, 3
PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group: str
    protocol_type: str
    protocol: str
    session_ms: int
    rebalance_ms: int
    heartbeat_seconds: float


class Member:
    """What a member does; called on the thread of its membership."""

    def described(self) -> bytes:
        raise NotImplementedError

    def assign(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """By the group's leader: what each member gets, of how they described themselves."""
        raise NotImplementedError

    def assigned(self, content: bytes, generation: int) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        """What was assigned is not valid any more."""
        raise NotImplementedError


class Membership:
    def __init__(self, client: ClientSettings, settings: GroupSettings, member: Member) -> None:
        self._client = client
        self._settings = settings
        self._member = member
        self._stopping = threading.Event()
        self._again = threading.Event()
        self._id = ""
        self._generation = -1
        self._thread = threading.Thread(target=self._run, name=f"{settings.protocol_type}-member", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Leaves, so that others take over at once."""
        self._stopping.set()
        self._again.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def rejoin(self) -> None:
        """There is something new to be shared."""
        self._again.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Cluster(self._client) as cluster:
                    self._take_part(cluster)
            except (ClientError, KafkaError, OSError) as error:
                log.warning("the group %s is interrupted: %s", self._settings.group, error)
                self._pause()
            except Exception:  # of the member: whoever ends here works on outside of the group
                log.exception("the group %s is interrupted", self._settings.group)
                self._pause()

    def _pause(self) -> None:
        self._member.lost()
        self._stopping.wait(PAUSE_SECONDS)

    def _take_part(self, cluster: Cluster) -> None:
        while not self._stopping.is_set():
            self._again.clear()
            joined = self._join(cluster)
            if not self._sync(cluster, joined):
                continue
            while self._beat(cluster):
                pass
            if self._id == "":
                self._member.lost()
        self._leave(cluster)

    def _ask(self, cluster: Cluster, request: Any, answer: type[Any], version: int) -> Any:
        return cluster.to_coordinator(CoordinatorKind.GROUP, self._settings.group, request, answer, max_version=version)

    def _join(self, cluster: Cluster) -> list[JoinGroupResponseMember]:
        """The members, for the one that leads the group."""
        settings = self._settings
        while True:
            request = JoinGroupRequest(
                group_id=settings.group,
                session_timeout_ms=settings.session_ms,
                rebalance_timeout_ms=settings.rebalance_ms,
                member_id=self._id,
                protocol_type=settings.protocol_type,
                protocols=[JoinGroupRequestProtocol(name=settings.protocol, metadata=self._member.described())],
            )
            answer = self._ask(cluster, request, JoinGroupResponse, JOIN_VERSION)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._id = answer.member_id
                continue
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._id = ""
                continue
            self._check(cluster, answer.error_code, "joining")
            self._id, self._generation = answer.member_id, answer.generation_id
            return list(answer.members) if answer.leader == answer.member_id else []

    def _sync(self, cluster: Cluster, members: list[JoinGroupResponseMember]) -> bool:
        assignments = []
        if members:
            shared = self._member.assign({each.member_id: bytes(each.metadata) for each in members})
            assignments = [SyncGroupRequestAssignment(member_id=who, assignment=given) for who, given in shared.items()]
        request = SyncGroupRequest(
            group_id=self._settings.group, generation_id=self._generation, member_id=self._id, assignments=assignments
        )
        answer = self._ask(cluster, request, SyncGroupResponse, SYNC_VERSION)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        self._check(cluster, answer.error_code, "the assignment")
        self._member.assigned(bytes(answer.assignment), self._generation)
        return True

    def _beat(self, cluster: Cluster) -> bool:
        """Whether the generation goes on."""
        if self._again.wait(self._settings.heartbeat_seconds):
            return False
        request = HeartbeatRequest(group_id=self._settings.group, generation_id=self._generation, member_id=self._id)
        answer = self._ask(cluster, request, HeartbeatResponse, HEARTBEAT_VERSION)
        if answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return False
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._id = ""
            return False
        self._check(cluster, answer.error_code, "the heartbeat")
        return True

    def _check(self, cluster: Cluster, code: int, what: str) -> None:
        if code != ErrorCode.NONE:
            cluster.forget_coordinator(CoordinatorKind.GROUP, self._settings.group)
            raise KafkaError(ErrorCode(code), f"{what} of group {self._settings.group}")

    def _leave(self, cluster: Cluster) -> None:
        request = LeaveGroupRequest(
            group_id=self._settings.group, member_id=self._id, members=[MemberIdentity(member_id=self._id)]
        )
        self._ask(cluster, request, LeaveGroupResponse, LEAVE_VERSION)

"""One leader among the instances, elected through Kafka's group protocol as Confluent's registry does.

Members join a group of type `sr` with protocol `v0`. Each tells who it is; the member that the broker makes the group's
leader names the registry's: the one that led before, if it is there, else the first eligible by its address.

    who         {"version": 1, "host", "port", "master_eligibility", "scheme", "leader"}
    assignment  {"version": 1, "error", "master": member id, "master_identity": who}
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
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

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
DUPLICATE_URLS: Final = 1
AGAIN_SECONDS: Final = 0.5
JOIN_VERSION, SYNC_VERSION, LEAVE_VERSION = 5, 3, 3


@dataclass(frozen=True, slots=True)
class Identity:
    host: str
    port: int
    eligible: bool
    scheme: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def as_json(self, *, leads: bool) -> dict[str, Any]:
        found = asdict(self)
        return {
            "version": 1,
            "host": found["host"],
            "port": found["port"],
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
            "leader": leads,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Identity:
        eligible = content.get("master_eligibility", content.get("leader_eligibility", True))
        return cls(str(content["host"]), int(content["port"]), bool(eligible), str(content.get("scheme") or "http"))


@dataclass(frozen=True, slots=True)
class Timing:
    session_ms: int
    rebalance_ms: int
    heartbeat_seconds: float


def elected(members: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The assignment that all members get; members by id, as they described themselves. Who does not say where it is
    cannot lead."""
    who = {member: known for member, content in members.items() if (known := described(content)) is not None}
    eligible = sorted((each.url, member) for member, each in who.items() if each.eligible)
    if len({url for url, _ in eligible}) < len(eligible):
        return {"version": 1, "error": DUPLICATE_URLS}
    before = [member for _, member in eligible if members[member].get("leader")]
    chosen = before[0] if before else eligible[0][1] if eligible else None
    if chosen is None:
        return {"version": 1, "error": 0}
    return {"version": 1, "error": 0, "master": chosen, "master_identity": who[chosen].as_json(leads=True)}


def described(content: Mapping[str, Any]) -> Identity | None:
    try:
        return Identity.of(content)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        log.warning("a member of the group of registries does not say where it is: %s", str(content)[:200])
        return None


class Election:
    """A thread that keeps its place in the group; `changed` is called with the leader, or None while there is none."""

    def __init__(
        self,
        settings: ClientSettings,
        group: str,
        me: Identity,
        timing: Timing,
        changed: Callable[[Identity | None, bool], None],
    ) -> None:
        self._settings = settings
        self._group = group
        self._me = me
        self._timing = timing
        self._changed = changed
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._doubted = threading.Condition()
        self._asked = self._looking_for = self._answered = 0
        """How often somebody doubted who leads; up to which doubt the group is being asked, and has answered."""
        self._member = ""
        self._generation = -1
        self._leads = False
        self._thread = threading.Thread(target=self._run, name="registry-election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Leaves the group, so that another leads at once."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)

    def look_again(self, seconds: float) -> None:
        """Asks the group at once whether all is as it was; returns when it has answered, or in so many seconds."""
        with self._doubted:
            self._asked += 1
            mine = self._asked
            self._woken.set()
            self._doubted.wait_for(lambda: self._answered >= mine, seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Cluster(self._settings) as cluster:
                    self._take_part(cluster)
            except (ClientError, KafkaError, OSError) as error:
                log.warning("the election among registries is interrupted: %s", error)
                self._begin_again()
            except Exception:
                # Not its last word on who leads: that would be believed for ever.
                log.exception("the election among registries failed; it begins again")
                self._begin_again()

    def _begin_again(self) -> None:
        self._tell(None, False)
        self._stopping.wait(AGAIN_SECONDS)

    def _take_part(self, cluster: Cluster) -> None:
        while not self._stopping.is_set():
            self._join(cluster)
            while self._beat(cluster):
                self._looked()
            # Until it is known who leads now nobody here writes.
            self._tell(None, False)
            self._looked()
        self._leave(cluster)

    def _tell(self, leader: Identity | None, leads: bool) -> None:
        self._leads = leads if leader is not None else self._leads and leader is None
        self._changed(leader, leads)

    def _ask(self, cluster: Cluster, request: Any, answer: type[Any], version: int) -> Any:
        return cluster.to_coordinator(CoordinatorKind.GROUP, self._group, request, answer, max_version=version)

    def _join(self, cluster: Cluster) -> None:
        described = json.dumps(self._me.as_json(leads=self._leads)).encode()
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=self._timing.session_ms,
                rebalance_timeout_ms=self._timing.rebalance_ms,
                member_id=self._member,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=described)],
            )
            answer = self._ask(cluster, request, JoinGroupResponse, JOIN_VERSION)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member = answer.member_id
                continue
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member = ""
                continue
            self._check(cluster, answer.error_code, "joining")
            break
        self._member, self._generation = answer.member_id, answer.generation_id
        self._sync(cluster, answer.members if answer.leader == answer.member_id else [])

    def _sync(self, cluster: Cluster, members: list[JoinGroupResponseMember]) -> None:
        assignments = []
        if members:
            content = json.dumps(elected({each.member_id: read_json(each.metadata) for each in members})).encode()
            assignments = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=content) for each in members]
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member, assignments=assignments
        )
        answer = self._ask(cluster, request, SyncGroupResponse, SYNC_VERSION)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        self._check(cluster, answer.error_code, "the assignment")
        assigned = read_json(answer.assignment)
        if assigned.get("error"):
            log.error("two registries have one address; set host.name, so that they differ")
        identity = assigned.get("master_identity")
        leader = described(identity) if isinstance(identity, dict) else None
        log.info("registry leader: %s", leader.url if leader else "none")
        self._tell(leader, assigned.get("master") == self._member)

    def _beat(self, cluster: Cluster) -> bool:
        """Whether the generation goes on."""
        self._woken.wait(self._timing.heartbeat_seconds)
        self._woken.clear()
        with self._doubted:
            self._looking_for = self._asked
        if self._stopping.is_set():
            return False
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member)
        answer = self._ask(cluster, request, HeartbeatResponse, 3)
        if answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return False
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            # It was put out: another one may have led since then, and goes on leading.
            self._member, self._leads = "", False
            return False
        self._check(cluster, answer.error_code, "the heartbeat")
        return True

    def _looked(self) -> None:
        with self._doubted:
            self._answered = self._looking_for
            self._doubted.notify_all()

    def _check(self, cluster: Cluster, code: int, what: str) -> None:
        if code != ErrorCode.NONE:
            cluster.forget_coordinator(CoordinatorKind.GROUP, self._group)
            raise KafkaError(ErrorCode(code), f"{what} of group {self._group}")

    def _leave(self, cluster: Cluster) -> None:
        request = LeaveGroupRequest(
            group_id=self._group, member_id=self._member, members=[MemberIdentity(member_id=self._member)]
        )
        self._ask(cluster, request, LeaveGroupResponse, LEAVE_VERSION)


def read_json(content: Any) -> dict[str, Any]:
    try:
        found = json.loads(bytes(content))
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

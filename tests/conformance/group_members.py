"""Members of a classic group made of single requests, so that each of them can be wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.session import Session

Plain = Any
Protocols = Sequence[tuple[str, bytes]]
#: Version 0 of a consumer's subscription to no topics, without user data.
SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff")
RANGE: Protocols = (("range", SUBSCRIPTION),)
SESSION_MS = 30_000


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


@dataclass(slots=True)
class GroupMember:
    session: Session
    label: str
    group_label: str = "group"
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    protocols: Protocols = RANGE
    protocol_type: str = "consumer"

    @property
    def group(self) -> str:
        return self.session.topic_name(self.group_label)

    # -- requests --------------------------------------------------------------------------------------------------

    def join(self, **changes: Plain) -> Plain:
        protocols = changes.pop("protocols", self.protocols)
        return {
            "group_id": self.group,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": SESSION_MS,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
            **changes,
        }

    def who(self, **changes: Plain) -> Plain:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            **changes,
        }

    def sync(self, assignments: Mapping[str, bytes] | None = None, **changes: Plain) -> Plain:
        given = [{"member_id": member, "assignment": value} for member, value in (assignments or {}).items()]
        return {
            **self.who(),
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": given,
            **changes,
        }

    def leave(self) -> Plain:
        identity = {"member_id": self.member_id, "group_instance_id": self.instance_id}
        return {"group_id": self.group, "member_id": self.member_id, "members": [identity]}

    def commit(self, *topics: Plain, **changes: Plain) -> Plain:
        return {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": list(topics),
            **changes,
        }

    # -- steps that must work, not recorded ------------------------------------------------------------------------

    def known_as(self, answer: Plain) -> Plain:
        """Learns the id and the generation from an answer to JoinGroup."""
        if answer["member_id"]:
            self.member_id = answer["member_id"]
            self.session.normaliser.member_ids[self.member_id] = f"id of {self.label}"
        self.generation = answer["generation_id"]
        return answer

    def get_id(self) -> "GroupMember":
        self.known_as(self.session.send("join_group", self.join()))
        return self

    def enter(self) -> "GroupMember":
        """Joins a group without members, or one whose others have joined already."""
        self.get_id()
        if self.generation < 0:
            self.known_as(self.session.send("join_group", self.join()))
        if self.generation < 0:
            raise AssertionError(f"{self.label} cannot join")
        return self

    def settle(self, *others: "GroupMember") -> "GroupMember":
        """Joins alone and hands in an assignment."""
        self.enter()
        answer = self.session.send("sync_group", self.sync({self.member_id: b"for " + self.label.encode()}))
        if answer["error_code"] != "NONE":
            raise AssertionError(f"{self.label} cannot settle: {answer}")
        return self

    def await_state(self, state: str) -> None:
        def reached() -> bool:
            described = self.session.send("describe_groups", {"groups": [self.group]})["groups"][0]
            return bool(described["group_state"] == state)

        self.session.until(reached, f"the group in state {state}")

"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, at every version."""

from typing import Any

from tests.conformance.group_members import RANGE, SESSION_MS, SUBSCRIPTION, GroupMember
from tests.conformance.scenario import scenario
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session


def member(s: Session, label: str = "a", group: str = "group", **more: Any) -> GroupMember:
    return GroupMember(s, label, group, **more)


def ready(s: Session, *groups: str) -> None:
    await_groups(s, *(s.topic_name(group) for group in groups or ("group",)))


@scenario("join_group")
def join_group_refused(s: Session, version: int) -> None:
    ready(s)
    a = member(s)
    s.ask("no group id", "join_group", a.join(group_id=""))
    s.ask("no group id, but a member id", "join_group", a.join(group_id="", member_id="somebody"))
    s.ask("session too short", "join_group", a.join(session_timeout=5999, member_id="somebody"))
    s.ask("session too long", "join_group", a.join(session_timeout=1_800_001))
    s.ask("negative session", "join_group", a.join(session_timeout=-1))
    s.ask("unknown member of an unknown group", "join_group", a.join(member_id="nobody"))
    s.ask("no protocol type", "join_group", a.join(protocol_type=""))
    s.ask("no protocols", "join_group", a.join(protocols=()))
    if version >= 5:
        s.ask("unknown static member", "join_group", a.join(member_id="nobody", group_instance_id="i"))
    a.settle()
    s.ask("another protocol type", "join_group", a.join(member_id="", protocol_type="connect"))
    s.ask("other protocols", "join_group", a.join(member_id="", protocols=[("sticky", b"")]))
    s.ask("member with other protocols", "join_group", a.join(protocols=[("sticky", b"")]))
    s.ask("unknown member", "join_group", a.join(member_id="nobody"))
    if version >= 5:
        s.ask("unknown instance", "join_group", a.join(group_instance_id="i"))


@scenario("join_group")
def join_group_alone(s: Session, version: int) -> None:
    ready(s)
    a = member(s)
    s.ask("first", "join_group", a.join(), edit=a.known_as)
    if version >= 4:
        s.ask("with its id", "join_group", a.join(), edit=a.known_as)
    s.ask("again, before the sync", "join_group", a.join())
    s.ask("sync", "sync_group", a.sync({a.member_id: b"mine"}), version=min(version, 5))
    s.ask("the leader again", "join_group", a.join(), edit=a.known_as)
    s.ask("with other metadata", "join_group", a.join(protocols=[("range", b"other")]), edit=a.known_as)
    more = [("roundrobin", b"r"), ("range", SUBSCRIPTION)]
    s.ask("with more protocols", "join_group", a.join(protocols=more), edit=a.known_as)
    s.ask("without a session to speak of", "join_group", a.join(session_timeout=6000, rebalance_timeout=0))


@scenario("join_group")
def join_group_together(s: Session, version: int) -> None:
    ready(s)
    a, b = member(s, "a").settle(), member(s, "b").get_id()
    with s.waiting_for("the newcomer", "join_group", b.join(), edit=b.known_as):
        a.await_state("PreparingRebalance")
        s.ask("heartbeat of the first", "heartbeat", a.who(), version=min(version, 4))
        s.ask("sync of the first", "sync_group", a.sync(), version=min(version, 5))
        s.ask("the first", "join_group", a.join(), edit=a.known_as, ordered=False)
    s.ask("the newcomer again", "join_group", b.join())
    with s.waiting_for("the newcomer's assignment", "sync_group", b.sync(), version=min(version, 5)):
        assignments = {a.member_id: b"for a", b.member_id: b"for b"}
        s.ask("the leader's assignment", "sync_group", a.sync(assignments), version=min(version, 5))
    s.ask("the newcomer, settled", "join_group", b.join())
    changed = b.join(protocols=[("range", b"new")])
    with s.waiting_for("the newcomer with other metadata", "join_group", changed, edit=b.known_as):
        a.await_state("PreparingRebalance")
        s.ask("the first leaves", "leave_group", a.leave(), version=min(version, 5))


@scenario("join_group", versions=range(4, 10))
def join_group_votes(s: Session, version: int) -> None:
    """The protocol that all have and most prefer."""
    ready(s)
    offers = {
        "a": [("x", b"ax"), ("y", b"ay"), ("z", b"az")],
        "b": [("y", b"by"), ("x", b"bx")],
        "c": [("w", b"cw"), ("y", b"cy"), ("x", b"cx")],
    }
    a, b, c = (member(s, label, protocols=offers[label]) for label in offers)
    a.settle()
    b.get_id()
    c.get_id()
    with (
        s.waiting_for("b", "join_group", b.join(), edit=b.known_as),
        s.waiting_for("c", "join_group", c.join(), edit=c.known_as),
    ):
        a.await_state("PreparingRebalance")
        s.ask("a", "join_group", a.join(), edit=a.known_as)


@scenario("join_group", versions=range(5, 10))
def join_group_of_static_members(s: Session, version: int) -> None:
    ready(s)
    a = member(s, "a", instance_id="i-a")
    s.ask("first", "join_group", a.join(), edit=a.known_as)
    first = member(s, "a", member_id=a.member_id, generation=a.generation, instance_id="i-a")
    s.ask("assignment", "sync_group", a.sync({a.member_id: b"for a"}), version=min(version, 5))
    again = member(s, "a2", instance_id="i-a")
    s.ask("started again", "join_group", again.join(), edit=again.known_as)
    s.ask("its assignment", "sync_group", again.sync(), version=min(version, 5))
    s.ask("older self joins", "join_group", first.join())
    s.ask("older self syncs", "sync_group", first.sync(), version=min(version, 5))
    s.ask("older self beats", "heartbeat", first.who(), version=min(version - 1, 4))
    s.ask("older self leaves", "leave_group", first.leave(), version=min(version - 2, 5))
    s.ask("wrong instance beats", "heartbeat", again.who(group_instance_id="nobody"), version=min(version - 1, 4))
    other = [("range", b"other")]
    last = member(s, "a3", instance_id="i-a")
    s.ask("again with other metadata", "join_group", last.join(protocols=other), edit=last.known_as)
    more = [("sticky", b"s"), *RANGE]
    s.ask("again with more protocols", "join_group", last.join(member_id="", protocols=more), edit=last.known_as)
    s.ask("again before the sync", "join_group", last.join(member_id=""), edit=last.known_as)
    s.ask("described", "describe_groups", {"groups": [a.group]}, version=6)


@scenario("sync_group")
def sync_group(s: Session, version: int) -> None:
    ready(s)
    a = member(s)
    s.ask("no group id", "sync_group", a.sync(group_id=""))
    s.ask("unknown group", "sync_group", a.sync(member_id="nobody"))
    a.enter()
    s.ask("unknown member", "sync_group", a.sync(member_id="nobody"))
    s.ask("no member", "sync_group", a.sync(member_id=""))
    s.ask("older generation", "sync_group", a.sync(generation_id=0))
    s.ask("later generation", "sync_group", a.sync(generation_id=2))
    if version >= 3:
        s.ask("unknown instance", "sync_group", a.sync(group_instance_id="i"))
    if version >= 5:
        s.ask("another type", "sync_group", a.sync(protocol_type="connect"))
        s.ask("another protocol", "sync_group", a.sync(protocol_name="sticky"))
        s.ask("no type", "sync_group", a.sync(protocol_type=None))
        s.ask("no protocol", "sync_group", a.sync(protocol_name=None))
    s.ask("assignment", "sync_group", a.sync({a.member_id: b"mine", "nobody": b"theirs"}))
    s.ask("again", "sync_group", a.sync({a.member_id: b"other"}))
    s.ask("again without", "sync_group", a.sync())
    b = member(s, "b", "second").enter()
    s.ask("no assignment", "sync_group", b.sync())
    s.send("leave_group", a.leave())
    s.ask("after leaving", "sync_group", a.sync())


@scenario("heartbeat")
def heartbeat(s: Session, version: int) -> None:
    ready(s)
    a = member(s)
    s.ask("no group id", "heartbeat", a.who(group_id=""))
    s.ask("unknown group", "heartbeat", a.who(member_id="nobody"))
    a.get_id()
    s.ask("before joining", "heartbeat", a.who())
    a.enter()
    s.ask("before the sync", "heartbeat", a.who())
    s.send("sync_group", a.sync())
    s.ask("settled", "heartbeat", a.who())
    s.ask("older generation", "heartbeat", a.who(generation_id=0))
    s.ask("no generation", "heartbeat", a.who(generation_id=-1))
    s.ask("later generation", "heartbeat", a.who(generation_id=7))
    s.ask("unknown member", "heartbeat", a.who(member_id="nobody"))
    s.ask("no member", "heartbeat", a.who(member_id=""))
    if version >= 3:
        s.ask("unknown instance", "heartbeat", a.who(group_instance_id="i"))
    s.send("leave_group", a.leave())
    s.ask("after leaving", "heartbeat", a.who())


@scenario("leave_group")
def leave_group(s: Session, version: int) -> None:
    ready(s)
    a = member(s)
    s.ask("no group id", "leave_group", {**a.leave(), "group_id": ""})
    s.ask("unknown group", "leave_group", {**a.leave(), "member_id": "x", "members": [{"member_id": "x"}]})
    a.get_id()
    s.ask("before joining", "leave_group", a.leave())
    a.member_id = ""
    a.settle()
    s.ask("unknown member", "leave_group", {**a.leave(), "member_id": "x", "members": [{"member_id": "x"}]})
    s.ask("no member", "leave_group", {**a.leave(), "member_id": "", "members": [{"member_id": ""}]})
    s.ask("the member", "leave_group", a.leave())
    s.ask("again", "leave_group", a.leave())
    s.ask("what is left", "describe_groups", {"groups": [a.group]}, version=6)


@scenario("leave_group", versions=range(3, 6))
def leave_group_of_many(s: Session, version: int) -> None:
    ready(s)
    a = member(s, "a", instance_id="i-a").settle()
    b = member(s, "b", instance_id="i-b")
    with s.waiting_for("b joins", "join_group", b.join(), version=9, edit=b.known_as):
        a.await_state("PreparingRebalance")
        a.known_as(s.send("join_group", a.join()))

    def leave(step: str, *who: tuple[str, str | None]) -> None:
        members = [{"member_id": each, "group_instance_id": instance} for each, instance in who]
        s.ask(step, "leave_group", {"group_id": a.group, "members": members}, ordered=True)

    leave("nobody")
    leave("unknown instance", ("", "nobody"))
    leave("wrong instance", (a.member_id, "i-b"))
    leave("wrong id", ("nobody", "i-a"))
    leave("by instance, and by nothing", ("", "i-a"), ("", None), ("", "i-a"))
    leave("the other", (b.member_id, "i-b"), (b.member_id, None))
    s.ask("what is left", "describe_groups", {"groups": [a.group]}, version=6)


@scenario("join_group", versions=range(4, 10))
def members_that_go(s: Session, version: int) -> None:
    """A member that was told its id keeps the others waiting until it joins, leaves or is given up."""
    ready(s)
    a, b = member(s, "a").settle(), member(s, "b").get_id()
    with s.waiting_for("the first", "join_group", a.join(), edit=a.known_as):
        a.await_state("PreparingRebalance")
        s.ask("the other leaves", "leave_group", b.leave(), version=min(version, 5))
    s.ask("the other comes late", "join_group", b.join(session_timeout=SESSION_MS))

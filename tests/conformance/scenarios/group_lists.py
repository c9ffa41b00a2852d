"""DescribeGroups, ListGroups and DeleteGroups."""

from typing import Any

from tests.conformance.group_members import GroupMember
from tests.conformance.scenario import scenario
from tests.conformance.scenarios.committed_offsets import fetched, of
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session


def in_every_state(s: Session) -> dict[str, GroupMember]:
    """A group in each state that can be held without waiting, by the state's name."""
    await_groups(s, *(s.topic_name(name) for name in ("stable", "completing", "simple", "empty", "pending", "connect")))
    topic = s.create("t")
    stable = GroupMember(s, "stable", "stable").settle()
    completing = GroupMember(s, "completing", "completing").enter()
    simple = GroupMember(s, "simple", "simple")
    s.send("offset_commit", simple.commit(of(topic, (0, 1, -1, ""))))
    empty = GroupMember(s, "empty", "empty").settle()
    s.send("leave_group", empty.leave())
    pending = GroupMember(s, "pending", "pending").get_id()
    connect = GroupMember(s, "connect", "connect", instance_id="i", protocol_type="connect").settle()
    return {each.group_label: each for each in (stable, completing, simple, empty, pending, connect)}


@scenario("describe_groups")
def describe_groups(s: Session, version: int) -> None:
    groups = in_every_state(s)

    def describe(step: str, *names: str, **more: Any) -> None:
        s.ask(step, "describe_groups", {"groups": list(names), **more}, ordered=True)

    describe("none")
    for label, member in groups.items():
        describe(label, member.group)
    describe("unknown", s.topic_name("missing"))
    describe("no name", "")
    describe("several", groups["empty"].group, s.topic_name("missing"), groups["stable"].group)
    describe("twice", groups["empty"].group, groups["empty"].group)
    if version >= 3:
        describe("operations", groups["empty"].group, s.topic_name("missing"), include_authorized_operations=True)
    stable, late = groups["stable"], GroupMember(s, "late", "stable").get_id()
    with s.waiting_for("late joins", "join_group", late.join(), version=9, edit=late.known_as):
        stable.await_state("PreparingRebalance")
        describe("preparing", stable.group)
        s.send("leave_group", stable.leave())


@scenario("list_groups")
def list_groups(s: Session, version: int) -> None:
    in_every_state(s)

    def own(answer: Any) -> Any:
        mine = [group for group in answer["groups"] if group["group_id"].startswith(s.normaliser.prefix)]
        return {**answer, "groups": mine}

    s.ask("all", "list_groups", {}, edit=own)
    for states in (["Stable"], ["stable", "EMPTY"], ["CompletingRebalance"], ["Dead"], ["nonsense"], [""]):
        if version >= 4:
            s.ask(f"states {states}", "list_groups", {"states_filter": states}, edit=own)
    for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"], [""], ["consumer", "classic"], ["share"]):
        if version >= 5:
            s.ask(f"types {types}", "list_groups", {"types_filter": types}, edit=own)
    if version >= 5:
        s.ask("both", "list_groups", {"types_filter": ["classic"], "states_filter": ["Empty"]}, edit=own)


@scenario("delete_groups")
def delete_groups(s: Session, version: int) -> None:
    groups = in_every_state(s)

    def delete(step: str, *names: str) -> None:
        s.ask(step, "delete_groups", {"groups_names": list(names)})

    delete("none")
    delete("unknown", s.topic_name("missing"))
    delete("no name", "")
    for label, member in groups.items():
        delete(label, member.group)
    delete("again, and others", groups["empty"].group, groups["stable"].group, s.topic_name("missing"))
    delete("twice", groups["simple"].group, groups["simple"].group)
    fetched(s, "of a deleted group", groups["simple"].group)
    names = [member.group for member in groups.values()]
    s.ask("what is left", "describe_groups", {"groups": names}, version=6)
    s.ask("a pending member comes late", "join_group", groups["pending"].join(), version=9)

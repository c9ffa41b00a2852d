"""OffsetCommit, OffsetFetch of what was committed, and OffsetDelete."""

from typing import Any

from tests.conformance.group_members import GroupMember, subscription
from tests.conformance.scenario import scenario
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session, Topic, as_uuid

UNKNOWN = "00000000-0000-4000-8000-000000000001"
FETCH_VERSION = 9


def of(topic: Topic, *partitions: tuple[int, int, int, str | None]) -> Any:
    fields = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    wanted = [dict(zip(fields, partition, strict=True)) for partition in partitions]
    return {"name": topic.name, "topic_id": as_uuid(topic.id), "partitions": wanted}


def fetched(s: Session, step: str, group: str) -> None:
    asked = {"groups": [{"group_id": group, "topics": None}]}
    s.ask(f"{step}: fetched", "offset_fetch", asked, version=FETCH_VERSION)


@scenario("offset_commit")
def offset_commit_without_members(s: Session, version: int) -> None:
    await_groups(s, s.topic_name("group"), "")
    topic, other = s.create("a", 3), s.create("b")
    missing = Topic(s.topic_name("missing"), UNKNOWN)
    a = GroupMember(s, "a")

    def commit(step: str, *topics: Any, **changes: Any) -> None:
        s.ask(step, "offset_commit", a.commit(*topics, **changes), ordered=True)

    commit("nothing")
    commit("an offset", of(topic, (0, 5, 3, "note")))
    commit("again, without metadata", of(topic, (0, 6, -1, None)))
    commit("several", of(other, (0, 1, -1, "")), of(topic, (2, 2, 0, "two"), (1, 3, 1, "one")))
    commit("a partition twice", of(topic, (0, 7, -1, "first"), (0, 8, -1, "second")))
    commit("a topic twice", of(topic, (0, 9, -1, "")), of(topic, (1, 9, -1, "")))
    commit("unknown topic", of(missing, (0, 1, -1, "")), of(topic, (0, 10, -1, "")))
    commit("unknown partition", of(topic, (7, 1, -1, ""), (0, 11, -1, ""), (-1, 1, -1, "")))
    commit("no topic id", of(Topic("", None), (0, 1, -1, "")))
    commit("illegal name", of(Topic("a b", topic.id), (0, 1, -1, "")))
    commit("no partitions", of(topic))
    commit("metadata of 4096", of(topic, (0, 12, -1, "x" * 4096)))
    commit("metadata of 4097", of(topic, (0, 13, -1, "x" * 4097), (1, 13, -1, "")))
    commit("metadata of 4096 letters", of(topic, (0, 14, -1, "ä" * 4096)))
    commit("metadata of 2049 pairs", of(topic, (0, 15, -1, "😀" * 2049)))
    commit("negative offset", of(topic, (0, -1, -1, "")))
    commit("smallest offset", of(topic, (0, -(2**63), -1, "")))
    commit("largest offset", of(topic, (0, 2**63 - 1, 2**31 - 1, "")))
    commit("retention", of(topic, (0, 16, -1, "")), retention_time=60_000)
    fetched(s, "in the end", a.group)
    commit("group without a name", of(topic, (0, 5, -1, "")), group_id="")
    commit("unknown member", of(topic, (0, 1, -1, "")), member_id="nobody")
    commit("a generation", of(topic, (0, 1, -1, "")), generation_id_or_member_epoch=1)
    one = of(topic, (0, 1, -1, ""))
    unknown = s.topic_name("unknown")
    commit("unknown member at a generation", one, generation_id_or_member_epoch=1, member_id="x")
    commit("unknown group at a generation", one, generation_id_or_member_epoch=1, group_id=unknown)
    commit("unknown group, unknown member", one, member_id="nobody", group_id=unknown)
    if version >= 7:
        commit("unknown instance", of(topic, (0, 1, -1, "")), group_instance_id="nobody")
    s.ask("listed", "describe_groups", {"groups": [a.group]}, version=6)


@scenario("offset_commit")
def offset_commit_by_members(s: Session, version: int) -> None:
    await_groups(s, s.topic_name("group"))
    topic = s.create("a")
    a = GroupMember(s, "a", instance_id="i").enter()

    def commit(step: str, offset: int, **changes: Any) -> None:
        changes.setdefault("group_instance_id", None if version < 7 else "i")
        s.ask(step, "offset_commit", a.commit(of(topic, (0, offset, -1, "")), **changes))

    commit("before the sync", 1)
    s.send("sync_group", a.sync())
    commit("settled", 2)
    commit("older generation", 3, generation_id_or_member_epoch=0)
    commit("later generation", 3, generation_id_or_member_epoch=2)
    commit("no generation", 4, generation_id_or_member_epoch=-1)
    commit("nobody", 5, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)
    commit("unknown member", 6, member_id="nobody")
    if version >= 7:
        commit("unknown instance", 7, group_instance_id="nobody")
        commit("without its instance", 8, group_instance_id=None)
        commit("fenced", 9, member_id="older")
    fetched(s, "in the end", a.group)
    b = GroupMember(s, "b").get_id()
    with s.waiting_for("b joins", "join_group", b.join(), version=9, edit=b.known_as):
        a.await_state("PreparingRebalance")
        commit("while preparing", 10)
        s.send("leave_group", a.leave())
    commit("after leaving", 11)


@scenario("offset_fetch")
def offset_fetch_of_commits(s: Session, version: int) -> None:
    await_groups(s, s.topic_name("group"))
    topic, other = s.create("a", 3), s.create("b")
    a = GroupMember(s, "a")
    s.send("offset_commit", a.commit(of(topic, (0, 5, 3, "note"), (2, 7, -1, None)), of(other, (0, 9, 0, ""))))

    def ask(step: str, topics: Any, **more: Any) -> None:
        if version >= 8:
            content: Any = {"groups": [{"group_id": a.group, "topics": topics}], **more}
        else:
            plain = topics and [{key: each[key] for key in ("name", "partition_indexes")} for each in topics]
            content = {"group_id": a.group, "topics": plain, **more}
        s.ask(step, "offset_fetch", content)

    def wanted(of_topic: Topic, *indexes: int) -> Any:
        return {"name": of_topic.name, "topic_id": as_uuid(of_topic.id), "partition_indexes": list(indexes)}

    ask("all partitions", [wanted(topic, 0, 1, 2), wanted(other, 0)])
    ask("unknown partition", [wanted(topic, 0, 7)])
    if version >= 2:
        ask("all topics", None)
    if version >= 7:
        ask("stable", [wanted(topic, 0)], require_stable=True)
    s.send("delete_topics", {"topics": [{"name": None, "topic_id": as_uuid(other.id)}], "timeout": 5000})
    s.until(lambda: not s.is_known(other.name), "the end of a topic")

    def forgotten() -> bool:
        answer = s.send("offset_fetch", {"groups": [{"group_id": a.group, "topics": None}]}, version=FETCH_VERSION)
        return len(answer["groups"][0]["topics"]) == 1

    s.until(forgotten, "the end of a topic's offsets")
    if version >= 2:
        ask("all topics after a deletion", None)
    if version < 10:
        ask("the deleted topic", [wanted(other, 0)])


@scenario("offset_delete")
def offset_delete(s: Session, version: int) -> None:
    await_groups(s, s.topic_name("group"))
    topic, other = s.create("a", 2), s.create("b")
    a = GroupMember(s, "a")

    def delete(step: str, *topics: tuple[str, list[int]], group: str = a.group) -> None:
        named = [
            {"name": name, "partitions": [{"partition_index": index} for index in wanted]} for name, wanted in topics
        ]
        s.ask(step, "offset_delete", {"group_id": group, "topics": named})

    delete("unknown group", (topic.name, [0]))
    delete("no group", (topic.name, [0]), group="")
    delete("unknown group, unknown topic", ("missing", [0]))
    s.send("offset_commit", a.commit(of(topic, (0, 5, -1, ""), (1, 6, -1, "")), of(other, (0, 9, -1, ""))))
    delete("nothing")
    delete("no partitions", (topic.name, []))
    delete("an offset", (topic.name, [0]))
    delete("again", (topic.name, [0]))
    delete("unknown topic and partition", (s.topic_name("missing"), [0]), (topic.name, [7, -1, 1]))
    delete("twice", (other.name, [0, 0]))
    fetched(s, "in the end", a.group)
    s.send("offset_commit", a.commit(of(topic, (0, 5, -1, "")), of(other, (0, 9, -1, ""))))
    a.protocols = [("range", subscription(topic.name))]
    a.settle()
    delete("subscribed and not", (topic.name, [0]), (other.name, [0]))
    fetched(s, "subscribed", a.group)
    b = GroupMember(s, "b", "second", protocol_type="connect").settle()
    delete("members that do not consume", (topic.name, [0]), group=b.group)
    c = GroupMember(s, "c", "third", protocols=[("range", b"?")]).settle()
    delete("members with unreadable subscriptions", (topic.name, [0]), group=c.group)

"""Groups of the consumer protocol: heartbeats, reconciliation, static members, expressions, descriptions, commits.

The groups have an assignment interval of 0, so that each answer shows what the request has caused.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session, Topic, as_uuid

Plain = Any
_GROUP_RESOURCE = 32
_SET = 0
TIMEOUT_MS = 300_000


def open_group(s: Session, label: str = "group") -> str:
    group = s.topic_name(label)
    await_groups(s, group)
    config = {"name": "consumer.assignment.interval.ms", "config_operation": _SET, "value": "0"}
    resource = {"resource_type": _GROUP_RESOURCE, "resource_name": group, "configs": [config]}
    answer = s.send("incremental_alter_configs", {"resources": [resource]})
    assert answer["responses"][0]["error_code"] == "NONE", answer
    return group


def places(*owned: tuple[Topic, list[int]]) -> Plain:
    return [{"topic_id": as_uuid(topic.id), "partitions": indexes} for topic, indexes in owned]


@dataclass(slots=True)
class Asker:
    """Heartbeats of one group; each can be wrong in its own way."""

    session: Session
    group: str
    topics: list[str] = field(default_factory=list)

    def heartbeat(self, step: str, member: str, epoch: int, **more: Plain) -> Plain:
        return self.session.ask(step, "consumer_group_heartbeat", self._content(member, epoch, **more))

    def heartbeat_until(self, epoch_after: int, step: str, member: str, epoch: int, **more: Plain) -> None:
        """Coordinators hear of changed topics a little later than clients do."""
        content = self._content(member, epoch, **more)
        self.session.ask_until(
            step, "consumer_group_heartbeat", content, lambda answer: answer["member_epoch"] == epoch_after
        )

    def _content(self, member: str, epoch: int, **more: Plain) -> Plain:
        content = {"group_id": self.group, "member_id": member, "member_epoch": epoch, "rebalance_timeout": -1}
        return {**content, "topic_partitions": None, **more}

    def join(self, step: str, member: str, **more: Plain) -> Plain:
        wanted = {"subscribed_topic_names": self.topics, "rebalance_timeout": TIMEOUT_MS, "topic_partitions": []}
        return self.heartbeat(step, member, 0, **{**wanted, **more})


@scenario("consumer_group_heartbeat")
def consumer_group_of_two(s: Session, version: int) -> None:
    topic, other = s.create("a", 4), s.create("b", 2)
    g = Asker(s, open_group(s), [topic.name])
    g.heartbeat("nobody there", "m1", 1)
    g.heartbeat("leaving an unknown group", "m1", -1)
    g.join("first joins", "m1")
    g.join("first joins again", "m1")
    g.heartbeat("nothing new", "m1", 2)
    everything = {"rebalance_timeout": TIMEOUT_MS, "subscribed_topic_names": [topic.name]}
    g.heartbeat("tells everything", "m1", 2, topic_partitions=places((topic, [0, 1, 2, 3])), **everything)
    g.heartbeat("old epoch", "m1", 1)
    g.heartbeat("epoch of the future", "m1", 9)
    g.heartbeat("unknown member", "mx", 2)
    g.heartbeat("unknown member leaves", "mx", -1)
    g.join("second joins", "m2")
    g.heartbeat("first must revoke", "m1", 2)
    g.heartbeat("first is asked again", "m1", 2)
    g.heartbeat("second waits", "m2", 3)
    g.heartbeat("first has revoked a part", "m1", 2, topic_partitions=places((topic, [0, 1, 2])))
    g.heartbeat("first has revoked all", "m1", 2, topic_partitions=places((topic, [0, 1])))
    g.heartbeat("first missed the answer", "m1", 2)
    g.heartbeat("first missed it and owns its own", "m1", 2, topic_partitions=places((topic, [0, 1])))
    g.heartbeat("first missed it and owns too much", "m1", 2, topic_partitions=places((topic, [0, 1, 2])))
    g.heartbeat("second gets the rest", "m2", 3)
    g.heartbeat("second wants another topic", "m2", 3, subscribed_topic_names=[other.name])
    g.heartbeat("second has revoked", "m2", 3, topic_partitions=places((other, [0, 1])))
    g.heartbeat("second is complete", "m2", 4, topic_partitions=places((other, [0, 1])))
    g.heartbeat("first has all again", "m1", 3)
    g.heartbeat("second leaves", "m2", -1)
    g.heartbeat("second is gone", "m2", 4)
    g.heartbeat("first goes on", "m1", 4)
    g.heartbeat("first leaves", "m1", -1)
    g.heartbeat("the group is empty", "m1", 5)


@scenario("consumer_group_heartbeat")
def consumer_group_follows_topics(s: Session, version: int) -> None:
    topic = s.create("a", 2)
    g = Asker(s, open_group(s), [topic.name, s.topic_name("later")])
    g.join("joins", "m1")
    later = s.create("later", 1)
    g.heartbeat_until(3, "a topic appears", "m1", 2, topic_partitions=places((topic, [0, 1])))
    wanted = {"name": topic.name, "count": 3, "assignments": None}
    s.send("create_partitions", {"topics": [wanted], "timeout": 5000, "validate_only": False})
    s.until(lambda: s.is_served(topic.name, 3), "a third partition")
    g.heartbeat_until(4, "a topic grows", "m1", 3, topic_partitions=places((topic, [0, 1]), (later, [0])))


@scenario("consumer_group_heartbeat")
def consumer_group_heartbeats_refused(s: Session, version: int) -> None:
    topic = s.create("a", 1)
    group = open_group(s)
    g = Asker(s, group, [topic.name])
    Asker(s, "", [topic.name]).join("no group", "m")
    Asker(s, " ", [topic.name]).join("blank group", "m")
    if version > 0:
        g.join("no member id", "")
    g.heartbeat("no member id, later", "", 1)
    g.join("blank member id", " ")
    g.join("no time-out", "m", rebalance_timeout=-1)
    g.join("time-out of 0", "m", rebalance_timeout=0)
    g.heartbeat("which leaves", "m", -1)
    g.join("owned is null", "m", topic_partitions=None)
    g.join("owns a partition", "m", topic_partitions=places((topic, [0])))
    g.join("no subscription", "m", subscribed_topic_names=None)
    g.join("unknown assignor", "m", server_assignor="foo")
    g.join("assignor without a name", "m", server_assignor="")
    g.join("instance without a name", "m", instance_id="")
    g.join("rack without a name", "m", rack_id="")
    g.heartbeat("epoch -2 without an instance", "m", -2)
    g.heartbeat("epoch -3", "m", -3)
    g.heartbeat("lowest epoch", "m", -(2**31))
    g.heartbeat("all at once", "", -3, instance_id="", rack_id="", server_assignor="")
    g.join("no topics", "m", subscribed_topic_names=[])
    g.join("unknown topic", "m", subscribed_topic_names=[s.topic_name("missing")])
    g.join("a topic twice", "m", subscribed_topic_names=[topic.name, topic.name])
    g.heartbeat("unknown topic owned", "m", 3, topic_partitions=[{"topic_id": uuid.UUID(int=7), "partitions": [1]}])


@scenario("consumer_group_heartbeat")
def consumer_group_static_members(s: Session, version: int) -> None:
    topic, other = s.create("a", 4), s.create("b", 1)
    g = Asker(s, open_group(s), [topic.name])
    g.join("joins", "s1", instance_id="i1")
    g.join("its place is taken", "s2", instance_id="i1")
    g.heartbeat("as another instance", "s1", 2, instance_id="i2")
    g.heartbeat("without its instance", "s1", 2)
    g.heartbeat("unknown instance leaves for a while", "s1", -2, instance_id="i9")
    g.heartbeat("somebody else leaves for it", "sx", -2, instance_id="i1")
    g.heartbeat("leaves for a while", "s1", -2, instance_id="i1")
    g.heartbeat("is away", "s1", 2, instance_id="i1")
    g.join("another takes its place", "s2", instance_id="i1")
    g.heartbeat("the first one is fenced", "s1", 2, instance_id="i1")
    g.heartbeat("the new one goes on", "s2", 2, instance_id="i1")
    g.heartbeat("leaves for a while again", "s2", -2, instance_id="i1")
    g.join("comes back under its id", "s2", instance_id="i1")
    g.heartbeat("leaves a third time", "s2", -2, instance_id="i1")
    g.join("comes back with other wishes", "s3", instance_id="i1", subscribed_topic_names=[other.name])
    g.heartbeat("leaves for good", "s3", -1, instance_id="i1")


@scenario("consumer_group_heartbeat", versions=[1])
def consumer_group_expressions(s: Session, version: int) -> None:
    one = s.create("one", 2)
    prefix = s.normaliser.prefix
    g = Asker(s, open_group(s))
    none = {"subscribed_topic_names": None}
    for regex in ("(", "[a", "a**", "\\", "*a", "x{2,1}", "(?i", "[z-a]", "\\8", "(?=a)", "a++", "(?P<a"):
        g.join(f"broken: {regex}", "m", subscribed_topic_regex=regex, **none)
    g.join("empty", "m", subscribed_topic_regex="", **none)
    g.join("expression", "m", subscribed_topic_regex=prefix + "o.*", **none)

    def assigned() -> bool:
        asked = {"group_ids": [g.group]}
        return bool(s.send("consumer_group_describe", asked)["groups"][0]["group_epoch"] > 1)

    s.until(assigned, "topics of the expression")
    g.heartbeat("its topics", "m", 1)
    g.heartbeat("no expression any more", "m", 2, subscribed_topic_regex="", topic_partitions=places((one, [0, 1])))
    g.heartbeat("all is revoked", "m", 2, topic_partitions=[])


@scenario("consumer_group_describe")
def consumer_group_describe(s: Session, version: int) -> None:
    topic = s.create("a", 3)
    group = open_group(s)
    g = Asker(s, group, [topic.name])

    def describe(step: str, *groups: str, **more: Plain) -> None:
        s.ask(step, "consumer_group_describe", {"group_ids": list(groups), **more}, only_own=False)

    def beat(member: str, epoch: int, **more: Plain) -> None:
        content = {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout": -1}
        s.send("consumer_group_heartbeat", {**content, "topic_partitions": None, **more})

    joining = {"subscribed_topic_names": g.topics, "rebalance_timeout": TIMEOUT_MS, "topic_partitions": []}
    describe("unknown", group)
    describe("without a name", "")
    describe("none")
    beat("m1", 0, rack_id="rack", **joining)
    describe("one member", group)
    describe("with operations", group, include_authorized_operations=True)
    describe("two groups", group, s.topic_name("missing"), include_authorized_operations=True)
    beat("m2", 0, instance_id="instance", server_assignor="range", **joining)
    describe("a second member", group)
    beat("m1", 2)
    describe("the first must revoke", group)
    beat("m1", 2, topic_partitions=places((topic, [0, 1])))
    describe("the first has revoked", group)
    beat("m2", 3)
    describe("both have theirs", group)
    beat("m2", -2, instance_id="instance")
    describe("the second is away", group)
    beat("m2", -1, instance_id="instance")
    beat("m1", -1)
    describe("empty", group)


@scenario("offset_commit", versions=range(9, 11))
def consumer_group_commits(s: Session, version: int) -> None:
    topic = s.create("a", 2)
    group = open_group(s)

    def beat(member: str, epoch: int, **more: Plain) -> None:
        content = {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout": -1}
        s.send("consumer_group_heartbeat", {**content, "topic_partitions": None, **more})

    def commit(step: str, member: str, epoch: int, *indexes: int) -> None:
        partitions = [{"partition_index": index, "committed_offset": 0, "committed_metadata": ""} for index in indexes]
        topics = [{"name": topic.name, "topic_id": as_uuid(topic.id), "partitions": partitions}]
        asked = {"group_id": group, "generation_id_or_member_epoch": epoch, "member_id": member, "topics": topics}
        s.ask(step, "offset_commit", asked)

    def fetch(step: str, member: str | None, epoch: int) -> None:
        topics = [{"name": topic.name, "topic_id": as_uuid(topic.id), "partition_indexes": [0]}]
        asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": topics}
        s.ask(step, "offset_fetch", {"groups": [asked]})

    joining = {"subscribed_topic_names": [topic.name], "rebalance_timeout": TIMEOUT_MS, "topic_partitions": []}
    beat("m1", 0, **joining)
    commit("at its epoch", "m1", 2, 0, 1)
    commit("at an older epoch", "m1", 1, 0)
    commit("at a later epoch", "m1", 3, 0)
    commit("unknown member", "mx", 2, 0)
    commit("nobody", "", -1, 0)
    commit("without an epoch", "m1", -1, 0)
    beat("m2", 0, **joining)
    beat("m1", 2)
    commit("while it revokes", "m1", 2, 0, 1)
    beat("m1", 2, topic_partitions=places((topic, [0])))
    commit("overtaken, of what it kept", "m1", 2, 0)
    commit("overtaken, of what it lost", "m1", 2, 1)
    commit("overtaken, of both", "m1", 2, 0, 1)
    beat("m2", 3)
    commit("of somebody else's partition", "m2", 3, 0)
    fetch("by nobody", None, -1)
    fetch("by a member", "m1", 3)
    fetch("at an older epoch, fetched", "m1", 2)
    fetch("by an unknown member", "mx", 3)
    fetch("without an epoch, fetched", "m1", -1)
    fetch("by no name", "", -1)

"""Metadata, DescribeTopicPartitions and DescribeCluster: what a client learns before it does anything else."""

import uuid

from tests.conformance.scenario import scenario
from tests.conformance.session import Session, as_uuid

UNKNOWN_ID = uuid.UUID("12345678-1234-4234-8234-123456789abc")
ZERO_ID = None


@scenario("metadata")
def metadata_of_topics(s: Session, version: int) -> None:
    topic, other = s.create("a", partitions=3), s.create("b")
    quiet = {"allow_auto_topic_creation": False}
    s.ask("one topic", "metadata", {"topics": [{"name": topic.name}], **quiet})
    s.ask("two topics", "metadata", {"topics": [{"name": topic.name}, {"name": other.name}], **quiet})
    s.ask("the same topic twice", "metadata", {"topics": [{"name": topic.name}, {"name": topic.name}], **quiet})
    s.ask("empty list", "metadata", {"topics": [], **quiet}, only_own=True)
    s.ask("null list", "metadata", {"topics": None, **quiet}, only_own=True)
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    s.ask("authorized operations", "metadata", {"topics": [{"name": topic.name}], **quiet, **operations})


@scenario("metadata", versions=range(4, 14))
def metadata_of_missing_topics(s: Session, version: int) -> None:
    quiet = {"allow_auto_topic_creation": False}
    s.ask("unknown topic", "metadata", {"topics": [{"name": s.topic_name("missing")}], **quiet})
    known = s.create("known")
    mixed = [{"name": s.topic_name("missing")}, {"name": known.name}, {"name": "bad name"}]
    s.ask("unknown, known and illegal", "metadata", {"topics": mixed, **quiet})
    s.ask("illegal, creation forbidden", "metadata", {"topics": [{"name": "a/b"}], **quiet})
    s.ask("operations of an unknown topic", "metadata", {
        "topics": [{"name": s.topic_name("missing")}], "include_topic_authorized_operations": True, **quiet,
    })  # fmt: skip


@scenario("metadata")
def metadata_that_creates(s: Session, version: int) -> None:
    name = s.topic_name("fresh")
    s.ask("first answer", "metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": True})
    s.until(lambda: s.is_known(name), f"creation of {name}")
    s.until(lambda: s.is_served(name, 4), f"a leader for {name}")
    s.ask("created topic", "metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": True})
    for label, illegal in (
        ("space", "a b"), ("slash", "a/b"), ("colon", "a:b"), ("dot", "."), ("two dots", ".."), ("empty", ""),
        ("too long", "x" * 250), ("umlaut", "größe"), ("line break", "a\nb"), ("nul", "a\x00b"),
    ):  # fmt: skip
        s.ask(f"illegal name: {label}", "metadata", {"topics": [{"name": illegal}], "allow_auto_topic_creation": True})
    long = s.topic_name("")
    longest = long + "x" * (249 - len(long))
    s.ask("longest legal name", "metadata", {"topics": [{"name": longest}], "allow_auto_topic_creation": True})


@scenario("metadata", versions=range(10, 14))
def metadata_by_id(s: Session, version: int) -> None:
    topic = s.create("a", partitions=2)
    known, quiet = as_uuid(topic.id), {"allow_auto_topic_creation": False}
    name = None if version >= 12 else ""
    s.ask("by id", "metadata", {"topics": [{"topic_id": known, "name": name}], **quiet})
    s.ask("by id and name", "metadata", {"topics": [{"topic_id": known, "name": topic.name}], **quiet})
    s.ask("by id and another name", "metadata", {"topics": [{"topic_id": known, "name": s.topic_name("b")}], **quiet})
    s.ask("unknown id", "metadata", {"topics": [{"topic_id": UNKNOWN_ID, "name": name}], **quiet})
    s.ask("no id and no name", "metadata", {"topics": [{"topic_id": ZERO_ID, "name": name}], **quiet})
    both = [{"topic_id": known, "name": name}, {"topic_id": ZERO_ID, "name": topic.name}]
    s.ask("one by id, one by name", "metadata", {"topics": both, **quiet})
    ids = [{"topic_id": known, "name": name}, {"topic_id": UNKNOWN_ID, "name": name}]
    s.ask("a known and an unknown id", "metadata", {"topics": ids, **quiet})
    s.ask("an id twice", "metadata", {"topics": [ids[0], ids[0]], **quiet})
    others = [ids[0], {"topic_id": ZERO_ID, "name": s.create("other").name}]
    s.ask("one by id, another by name", "metadata", {"topics": others, **quiet})
    s.ask("one by id, one by nothing", "metadata", {"topics": [ids[0], {"topic_id": ZERO_ID, "name": name}], **quiet})
    s.send("delete_topics", {"topics": [{"name": topic.name}], "timeout": 5000})
    s.until(lambda: not s.is_known(topic.name), "deletion")
    s.ask("id of a deleted topic", "metadata", {"topics": [{"topic_id": known, "name": name}], **quiet})


@scenario("describe_topic_partitions")
def describe_topic_partitions(s: Session, version: int) -> None:
    names = [s.create(label, partitions=3).name for label in ("a", "b", "c")]
    wanted = [{"name": name} for name in reversed(names)]

    def ask(step: str, **more: object) -> None:
        s.ask(step, "describe_topic_partitions", {"topics": wanted, **more}, ordered=True)

    ask("three topics")
    for limit in (1, 2, 3, 4, 8, 9, 0, -1, 5000):
        ask(f"limit {limit}", response_partition_limit=limit)
    for index in (0, 1, 2, 3, 100, -1):
        ask(f"cursor at partition {index} of b", cursor={"topic_name": names[1], "partition_index": index})
    ask("cursor and limit", cursor={"topic_name": names[1], "partition_index": 1}, response_partition_limit=3)
    ask("cursor before all", cursor={"topic_name": "!", "partition_index": 0})
    ask("cursor between", cursor={"topic_name": names[1] + "x", "partition_index": 2})
    ask("cursor after all", cursor={"topic_name": "zzz", "partition_index": 0})
    ask("cursor with empty name", cursor={"topic_name": "", "partition_index": 0})
    for label, asked in (("another topic", [wanted[0], wanted[2]]), ("one of all topics", [])):
        content = {"topics": asked, "cursor": {"topic_name": names[1], "partition_index": 1}}
        s.ask(f"cursor at {label}", "describe_topic_partitions", content, only_own=True, ordered=True)
    beyond = {"topics": [], "cursor": {"topic_name": names[1] + "x", "partition_index": 1}}
    s.ask("cursor between all topics", "describe_topic_partitions", beyond, only_own=True, ordered=True)
    beyond = {"topics": [], "cursor": {"topic_name": names[1], "partition_index": -1}}
    s.ask("negative cursor into all topics", "describe_topic_partitions", beyond, only_own=True, ordered=True)
    for label, name in (
        ("unknown", s.topic_name("missing")),
        ("illegal", "a b"),
        ("empty", ""),
        ("too long", "x" * 250),
    ):
        content = {"topics": [{"name": name}, {"name": names[0]}]}
        s.ask(f"known and {label} name", "describe_topic_partitions", content, ordered=True)
    s.ask("a topic twice", "describe_topic_partitions", {"topics": [wanted[0], wanted[0]]}, ordered=True)
    s.ask("all topics", "describe_topic_partitions", {"topics": []}, only_own=True, ordered=True)
    s.ask("null list", "describe_topic_partitions", {"topics": None}, only_own=True, ordered=True)


@scenario("describe_cluster")
def describe_cluster(s: Session, version: int) -> None:
    s.ask("cluster", "describe_cluster", {})
    s.ask("authorized operations", "describe_cluster", {"include_cluster_authorized_operations": True})
    s.ask("with fenced brokers", "describe_cluster", {"include_fenced_brokers": True})
    for endpoint_type in (0, 2, 3, -1):
        s.ask(f"endpoint type {endpoint_type}", "describe_cluster", {"endpoint_type": endpoint_type})
